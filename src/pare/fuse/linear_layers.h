// The layers of a graph that are one matrix product of their input, y = W x + b place by place: without groups, with
// weights of their own. What a regression can fit.
//
// Pure functions and values; any thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "pare/analysis/layers.h"
#include "pare/graph.h"

namespace pare {

// In the graph's order. A layer is left out whose weight or bias other nodes read too, or whose bias is no vector.
std::vector<LinearLayer> linear_layers(const Graph& graph);

// The graph with a bias of zero in every linear layer that has none and can take one, except the layers that make the
// values `but`.
Graph with_biases(Graph graph, const std::set<std::string>& but = {});

inline bool has_bias(const Graph& graph, const LinearLayer& layer) { return graph.nodes[layer.node].has_input(2); }
const at::Tensor& bias_of(const Graph& graph, const LinearLayer& layer);

at::Tensor weight_matrix(const Graph& graph, const LinearLayer& layer);  // W [q, d], in double
// The graph with another weight matrix and, where the layer has one, bias.
void set_weight_matrix(Graph& graph, const LinearLayer& layer, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace pare
