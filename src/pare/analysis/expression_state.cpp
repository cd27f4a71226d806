#include "pare/analysis/expression_state.h"

#include <ATen/ATen.h>

#include <map>

namespace pare {

using Kind = ExpressionKind;

namespace {
constexpr int64_t kLargestConstant = 1 << 16;
}

ExpressionId ExpressionState::add(Expression expression) {
  for (const ExpressionId operand : expression.operands)
    if (operand == kUnknown) return kUnknown;
  result.list.push_back(std::move(expression));
  return static_cast<ExpressionId>(result.list.size()) - 1;
}

Ids ExpressionState::ids(const std::string& value) {
  if (const auto found = result.values.find(value); found != result.values.end()) return found->second;
  const auto constant = graph.tensors.find(value);
  if (constant != graph.tensors.end() && constant->second.is_floating_point() &&
      constant->second.numel() <= kLargestConstant && at::isfinite(constant->second).all().item<bool>())
    return constants(constant->second);
  const TensorType* known = type(value);
  return at::full(Shape(known != nullptr ? known->dims.size() : 0, 1), kUnknown, at::kLong);
}

Ids ExpressionState::constants(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.to(at::kDouble).contiguous();
  Ids made_ids = at::empty(tensor.sizes(), at::kLong);
  std::map<double, ExpressionId> made;
  for (int64_t i = 0; i < numbers.numel(); ++i) {
    const double number = numbers.data_ptr<double>()[i];
    const auto [found, is_new] = made.try_emplace(number, kUnknown);
    if (is_new) found->second = add({.kind = Kind::constant, .shift = number});
    made_ids.data_ptr<int64_t>()[i] = found->second;
  }
  return compress_ids(made_ids);
}

Ids ExpressionState::mapped(const Ids& from, const std::function<ExpressionId(ExpressionId)>& function) const {
  std::map<ExpressionId, ExpressionId> made = {{kUnknown, kUnknown}};
  const Ids flat = from.contiguous();
  Ids made_ids = at::empty(from.sizes(), at::kLong);
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const ExpressionId id = flat.data_ptr<int64_t>()[i];
    const auto [found, is_new] = made.try_emplace(id, kUnknown);
    if (is_new) found->second = function(id);
    made_ids.data_ptr<int64_t>()[i] = found->second;
  }
  return made_ids;
}

ExpressionId ExpressionState::affine(size_t n, ExpressionId x, double scale, double shift) {
  return add({.kind = Kind::affine, .node = n, .operands = {x}, .scale = scale, .shift = shift});
}

Ids ExpressionState::applied(size_t n, const Ids& x, Law law, bool elementwise) {
  if (elementwise && law == Law::average) return x;  // Identity, Dropout
  return mapped(x, [&](ExpressionId id) {
    return add({.kind = Kind::function, .node = n, .operands = {id}, .law = law, .elementwise = elementwise});
  });
}

std::optional<std::vector<ExpressionId>> ExpressionState::along_channels(const std::string& value) const {
  const TensorType* known = type(value);
  if (known == nullptr || known->rank() < 2) return {};
  return result.along(value, 1, known->dims[1]);
}

Ids ExpressionState::channel_ids(const std::vector<ExpressionId>& list, size_t rank) {
  Shape shape(rank, 1);
  shape[1] = static_cast<int64_t>(list.size());
  return at::tensor(list, at::kLong).reshape(shape);
}

}  // namespace pare
