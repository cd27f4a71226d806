// A model as attribution methods see it: which value holds the class scores, which layer a map is taken at, and the
// graph in two parts around that layer.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

// The graph with batch norms folded and one output: the scores before a final Softmax, LogSoftmax or Sigmoid. The
// values that `observed` names, as find_value() takes them, stay what they are: no norm is folded into them.
// Error{shape} unless it has exactly one input, Error{usage} when the scores do not depend on such a value. The
// function of what is kept is unchanged.
Graph explained_graph(const Graph& graph, const std::vector<std::string>& observed = {});

// A value with a spatial extent (height or width above 1) on the way from the image to the scores.
struct SpatialPlace {
  std::string value;
  int64_t height = 0, width = 0;
  bool activation = false;
  bool alone = false;  // everything on the way passes through it
};
// In the order of the nodes, up to where everything passes through a single place of the picture.
std::vector<SpatialPlace> spatial_places(const Graph& graph);

// The value of the last activation on the way to the scores that still has a spatial extent.
// Where it is one of several branches, that of their join; where that has no extent, of the last activation that all
// pass through; without any, the last such value of any other layer. Error{shape} when there is none.
std::string last_spatial_activation(const Graph& graph);
// The last value with a spatial extent that everything passes through, pools included: where compression matches maps.
std::string last_spatial_value(const Graph& graph);

// A value by its own name or by its node's; "input" is the graph's input. Error{usage} when there is none.
std::string find_value(const Graph& graph, const std::string& name);

// The nodes up to the one that makes `value`, and the rest. `back` reads the values of `boundary`, of which `value` is
// the first, in this order; `front` gives them.
struct Cut {
  Graph front, back;
  std::vector<std::string> boundary;
};
Cut cut_after(const Graph& graph, const std::string& value);

// The scores themselves. Error{unsupported}, at the layer, when no gradient passes from them to anything.
const at::Tensor& with_gradient(const at::Tensor& scores, const std::string& layer);

// int64 [N]: the class with the largest score of each row.
at::Tensor top_classes(const at::Tensor& scores);
// [N]: the score of each row's class. Error{usage} for a class out of range.
at::Tensor class_scores(const at::Tensor& scores, const at::Tensor& classes);

}  // namespace pare
