// Normalisations: over the batch, an instance, a layer, a group, neighbouring channels.
#include <ATen/ATen.h>

#include "pare/ops/batch_norm.h"
#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace normalization {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

int64_t channels_of(const Node& node, const Tensor& x) {
  if (x.dim() < 2) throw Error(ErrorKind::shape, describe(node), "input {} has no channel axis", to_string(x.sizes()));
  return x.size(1);
}

void check_per_channel(const EvalContext& context, size_t first, size_t last) {
  const int64_t channels = channels_of(context.node, context.in(0));
  for (size_t i = first; i <= last; ++i)
    if (context.in(i).numel() != channels)
      throw Error(ErrorKind::shape, describe(context.node), "input {} has {} values for {} channels", i,
                  context.in(i).numel(), channels);
}

// ATen's kernel gives no gradient for the running statistics; this form does.
Tensor affine_batch_norm(const EvalContext& context, double epsilon) {
  const Tensor scale = context.in(1) * at::rsqrt(context.in(4) + epsilon);
  Shape per_channel(static_cast<size_t>(context.in(0).dim()), 1);
  per_channel[1] = -1;
  return context.in(0) * scale.reshape(per_channel) + (context.in(2) - context.in(3) * scale).reshape(per_channel);
}

struct Normalized {
  Tensor y, mean, variance;  // the variance is that of the batch, not of its population
  double count = 0;          // values of a channel
};

// Entries of each channel, axis 1.
double per_channel_count(const Tensor& x) {
  const int64_t count = x.numel() / std::max<int64_t>(x.size(1), 1);
  return static_cast<double>(count);
}

// Over the batches of all ranks: two sums, each of which is differentiated through.
Normalized batch_norm_over_ranks(const EvalContext& context, double epsilon) {
  const Tensor& x = context.in(0);
  std::vector<int64_t> axes = {0};
  for (int64_t axis = 2; axis < x.dim(); ++axis) axes.push_back(axis);
  Shape per_channel(static_cast<size_t>(x.dim()), 1);
  per_channel[1] = -1;
  const int64_t channels = x.size(1);
  const Tensor sums = context.sum_over_ranks(at::cat({x.sum(axes), at::full({1}, per_channel_count(x), x.options())}));
  const auto count = sums[channels].item<double>();
  const Tensor mean = sums.narrow(0, 0, channels) / count;
  const Tensor centred = x - mean.reshape(per_channel);
  const Tensor variance = context.sum_over_ranks(centred.square().sum(axes)) / count;
  const Tensor scale = context.in(1) * at::rsqrt(variance + epsilon);
  return {centred * scale.reshape(per_channel) + context.in(2).reshape(per_channel), mean.detach(), variance.detach(),
          count};
}

Normalized batch_norm_alone(const EvalContext& context, double epsilon) {
  const Tensor& x = context.in(0);
  if (suits_normalize_batch(x)) {
    const auto [y, mean, variance] = normalize_batch(x, context.in(1), context.in(2), epsilon);
    return {y, mean, variance, per_channel_count(x)};
  }
  auto [y, mean, inverse_std] =
      at::native_batch_norm(x, context.in(1), context.in(2), Tensor(), Tensor(), true, 0, epsilon);
  const at::NoGradGuard no_grad;
  return {y, mean, inverse_std.pow(-2) - epsilon, per_channel_count(x)};
}

// Inputs X, scale, B, mean, var. In training the batch's own statistics normalise, and the running ones move towards
// them: ONNX's momentum is the part that stays.
Tensors batch_norm(const EvalContext& context) {
  check_per_channel(context, 1, 4);
  const Tensor& x = context.in(0);
  const double epsilon = context.node.real("epsilon", 1e-5);
  const double keep = context.node.real("momentum", 0.9);
  const bool by_node = context.node.integer("training_mode", 0) != 0;
  if (!context.training && !by_node) {
    if (context.in(3).requires_grad() || context.in(4).requires_grad()) return {affine_batch_norm(context, epsilon)};
    return {at::batch_norm(x, context.in(1), context.in(2), context.in(3), context.in(4), false, 0, epsilon, false)};
  }

  if (x.numel() == 0)
    throw Error(ErrorKind::shape, describe(context.node), "takes the statistics of the empty {}", to_string(x.sizes()));
  const Normalized now =
      context.sum_over_ranks ? batch_norm_over_ranks(context, epsilon) : batch_norm_alone(context, epsilon);
  if (!context.update && !by_node) return {now.y};
  const at::NoGradGuard no_grad;
  const auto moved = [&](const Tensor& running, const Tensor& now) { return running * keep + now * (1 - keep); };
  if (context.update) {  // the running variance is that of the population the batch is drawn from
    context.update(3, moved(context.in(3), now.mean));
    context.update(4, moved(context.in(4), now.variance * (now.count / std::max(now.count - 1, 1.0))));
  }
  return {now.y, moved(context.in(3), now.mean), moved(context.in(4), now.variance)};
}

std::vector<TensorType> infer_batch_norm(const InferContext& context) {
  return {context.in(0), context.in(3), context.in(4)};
}

// Parameters from input `first` to `last` scale or shift the channels of axis 1.
void label_per_channel(LabelContext& context, size_t first, size_t last) {
  if (!context.ids(0).defined()) return;
  const auto ids = context.along(0, 1);
  for (size_t i = first; i <= last && i < context.inputs.size(); ++i) {
    if (!context.has(i)) continue;
    if (context.is_parameter(i))
      context.slot(i, 0, ids, SlotRole::pass);
    else
      context.freeze(ids, fmt::format("{} takes computed parameters", describe(context.node)));
  }
  context.set(0, ids, 1);
}

void labels_batch_norm(LabelContext& context) { label_per_channel(context, 1, 4); }
void labels_instance_norm(LabelContext& context) { label_per_channel(context, 1, 2); }

Tensors instance_norm(const EvalContext& context) {
  check_per_channel(context, 1, 2);
  if (context.in(0).numel() == 0) return {context.in(0)};
  return {at::instance_norm(context.in(0), context.in(1), context.in(2), Tensor(), Tensor(), true, 0,
                            context.node.real("epsilon", 1e-5), false)};
}

bool has_computed_parameters(const LabelContext& context) {
  for (size_t i = 1; i < context.inputs.size(); ++i)
    if (context.has(i) && !context.is_parameter(i)) return true;
  return false;
}

// `per_group`: scale and bias have one value per group (opset 18) instead of one per channel.
Tensors group_norm(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t channels = channels_of(context.node, x);
  const int64_t groups = context.node.integer("num_groups", 1);
  if (groups <= 0 || channels % groups != 0)
    throw Error(ErrorKind::shape, describe(context.node), "{} channels do not form {} groups", channels, groups);
  Tensor scale = context.in(1);
  Tensor bias = context.in(2);
  if (context.node.integer("per_group", 0) != 0) {
    scale = scale.repeat_interleave(channels / groups);
    bias = bias.repeat_interleave(channels / groups);
  }
  if (scale.numel() != channels || bias.numel() != channels)
    throw Error(ErrorKind::shape, describe(context.node), "{} scales and {} biases for {} channels", scale.numel(),
                bias.numel(), channels);
  if (x.numel() == 0) return {x};
  return {at::group_norm(x, groups, scale, bias, context.node.real("epsilon", 1e-5), false)};
}

void labels_channels_mixed(LabelContext& context) { labels_mixed_along(context, {1}); }

// For an exchange the channels of a group are a block. Scales and shifts of whole groups are indexed by ids of their
// own.
void labels_group_norm(LabelContext& context) {
  if (!context.for_exchange() || !context.ids(0).defined() || has_computed_parameters(context))
    return labels_channels_mixed(context);
  const auto ids = context.along(0, 1);
  const int64_t groups = context.node.integer("num_groups", 1);
  const bool per_group = context.node.integer("per_group", 0) != 0;
  const auto width = static_cast<int64_t>(ids.size()) / groups;
  const auto group_ids = per_group ? context.make(groups) : std::vector<int64_t>{};
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<int64_t> together(ids.begin() + g * width, ids.begin() + (g + 1) * width);
    if (per_group) together.push_back(group_ids[static_cast<size_t>(g)]);
    context.block(std::move(together));
  }
  context.keep(context.ids(0), fmt::format("{} mixes all channels", describe(context.node)));
  for (const size_t i : {1, 2}) context.slot(i, 0, per_group ? group_ids : ids, SlotRole::pass);
  context.set(0, ids, 1);
}

// y = x / (bias + alpha/size · Σ x²)^beta over `size` neighbouring channels.
Tensors lrn(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t channels = channels_of(context.node, x);
  const int64_t size = context.node.integer("size", 1);
  if (size <= 0) throw Error(ErrorKind::format, describe(context.node), "size is {}", size);
  if (x.numel() == 0) return {x};
  // Neighbours that no channel has add nothing.
  const int64_t before = std::min((size - 1) / 2, channels - 1);
  const int64_t after = std::min(size - 1 - (size - 1) / 2, channels - 1);
  std::vector<int64_t> pads(static_cast<size_t>(2 * (x.dim() - 1)), 0);
  pads[pads.size() - 2] = before;
  pads[pads.size() - 1] = after;
  const Tensor squares = at::constant_pad_nd(x * x, pads, 0);
  Tensor sum = squares.narrow(1, 0, channels);
  for (int64_t k = 1; k <= before + after; ++k) sum = sum + squares.narrow(1, k, channels);
  const double alpha = context.node.real("alpha", 1e-4) / static_cast<double>(size);
  return {x / at::pow(sum * alpha + context.node.real("bias", 1.0), context.node.real("beta", 0.75))};
}

Tensors mean_variance(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const auto axes = normalized_axes(context.node.integers("axes", {0, 2, 3}), x.dim(), context.node);
  const Tensor centred = x - x.mean(axes, true);
  return {centred / (at::sqrt(centred.square().mean(axes, true)) + 1e-9)};
}

void labels_mean_variance(LabelContext& context) {
  labels_alike_along(context,
                     normalized_axes(context.node.integers("axes", {0, 2, 3}), context.inputs[0].rank(), context.node));
}

Tensors lp_norm(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const int64_t axis = normalized_axis(context.node.integer("axis", -1), x.dim(), context.node);
  const int64_t p = context.node.integer("p", 2);
  const Tensor norm = p == 1 ? x.abs().sum(axis, true) : at::sqrt(x.square().sum(axis, true));
  return {at::where(norm == 0, at::zeros_like(x), x / norm)};
}

void labels_lp_norm(LabelContext& context) {
  if (!context.for_exchange()) return labels_same(context);  // removed channels count as zeros in the norm
  const int64_t rank = context.inputs[0].rank();
  labels_alike_along(context, {normalized_axis(context.node.integer("axis", -1), rank, context.node)});
}

Cost cost_normalize(const CostContext& context) { return {.flops = 4 * context.outputs[0].count()}; }
Cost cost_batch_norm(const CostContext& context) { return {.flops = 2 * context.outputs[0].count()}; }

constexpr OpDef kOps[] = {
    {.type = "BatchNormalization",
     .attributes = "epsilon momentum training_mode",
     .since = 9,
     .min_inputs = 5,
     .max_inputs = 5,
     .evaluate = batch_norm,
     .infer = infer_batch_norm,
     .cost = cost_batch_norm,
     .labels = labels_batch_norm,
     .traits = {.kind = OpKind::normalization, .learned = {1, 2}, .statistics = {3, 4}}},
    {.type = "InstanceNormalization",
     .attributes = "epsilon",
     .min_inputs = 3,
     .max_inputs = 3,
     .evaluate = instance_norm,
     .infer = infer_same,
     .cost = cost_normalize,
     .labels = labels_instance_norm,
     .traits = {.kind = OpKind::normalization, .law = Law::rigid, .learned = {1, 2}}},
    {.type = "GroupNormalization",
     .attributes = "epsilon num_groups stash_type",
     .since = 18,
     .min_inputs = 3,
     .max_inputs = 3,
     .evaluate = group_norm,
     .infer = infer_same,
     .cost = cost_normalize,
     .labels = labels_group_norm,
     .traits = {.kind = OpKind::normalization, .learned = {1, 2}}},
    {.type = "LRN",
     .attributes = "alpha beta bias size",
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = lrn,
     .infer = infer_same,
     .cost = cost_normalize,
     .labels = labels_channels_mixed,
     .traits = {.kind = OpKind::normalization}},
    {.type = "MeanVarianceNormalization",
     .attributes = "axes",
     .since = 9,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = mean_variance,
     .infer = infer_same,
     .cost = cost_normalize,
     .labels = labels_mean_variance,
     .traits = {.kind = OpKind::normalization}},
    {.type = "LpNormalization",
     .attributes = "axis p",
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = lp_norm,
     .infer = infer_same,
     .cost = cost_normalize,
     .labels = labels_lp_norm,
     .traits = {.kind = OpKind::normalization}},
};

}  // namespace normalization
}  // namespace

std::span<const OpDef> normalization_ops() {
  static const std::vector<OpDef> all = joined({normalization::kOps, layer_norm_ops()});
  return all;
}

}  // namespace pare
