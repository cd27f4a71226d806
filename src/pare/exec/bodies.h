// The subgraphs of a node (If, Loop, Scan), made ready to run. What they read from outside is given to them as inputs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

class Program;

class NodeBodies {
 public:
  NodeBodies(const Graph& graph, const Node& node);
  ~NodeBodies();

  // The outputs of the subgraph of an attribute. `captured` are the values of node.captures. Any thread.
  std::vector<at::Tensor> run(const std::string& attribute, std::span<const at::Tensor> inputs,
                              std::span<const at::Tensor> captured);

 private:
  using Key = std::pair<std::string, std::vector<at::ScalarType>>;  // an attribute, and the types of its inputs

  std::shared_ptr<const Program> ready(const std::string& attribute, std::span<const at::Tensor> all);

  Graph scope_;  // what a subgraph has to know of the graph around it, and no more
  Node node_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Program>> programs_;
};

}  // namespace pare
