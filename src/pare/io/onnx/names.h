// Names that are free in a graph, its subgraphs included. core's fresh_name looks through the whole graph at each call;
// this remembers what it saw.
#pragma once

#include <map>
#include <string>
#include <unordered_set>

#include "pare/graph.h"

namespace pare {

class FreeNames {
 public:
  explicit FreeNames(const Graph& graph);
  // False when it was taken already.
  bool take(const std::string& name) { return taken_.insert(name).second; }
  // `base`, else `base_1`, `base_2`…; taken from now on.
  std::string fresh(const std::string& base);

 private:
  std::unordered_set<std::string> taken_;
  std::map<std::string, int> next_;
};

}  // namespace pare
