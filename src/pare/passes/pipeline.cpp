#include "pare/passes/pipeline.h"

#include <chrono>

#include "pare/error.h"

namespace pare {

Graph Pipeline::run(const std::string& name, const std::function<Graph(const Graph&)>& pass, const Graph& graph) {
  const auto start = std::chrono::steady_clock::now();
  Graph result = pass(graph);
  try {
    verify(result);
  } catch (const Error& error) {
    throw Error(ErrorKind::failed, name, "the pass returned a graph that does not hold together: {}", error.what());
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  log_.push_back({name, taken.count(), graph.nodes.size(), result.nodes.size()});
  return result;
}

}  // namespace pare
