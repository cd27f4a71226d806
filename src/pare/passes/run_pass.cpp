#include "pare/passes/run_pass.h"

#include "pare/error.h"

namespace pare {

Graph run_pass(const std::string& name, const std::function<Graph(const Graph&)>& pass, const Graph& graph) {
  Graph result = pass(graph);
  try {
    verify(result);
  } catch (const Error& error) {
    throw Error(ErrorKind::failed, name, "the pass returned a graph that does not hold together: {}", error.what());
  }
  return result;
}

}  // namespace pare
