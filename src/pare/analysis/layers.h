// Linear layers (LinearLayer of ops/traits.h) of a graph: nodes that multiply their input by a constant weight, seen
// alike whatever operator they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/ops/traits.h"

namespace pare {

// A node that multiplies a computed value by a constant, its second input: matrices and kernels, no stacks of matrices.
std::optional<LinearLayer> scaled_layer_of(const Graph& graph, size_t node);
// The same, and α = β = 1.
std::optional<LinearLayer> layer_of(const Graph& graph, size_t node);

// The only node that reads the first output of `node`, unless that output is read elsewhere too or is a graph output.
std::optional<size_t> only_reader(const Graph& graph, const Usage& usage, size_t node);

// Parameters of a BatchNormalization, in double.
struct NormParameters {
  at::Tensor gamma, beta, mean, sigma;  // σ = sqrt(var + ε)
};
// Nothing when the node is no BatchNormalization with constant parameters, or normalises by its batch.
std::optional<NormParameters> norm_parameters(const Graph& graph, size_t node);

// Gives input `input` of the node another constant. Its name stays where no other node reads the old one; otherwise it
// gets a new one.
void replace_constant(Graph& graph, size_t node, size_t input, const at::Tensor& value);

// Adds `offset` [out channels] to what the layer's product gives: to its bias, or else to the running mean of the batch
// norm that alone reads it, or else to the constant that is alone added to it, or else to a new bias (MatMul: a new
// Add).
void add_offset(Graph& graph, const LinearLayer& layer, const at::Tensor& offset);

}  // namespace pare
