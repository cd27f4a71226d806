// Which tensors of a graph are parameters, and which are constants that merely happen to be tensors.
//
// ONNX does not say. What an operator says of its inputs decides: weights and biases of linear layers, scales and
// shifts of normalisations, slopes, tables of embeddings. A constant of Add or Mul is a parameter where the other
// operand comes from a layer that has parameters (a bias after a matrix product, a decomposed batch norm, a position
// embedding, a scaled branch); not on the way from the graph's input (normalisation), nor on attention scores, which
// are products of two computed values (masks), nor where its values are those of a mask or a single number. Nor is
// padding with one number, but tokens that are joined to features (a class token) are.
#pragma once

#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

// Tensors that training changes: weights, biases, scales and slopes; not statistics, masks and other constants. By
// name.
std::vector<std::string> trained_tensors(const Graph& graph);

}  // namespace pare
