// A pass on a model that somebody gave, verified.
#pragma once

#include <functional>
#include <string>

#include "pare/graph.h"

namespace pare {

// What `pass` makes of the graph. Error{failed} that names the pass where the graph it returns does not hold together;
// the one given stays as it was.
Graph run_pass(const std::string& name, const std::function<Graph(const Graph&)>& pass, const Graph& graph);

}  // namespace pare
