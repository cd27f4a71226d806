// What a channel is: an expression over the rows of the layers that make it, for every place of every value.
//
// Like channel labels (ops/labels.h), a value carries a tensor of ids of its own rank, with extent 1 along the axes on
// which they do not vary; here an id names an expression. Every channel that a layer makes is a row of its weight;
// batch norms, added and multiplied constants are affine; activations and windows (pools, resizes) are functions that
// treat every channel alike and differ in what they let pass (Law); operators that only move data are executed on the
// ids. What has no rule is unknown, and channels that it reads are listed as read without a weight that could take them
// over.
//
// So two places of a reader's axis can be compared: whether they come by the same steps (a skeleton), or are even
// proportional.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/ops/op.h"

namespace pare {

using ExpressionId = int64_t;
inline constexpr ExpressionId kUnknown = 0;

enum class ExpressionKind {
  unknown,
  constant,   // shift
  row,        // what a layer makes with one row of its weight, plus shift
  affine,     // scale·x + shift
  norm,       // a batch norm: γ (x − μ)/σ + β
  function,   // the same for every channel, as its law says
  depthwise,  // a kernel of its own, plus shift
  sum,
  product,
  extremum,  // Max, Min
  at,        // the entries of x at one pattern of positions
};

struct Expression {
  ExpressionKind kind = ExpressionKind::unknown;
  size_t node = 0;
  std::vector<ExpressionId> operands = {};
  double scale = 1;
  double shift = 0;
  std::array<double, 4> norm = {};  // γ, β, μ, σ
  Law law = Law::rigid;
  bool elementwise = false;     // of a function: no window
  bool keeps_constants = true;  // of a depthwise layer: no zeros pad the border
  int64_t place = 0;            // of a row or kernel along its weight's axis; of `at` the pattern
  int64_t part = 0;             // of a row: the group of its convolution
};

struct ChannelExpressions {
  std::vector<Expression> list;              // by id
  std::map<std::string, at::Tensor> values;  // int64 ids; a value that is missing is unknown
  std::map<int64_t, std::string> unfolded;   // channels that something reads without a weight, and what

  const Expression& operator[](ExpressionId id) const { return list[static_cast<size_t>(id)]; }
  // Ids along one axis; unknown throughout where they vary along another one too.
  std::vector<ExpressionId> along(const std::string& value, int64_t axis, int64_t extent) const;
};

ChannelExpressions channel_expressions(const Graph& graph, const ChannelMap& map);

// The weights of rows or kernels at `places`, as rows [places, d]: those of a `row` or `depthwise` expression of this
// node and part. In the weight's precision, at least single.
at::Tensor weight_rows(const Graph& graph, const Expression& expression, const std::vector<int64_t>& places);

}  // namespace pare
