// The layers of a graph that are a matrix product of their input, y = W x + b place by place: Conv without groups, Gemm
// and MatMul with constant weights. What a regression can fit.
//
// Pure functions and values; any thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "pare/core/graph.h"

namespace pare {

struct LinearLayer {
  size_t node = 0;
  std::string input, output;  // values
  std::string weight, bias;   // tensors; no bias: empty
};

// In the graph's order. A weight that several nodes share is left out.
std::vector<LinearLayer> linear_layers(const Graph& graph);

// The graph with a bias of zero in every linear layer that has none and can take one (Conv, Gemm), but those that make
// the values `but`.
Graph with_biases(Graph graph, const std::set<std::string>& but = {});

at::Tensor weight_matrix(const Graph& graph, const LinearLayer& layer);  // W [q, d]
// The graph with another weight matrix and, where the layer has one, bias.
void set_weight_matrix(Graph& graph, const LinearLayer& layer, const at::Tensor& weight, const at::Tensor& bias);

// x and y of every place, [n, d] and [n, q], with every `stride`-th place left in.
at::Tensor input_rows(const Graph& graph, const LinearLayer& layer, const at::Tensor& input, int64_t stride);
at::Tensor output_rows(const Graph& graph, const LinearLayer& layer, const at::Tensor& output, int64_t stride);

}  // namespace pare
