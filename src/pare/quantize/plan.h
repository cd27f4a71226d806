// What of a network is quantised: its linear layers with constant weights, the activations that they read, and what
// carries integers from one of them to the next, in the form in which runtimes replace DequantizeLinear → operator →
// QuantizeLinear by one integer operator.
//
// A convolution's output is an integer after the Relu or Clip that alone reads it; a matrix product may give floats.
// Sums, joins and averages whose result is an integer read integers; what only moves elements has the range of what it
// moves.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pare/analysis/layers.h"
#include "pare/graph.h"
#include "pare/quantize.h"

namespace pare {

struct QuantizationPlan {
  std::vector<LinearLayer> layers;            // that are quantised, in the order of the graph
  std::vector<QuantizedLayer> left;           // those that are not, with the reason
  std::map<std::string, std::string> values;  // activations, and the value that has their range: themselves, or what
                                              // they are moved from
};

// Error{usage} when a glob of `skip` matches no layer, when nothing is left to quantise, and when the graph is
// quantised already.
QuantizationPlan plan_quantization(const Graph& graph, const QuantizeOptions& options);

// Error{usage} for a graph that quantises or dequantises anything.
void refuse_quantized(const Graph& graph);

// What a layer is called: its node's name, or else its output.
std::string layer_name(const Graph& graph, const LinearLayer& layer);

// The node that alone reads the first output of `node` and that runtimes take into it: Relu, or Clip between constants.
std::optional<size_t> fused_activation(const Graph& graph, const Usage& usage, size_t node);

}  // namespace pare
