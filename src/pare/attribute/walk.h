// A walk back over the values of one forward: from the scores down to a layer or the input, every operator passes the
// relevance of its output on to its inputs.
//
// Most operators need no method's opinion:
//   activations, Dropout, products with constants                                         R passes unchanged
//   data movement, and maxima (the winner takes all)                                      R_x = Jᵀ R
//   a product with a gate (x · sigmoid(…))                                                 x takes all
// What is linear in its input is left to the method, as one rule over a LinearStep: convolutions and matrix products,
// averages (weight 1 on the operator itself), sums of several values (the values stacked, weight 1), so that residual
// connections split relevance as the method's layers do, and added constants, of which a batch norm that could not be
// folded has one as well; one that is added to a layer without a bias is the layer's own. An operator of neither kind
// is Error{unsupported} by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

enum class LinearKind {
  convolution,  // Conv, ConvTranspose
  dense,        // Gemm, MatMul
  average,      // AveragePool, ReduceMean, ReduceSum, Resize …: weight 1
  sum,          // Add, Sub, Sum, Mean of computed values: x holds them stacked along a new first axis
  shift,        // a constant is added: x holds the one value as a sum does, weight 1, the constant is the bias
};

struct LinearStep {
  const Node& node;
  LinearKind kind;
  at::Tensor x;
  at::Tensor weight;   // with the sign of each connection
  at::Tensor bias;     // broadcasts to the output; undefined without
  bool head = false;   // a layer without another between it and the scores
  bool first = false;  // a layer or a shift that reads the graph's input, normalised or not
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)> apply;  // without the bias

  bool layer() const { return kind == LinearKind::convolution || kind == LinearKind::dense; }
};

// f(x; W) of a step and its transpose, for any x and W of the step's shapes.
class Applied {
 public:
  Applied(const LinearStep& step, const at::Tensor& x, const at::Tensor& weight);
  const at::Tensor& z() const { return z_; }
  at::Tensor transposed(const at::Tensor& s) const;  // Jᵀ s

 private:
  at::Tensor x_;
  at::Tensor recorded_;
  at::Tensor z_;
};

// One (x, W) with which a step is applied.
struct Operand {
  at::Tensor x;
  at::Tensor weight;
};

struct ShareOptions {
  at::Tensor bias;
  double epsilon = 0;  // above 0 it keeps Z away from zero: Z + ε sign(Z)
  // Outputs with Z = 0 lose nothing: the sizes |x| and |W| of the step share what they have, or |W| where x is 0.
  bool everywhere = false;
};

// The one formula behind every rule: several operands share R in proportion to what they contribute to each output,
//   R_x = sum_t x_t ∘ J_tᵀ (R / Z),   Z = sum_t f(x_t; W_t) + bias,   0/0 = 0.
at::Tensor share(const LinearStep& step, const std::vector<Operand>& operands, const at::Tensor& relevance,
                 const ShareOptions& options = {});

using LinearRule = std::function<at::Tensor(const LinearStep& step, const at::Tensor& relevance)>;

struct Walked {
  at::Tensor relevance;  // of `to`
  at::Tensor beside;     // [N]: what goes to values that `to` does not feed, by a path around it
};

// `values` holds every value between `to` and the scores (a run's taps); `start` is the relevance of the scores, the
// graph's first output. `to` is a value or the graph's input.
Walked walk_back(const Graph& graph, const TensorMap& values, const at::Tensor& start, const std::string& to,
                 const LinearRule& rule);

}  // namespace pare
