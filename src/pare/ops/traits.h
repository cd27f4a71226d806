// What kind of function an operator is. Each says it once, in the list of its family; whatever treats operators alike
// (relevance walks, channel expressions, training, masks, fusion) asks here and keeps no names of its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "pare/graph.h"

namespace pare {

enum class OpKind : uint8_t {
  other,
  linear,         // a product with weights: Conv, Gemm, MatMul
  activation,     // a nonlinear function of each element, as networks have between their layers
  function,       // another function of each element: Exp, Sqrt
  same,           // its first input as it is: Identity, Cast, Dropout
  sum,            // of its inputs, with signs or in equal parts: Add, Sub, Sum, Mean
  product,        // Mul, Div
  average,        // a mean or sum over places, or axes
  interpolation,  // Resize
  maximum,        // the largest (or smallest) over places, or axes
  choice,         // the largest (or smallest) of its inputs, element by element
  reshape,        // the same elements in the same order: Reshape, Flatten, Squeeze
  permutation,    // the same elements in another order: Transpose, DepthToSpace
  repetition,     // its elements several times: Expand, Tile
  selection,      // some of its elements: Slice, Split, Gather
  join,           // Concat
  padding,        // its elements, and others around them
  normalization,  // by statistics of channels, samples or groups
  softmax,        // makes shares of one: Softmax, LogSoftmax
  extents,        // made of the shape of its input alone: Shape, Size
  filled,         // one number, as often as its input says: ConstantOfShape
  random,
};

// Elements of its first input (of every input, where it joins) in other places; Pad adds some.
constexpr bool moves_elements(OpKind kind) { return kind >= OpKind::reshape && kind <= OpKind::padding; }
// Every element for itself, by its first input.
constexpr bool is_elementwise(OpKind kind) { return kind >= OpKind::activation && kind <= OpKind::same; }

// What passes a function f of a channel x, S > 0 unless it is linear:
enum class Law : uint8_t {
  average,      // f(S x + B) = S f(x) + B, linear
  linear,       // f(S x) = S f(x) for any S
  order,        // f(S x + B) = S f(x) + B for S > 0
  homogeneous,  // f(S x) = S f(x) for S > 0
  rigid,        // nothing but x itself
};

// Some of an operator's first inputs.
struct InputSet {
  uint8_t bits = 0;
  constexpr InputSet() = default;
  constexpr InputSet(std::initializer_list<int> inputs) {
    for (const int i : inputs) bits = static_cast<uint8_t>(bits | 1 << i);
  }
  constexpr bool contains(size_t input) const { return input < 8 && (bits >> input & 1) != 0; }
};

// A linear node, y = α W x + β b at every place: which of its inputs is W, and how W is stored.
struct LinearLayer {
  size_t node = 0;          // of the graph
  size_t weight = 1;        // the input that is W
  int64_t groups = 1;       // of a convolution
  int64_t out_axis = 0;     // of W: makes channels
  int64_t in_axis = 1;      // of W: sums over channels
  int64_t value_axis = 1;   // channels of x and y: 1 of convolutions; −1 of matrix products, −2 where W comes first
  bool transposed = false;  // a convolution with W [inputs, outputs / groups, …]
  bool takes_bias = true;   // as input 2
  double alpha = 1;
  double beta = 1;

  bool is_convolution() const { return value_axis == 1; }
};
// Of a linear operator whose input `weight` has so many axes. Nothing where it does not multiply by that input.
using LinearFunction = std::optional<LinearLayer> (*)(const Node& node, size_t weight, int64_t rank);

struct OpTraits {
  OpKind kind = OpKind::other;
  std::optional<Law> law = {};  // of a channel, whatever the attributes
  InputSet learned = {};        // trained, where they are constants
  InputSet statistics = {};     // collected in training
  LinearFunction linear = nullptr;
  bool probabilities = false;  // of scores, in the order of scores
  bool gate = false;           // between 0 and 1: how much of another value passes
  bool quantized = false;      // makes integers of numbers or numbers of integers, or multiplies integers
  bool own_types = false;      // takes half precision as it is; others are given float in its place
  uint8_t typed_like = 0;      // the first input that has the type of the output
  uint8_t target_shape = 0;    // the input that says which shape the output has; 0: none does
};

// Those of the node's operator; of an unknown one, none.
const OpTraits& traits_of(const Node& node);
inline OpKind kind_of(const Node& node) { return traits_of(node).kind; }
// The one operator whose inputs several methods know by their numbers: scale, shift, mean, variance from 1 on.
inline bool is_batch_norm(const Node& node) { return node.op == "BatchNormalization" && node.domain.empty(); }
std::optional<LinearLayer> linear_layer(const Node& node, size_t weight, int64_t rank);

}  // namespace pare
