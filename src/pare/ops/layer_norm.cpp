// Normalization by statistics of whole channels axes: LayerNormalization, RMSNormalization (which does not centre), and
// com.microsoft's forms of both, with and without the sum of a residual stream before them.
#include <ATen/ATen.h>

#include <cmath>

#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace layer_norm {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

std::vector<int64_t> trailing_axes(const Node& node, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t a = normalized_axis(node.integer("axis", -1), rank, node); a < rank; ++a) axes.push_back(a);
  return axes;
}

Tensors centred(const Tensor& x, int64_t first, const Tensor& scale, const Tensor& bias, double epsilon) {
  const Shape normalized(x.sizes().begin() + first, x.sizes().end());
  auto [y, mean, inverse_std] = at::native_layer_norm(x, normalized, scale.expand(normalized),
                                                      bias.defined() ? bias.expand(normalized) : Tensor(), epsilon);
  return {y, mean, inverse_std};
}

// y = x / sqrt(mean(x²) + ε) · scale
Tensors uncentred(const Tensor& x, int64_t first, const Tensor& scale, double epsilon) {
  Shape axes;
  for (int64_t a = first; a < x.dim(); ++a) axes.push_back(a);
  const Tensor inverse = at::rsqrt(x.square().mean(axes, /*keepdim=*/true) + epsilon);
  return {x * inverse * scale, inverse};
}

Tensors layer_norm(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t first = trailing_axes(context.node, x.dim()).front();
  return centred(x, first, context.in(1), context.has(2) ? context.in(2) : Tensor(),
                 context.node.real("epsilon", 1e-5));
}

// Statistics of half precision are in float, whatever `stash_type` says of how they are computed.
TensorType statistics_type(const TensorType& x, const std::vector<int64_t>& axes) {
  TensorType type = x;
  for (const int64_t axis : axes) type.dims[static_cast<size_t>(axis)] = 1;
  if (type.dtype == at::kHalf || type.dtype == at::kBFloat16) type.dtype = at::kFloat;
  return type;
}

std::vector<TensorType> infer_layer_norm(const InferContext& context) {
  const TensorType statistics = statistics_type(context.in(0), trailing_axes(context.node, context.in(0).rank()));
  return {context.in(0), statistics, statistics};
}

// The scale may have fewer axes than what is normalized, and not more.
void check_scale(const Node& node, const Tensor& x, const Tensor& scale) {
  if (!at::is_expandable_to(scale.sizes(), x.sizes()))
    throw Error(ErrorKind::shape, describe(node), "a scale of {} for {}", to_string(scale.sizes()),
                to_string(x.sizes()));
}

Tensors rms_norm(const EvalContext& context) {
  const Tensor& x = context.in(0);
  check_scale(context.node, x, context.in(1));
  return uncentred(x, trailing_axes(context.node, x.dim()).front(), context.in(1), context.node.real("epsilon", 1e-5));
}

std::vector<TensorType> infer_rms_norm(const InferContext& context) {
  return {context.in(0), statistics_type(context.in(0), trailing_axes(context.node, context.in(0).rank()))};
}

// The only one of `axes` along which the ids of input 0 vary; −1: none or several.
int64_t channel_axis_among(LabelContext& context, const std::vector<int64_t>& axes) {
  int64_t found = -1;
  for (const int64_t axis : axes) {
    if (!context.ids(0).defined() || context.ids(0).size(axis) == 1) continue;
    if (found >= 0) return -1;
    found = axis;
  }
  return found;
}

bool are_parameters(const LabelContext& context, size_t first) {
  for (size_t i = first; i < context.inputs.size(); ++i)
    if (context.has(i) && !context.is_parameter(i)) return false;
  return true;
}

void slot_scales(LabelContext& context, size_t first, int64_t axis, const std::vector<int64_t>& ids) {
  for (size_t i = first; i < context.inputs.size(); ++i) {
    const int64_t own = axis - (context.inputs[0].rank() - context.inputs[i].rank());
    if (context.has(i) && own >= 0 && context.inputs[i].dims[static_cast<size_t>(own)] > 1)
      context.slot(i, own, ids, SlotRole::pass);
  }
}

// Do the ids of input 0 vary along another axis, too (the heads of normalised queries and keys)?
bool varies_beside(const LabelContext& context, int64_t axis) {
  const Tensor& ids = context.ids(0);
  return ids.size(axis) < ids.numel();
}

// Heads whose dimensions a norm mixes go as wholes.
void label_normalized_heads(LabelContext& context, int64_t axis) {
  const Tensor& ids = context.ids(0);
  const Tensor first = ids.narrow(axis, 0, 1);
  context.unite(first.expand(ids.sizes()), ids,
                fmt::format("{} mixes it with a part without channels", describe(context.node)));
  context.set(0, first);
}

// Statistics over all channels are the same in any order, and every channel has its own scale and shift. Where nothing
// is subtracted, channels that go count as zeros in the mean of the squares: rewrite_rms_norm.
template <bool centring>
void labels_layer_norm(LabelContext& context) {
  const auto axes = trailing_axes(context.node, context.inputs[0].rank());
  const int64_t axis = channel_axis_among(context, axes);
  if (axis < 0 || !are_parameters(context, 1)) return labels_mixed_along(context, axes);
  const bool heads = !context.for_exchange() && varies_beside(context, axis);
  if (heads && !context.by_dimension()) return label_normalized_heads(context, axis);
  const bool removable = !context.for_exchange() && !centring && axes.size() == 1;
  if (!context.for_exchange() && !removable) return labels_mixed_along(context, axes);
  const auto ids = context.along(0, axis);
  if (!removable) context.keep(context.ids(0), fmt::format("{} mixes all channels", describe(context.node)));
  slot_scales(context, 1, axis, ids);
  context.set(0, ids, axis);
}

// Of D channels d are left, the others count as zeros: Σx²/D + ε = (d/D) (Σx²/d + ε D/d).
void rewrite_rms_norm(RewriteContext& context) {
  const int64_t axis = context.inputs[0].rank() - 1;
  const at::Tensor& keep = context.input_keep[0];
  if (!keep.defined() || keep.size(axis) == 1) return;
  const auto left = static_cast<double>(context.kept_in(0, axis).size());
  const double ratio = static_cast<double>(context.inputs[0].dims.back()) / left;
  context.node.attributes["epsilon"] = context.node.real("epsilon", 1e-5) * ratio;
  context.replace(1, context.graph.tensor(context.node.inputs[1]) * std::sqrt(ratio));
}

// --- com.microsoft: y = norm(input + skip + bias). Outputs y, mean, inverse deviation, sum.

template <bool centring>
Tensors skip_norm(const EvalContext& context) {
  constexpr size_t bias = centring ? 4 : 3;
  Tensor sum = context.in(0) + context.in(1);
  if (context.has(bias)) sum = sum + context.in(bias);
  if (sum.sizes() != context.in(0).sizes())
    throw Error(ErrorKind::shape, describe(context.node), "adds {} to {}", to_string(context.in(1).sizes()),
                to_string(context.in(0).sizes()));
  if (sum.dim() == 0) throw Error(ErrorKind::shape, describe(context.node), "normalises a single number");
  const double epsilon = context.node.real("epsilon", 1e-12);
  if (!centring) {
    check_scale(context.node, sum, context.in(2));
    const auto y = uncentred(sum, sum.dim() - 1, context.in(2), epsilon);
    return {y[0], Tensor(), y[1], sum};
  }
  const auto y = centred(sum, sum.dim() - 1, context.in(2), context.has(3) ? context.in(3) : Tensor(), epsilon);
  return {y[0], y[1], y[2], sum};
}

std::vector<TensorType> infer_skip_norm(const InferContext& context) {
  const TensorType& x = context.in(0);
  if (x.rank() == 0) throw Error(ErrorKind::shape, describe(context.node), "normalises a single number");
  const TensorType statistics = statistics_type(x, {x.rank() - 1});
  return {x, statistics, statistics, x};
}

// The two streams are one; what is true of the norm is true of both.
void labels_skip_norm(LabelContext& context) {
  const int64_t axis = context.inputs[0].rank() - 1;
  const std::string joins = fmt::format("{} joins it with what has no channels", describe(context.node));
  if (context.ids(0).defined() && context.ids(1).defined() && context.ids(0).sizes() == context.ids(1).sizes())
    context.unite(context.ids(0), context.ids(1), joins);
  else
    for (const size_t i : {0, 1})
      if (context.ids(i).defined()) context.freeze(context.ids(i), joins);
  if (!context.ids(0).defined()) return;
  const std::string mixes = fmt::format("{} mixes all channels", describe(context.node));
  const bool last = context.ids(0).size(axis) == context.ids(0).numel();
  if (!context.for_exchange() || !last || !are_parameters(context, 2)) return context.freeze(context.ids(0), mixes);
  const auto ids = context.along(0, axis);
  context.keep(context.ids(0), mixes);
  slot_scales(context, 2, axis, ids);
  for (const size_t out : {0, 3})
    if (out < context.outputs.size()) context.set(out, ids, axis);
}

Cost cost_normalize(const CostContext& context) { return {.flops = 4 * context.outputs[0].count()}; }

constexpr OpDef norm(std::string_view type, int since, bool centring) {
  return {.type = type,
          .attributes = "axis epsilon stash_type",
          .since = since,
          .min_inputs = 2,
          .max_inputs = centring ? 3U : 2U,
          .evaluate = centring ? layer_norm : rms_norm,
          .infer = centring ? infer_layer_norm : infer_rms_norm,
          .cost = cost_normalize,
          .labels = centring ? labels_layer_norm<true> : labels_layer_norm<false>,
          .rewrite = centring ? nullptr : rewrite_rms_norm,
          .traits = {.kind = OpKind::normalization, .learned = {1, 2}}};
}

constexpr OpDef skip(std::string_view type, bool centring) {
  return {.type = type,
          .attributes = "epsilon",
          .min_inputs = 3,
          .max_inputs = centring ? 5U : 4U,
          .evaluate = centring ? skip_norm<true> : skip_norm<false>,
          .infer = infer_skip_norm,
          .cost = cost_normalize,
          .labels = labels_skip_norm,
          .traits = {.learned = {2, 3, 4}}};
}

constexpr OpDef kOps[] = {
    norm("LayerNormalization", 17, true),
    norm("RMSNormalization", 23, false),
    norm("SimplifiedLayerNormalization", 1, false),  // ONNX Runtime writes it into ONNX's own domain, and into its own
    norm("com.microsoft.SimplifiedLayerNormalization", 1, false),
    skip("com.microsoft.SkipLayerNormalization", true),
    skip("com.microsoft.SkipSimplifiedLayerNormalization", false),
};

}  // namespace layer_norm
}  // namespace

std::span<const OpDef> layer_norm_ops() { return layer_norm::kOps; }

}  // namespace pare
