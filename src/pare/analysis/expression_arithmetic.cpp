// Arithmetic on channels: sums, products and extrema of several, and constants that make affine steps.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "pare/analysis/expression_state.h"

#include "pare/ops/op.h"

namespace pare {

namespace {

using Kind = ExpressionKind;

class Arithmetic {
 public:
  Arithmetic(ExpressionState& state, size_t n) : state_(state), n_(n), node_(state.graph.nodes[n]) {}

  std::vector<Ids> run() {
    std::vector<Ids> operands;
    for (const auto& input : node_.inputs) operands.push_back(state_.ids(input));
    const std::vector<Ids> wide = at::broadcast_tensors(operands);
    if (wide.empty() || wide[0].numel() > kLargestValue) return {};
    std::vector<Ids> flat;
    for (const auto& operand : wide) flat.push_back(operand.contiguous());
    Ids result = at::empty(wide[0].sizes(), at::kLong);
    std::map<std::vector<ExpressionId>, ExpressionId> made;
    std::vector<ExpressionId> now(flat.size());
    for (int64_t i = 0; i < result.numel(); ++i) {
      for (size_t k = 0; k < flat.size(); ++k) now[k] = flat[k].data_ptr<int64_t>()[i];
      const auto [found, is_new] = made.try_emplace(now, kUnknown);
      if (is_new) found->second = combine(now);
      result.data_ptr<int64_t>()[i] = found->second;
    }
    Shape shape(state_.type(node_.outputs[0])->dims.size(), 1);
    std::copy(result.sizes().rbegin(), result.sizes().rend(), shape.rbegin());
    return {result.reshape(shape)};
  }

 private:
  bool is_constant(ExpressionId id) const { return state_.result[id].kind == Kind::constant; }
  double number(ExpressionId id) const { return state_.result[id].shift; }

  ExpressionId combine(const std::vector<ExpressionId>& x) {
    const std::string& op = node_.op;
    if (std::find(x.begin(), x.end(), kUnknown) != x.end()) return kUnknown;
    if (op == "Add" || op == "Sum") return sum(x);
    if (op == "Mean") return state_.affine(n_, sum(x), 1 / static_cast<double>(x.size()), 0);
    if (op == "Sub") return sum({x[0], negative(x[1])});
    if (kind_of(node_) == OpKind::choice) return state_.add({.kind = Kind::extremum, .node = n_, .operands = x});
    if (op == "PRelu")
      return state_.add(
          {.kind = Kind::function, .node = n_, .operands = x, .law = Law::homogeneous, .elementwise = true});
    if (op == "Div")
      return is_constant(x[1]) && number(x[1]) != 0 ? state_.affine(n_, x[0], 1 / number(x[1]), 0) : kUnknown;
    if (is_constant(x[0])) return state_.affine(n_, x[1], number(x[0]), 0);
    if (is_constant(x[1])) return state_.affine(n_, x[0], number(x[1]), 0);
    return state_.add({.kind = Kind::product, .node = n_, .operands = x});
  }

  ExpressionId negative(ExpressionId x) {
    return is_constant(x) ? state_.add({.kind = Kind::constant, .shift = -number(x)}) : state_.affine(n_, x, -1, 0);
  }

  ExpressionId sum(const std::vector<ExpressionId>& terms) {
    double shift = 0;
    std::vector<ExpressionId> left;
    for (const ExpressionId term : terms) {
      if (is_constant(term))
        shift += number(term);
      else
        left.push_back(term);
    }
    if (left.empty()) return state_.add({.kind = Kind::constant, .shift = shift});
    const ExpressionId all = left.size() == 1 ? left[0] : state_.add({.kind = Kind::sum, .node = n_, .operands = left});
    return left.size() == terms.size() ? all : state_.affine(n_, all, 1, shift);
  }

  ExpressionState& state_;
  const size_t n_;
  const Node& node_;
};

}  // namespace

std::vector<Ids> combined(ExpressionState& state, size_t node) { return Arithmetic(state, node).run(); }

}  // namespace pare
