// Channels that are multiples of others: v_r = S v_k + B where a reader reads them, for every input of the network.
//
// Follows from the expressions of both (analysis/channel_expressions.h) from the layers that make them on: rows of one
// weight are proportional or not; an affine step g x + h takes (S, B) to (S g_r/g_k, g_r B + h_r − S' h_k); a function
// lets pass what its law says; a depthwise layer multiplies S by the ratio of kernels; the terms of a sum need the same
// S. S = 0 is a channel that is constant.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "pare/analysis/channel_expressions.h"
#include "pare/graph.h"

namespace pare {

struct Relation {
  double scale = 0;   // S
  double offset = 0;  // B
  double size = 0;    // of the terms that B is the rest of: what rounding is measured by
};

class Copies {
 public:
  Copies(const Graph& graph, const ChannelExpressions& expressions) : graph_(graph), expressions_(expressions) {}

  // What r is of k; nothing unless it is a multiple of it, to rounding of single precision.
  std::optional<Relation> relation(ExpressionId r, ExpressionId k);

  // Two that are proportional have equal angles, up to rounding: of the rows at their roots, seen in a plane. Not a
  // number for rows of zeros.
  double angle(ExpressionId id);

 private:
  std::optional<Relation> find(ExpressionId r, ExpressionId k);
  std::optional<Relation> rows(const Expression& r, const Expression& k);
  std::optional<Relation> function(const Expression& r, const Expression& k);
  std::optional<Relation> depthwise(const Expression& r, const Expression& k);
  std::optional<Relation> operands(const Expression& r, const Expression& k);
  // s with r = s k of two rows; nothing where they are not proportional.
  std::optional<double> ratio(const Expression& r, const Expression& k) const;

  const Graph& graph_;
  const ChannelExpressions& expressions_;
  std::map<std::pair<ExpressionId, ExpressionId>, std::optional<Relation>> known_;
  std::map<std::pair<size_t, int64_t>, at::Tensor> angles_;  // by node and part: of all its rows
};

}  // namespace pare
