// The one door that every pass goes through: it times the pass, verifies the graph that it returns, and keeps a log.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

struct PassRecord {
  std::string name;
  double seconds = 0;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
};

class Pipeline {
 public:
  // Runs `pass` on the graph. An error names the pass; the graph given stays as it was.
  Graph run(const std::string& name, const std::function<Graph(const Graph&)>& pass, const Graph& graph);
  const std::vector<PassRecord>& log() const { return log_; }

 private:
  std::vector<PassRecord> log_;
};

}  // namespace pare
