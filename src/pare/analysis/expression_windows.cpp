// Operators over windows, axes and positions of a channel, which treat all channels alike.
#include <ATen/ATen.h>

#include <set>

#include "pare/analysis/expression_state.h"

#include "pare/ops/op.h"

namespace pare {

namespace {

using Kind = ExpressionKind;

class Windows {
 public:
  Windows(ExpressionState& state, size_t n) : state_(state), n_(n), node_(state.graph.nodes[n]) {}

  std::vector<Ids> run(Law law) {
    const Ids x = state_.ids(node_.inputs[0]);
    if (node_.op.starts_with("Reduce")) return reduced(law, x);
    const OpKind kind = kind_of(node_);
    const bool pads = kind == OpKind::padding;
    if (pads && along_padding(x)) return padded(x);
    const Shape &in = state_.type(node_.inputs[0])->dims, &out = state_.type(node_.outputs[0])->dims;
    for (size_t a = 0; a < in.size(); ++a) {
      const bool changes = pads || kind == OpKind::interpolation ? in[a] != out[a] : a != 1;
      if (changes && x.size(static_cast<int64_t>(a)) > 1) return {};
    }
    const Ids result = state_.applied(n_, x, law, false);
    return kind == OpKind::normalization ? scaled(result) : std::vector<Ids>{result};
  }

  std::vector<Ids> product() {
    const auto rank = static_cast<int64_t>(state_.type(node_.outputs[0])->dims.size());
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto other = state_.map.values.find(node_.inputs[1 - i]);
      if (other != state_.map.values.end() && other->second.numel() > 1) continue;
      const Ids x = state_.ids(node_.inputs[i]);
      const int64_t along = i == 0 ? -2 : -1, summed = i == 0 ? -1 : -2;
      if (x.dim() < 2 || x.size(summed) > 1 || x.numel() != x.size(along)) continue;
      if (x.numel() == 1 && x.item<int64_t>() == kUnknown) continue;
      Shape shape(static_cast<size_t>(rank), 1);
      shape[static_cast<size_t>(rank + along)] = x.size(along);
      return {state_.applied(n_, x, Law::linear, false).reshape(shape)};
    }
    return {};
  }

 private:
  // The scale and bias of an instance norm.
  std::vector<Ids> scaled(const Ids& x) {
    if (!state_.graph.is_constant(node_.inputs[1]) || !state_.graph.is_constant(node_.inputs[2])) return {};
    const Shape& dims = state_.type(node_.outputs[0])->dims;
    Shape shape(dims.size(), 1);
    shape[1] = dims[1];
    const auto in = [&](size_t i) { return state_.graph.tensor(node_.inputs[i]).to(at::kDouble).contiguous(); };
    const at::Tensor scale = in(1), shift = in(2);
    const Ids wide = x.expand(shape).contiguous();
    Ids result = at::empty(shape, at::kLong);
    for (int64_t c = 0; c < dims[1]; ++c)
      result.data_ptr<int64_t>()[c] =
          state_.affine(n_, wide.data_ptr<int64_t>()[c], scale.data_ptr<double>()[c], shift.data_ptr<double>()[c]);
    return {result};
  }

  bool along_padding(const Ids& x) const {
    const Shape &in = state_.type(node_.inputs[0])->dims, &out = state_.type(node_.outputs[0])->dims;
    for (size_t a = 0; a < in.size(); ++a)
      if (in[a] != out[a] && x.size(static_cast<int64_t>(a)) > 1) return true;
    return false;
  }

  // Constants beside the channels: the padded shortcut of a CIFAR ResNet.
  std::vector<Ids> padded(const Ids& x) {
    const TensorType* known = state_.type(node_.inputs[0]);
    if (node_.text("mode", "constant") != "constant" || known->count() > kLargestValue) return {};
    const bool has_value = node_.has_input(2);
    if (has_value && !state_.graph.is_constant(node_.inputs[2])) return {};
    const double value = has_value ? state_.graph.tensor(node_.inputs[2]).to(at::kDouble).item<double>() : 0;
    std::vector<at::Tensor> inputs = {x.expand(known->dims), at::Tensor(), at::Tensor(), at::Tensor()};
    for (const size_t i : {size_t{1}, size_t{3}})
      if (node_.has_input(i)) inputs[i] = state_.graph.tensor(node_.inputs[i]);
    inputs[2] = at::scalar_tensor(state_.add({.kind = Kind::constant, .shift = value}), at::kLong);
    return {require_op(node_).evaluate({.node = node_, .inputs = inputs})[0]};
  }

  std::vector<Ids> reduced(Law law, const Ids& x) {
    const auto rank = static_cast<int64_t>(state_.type(node_.inputs[0])->dims.size());
    std::set<int64_t> axes;
    if (node_.has_input(1)) {
      if (!state_.graph.is_constant(node_.inputs[1])) return {};
      const at::Tensor list = state_.graph.tensor(node_.inputs[1]).to(at::kLong).contiguous();
      for (int64_t i = 0; i < list.numel(); ++i) axes.insert((list.data_ptr<int64_t>()[i] + rank) % rank);
    }
    if (axes.empty() && node_.integer("noop_with_empty_axes", 0) != 0) return {x};
    for (int64_t a = 0; axes.empty() && a < rank; ++a)
      if (x.size(a) > 1) return {};
    Shape shape;
    for (int64_t a = 0; a < rank; ++a) {
      const bool gone = axes.empty() || axes.contains(a);
      if (gone && x.size(a) > 1) return {};
      if (!gone || node_.integer("keepdims", 1) != 0) shape.push_back(x.size(a));
    }
    return {state_.applied(n_, x, law, false).reshape(shape)};
  }

  ExpressionState& state_;
  const size_t n_;
  const Node& node_;
};

}  // namespace

std::vector<Ids> windowed(ExpressionState& state, size_t node, Law law) { return Windows(state, node).run(law); }

std::vector<Ids> multiplied(ExpressionState& state, size_t node) { return Windows(state, node).product(); }

}  // namespace pare
