// Operators that ONNX no longer has and files still bring: ImageScaler, Crop, Affine. And optional values, which are
// always there where they are tensors.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace legacy {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// y = scale · x + bias of each channel
Tensors image_scaler(const EvalContext& context) {
  const Tensor& x = context.in(0);
  const auto bias = context.node.reals("bias");
  const Tensor scaled = x * context.node.real("scale", 1);
  if (bias.empty()) return {scaled};
  if (x.dim() != 4 || x.size(1) != std::ssize(bias))
    throw Error(ErrorKind::shape, describe(context.node), "has {} biases for {}", bias.size(), to_string(x.sizes()));
  return {scaled + at::tensor(bias, at::kDouble).to(x.scalar_type()).reshape({1, -1, 1, 1})};
}

Tensors affine(const EvalContext& context) {
  return {context.in(0) * context.node.real("alpha", 1) + context.node.real("beta", 0)};
}

struct Cut {
  int64_t top, left, height, width;
};

// `border` is left, top, right, bottom; `scale`, where it is given, is how much stays.
Cut cut_of(const Node& node, std::span<const int64_t> x) {
  const auto border = node.integers("border"), scale = node.integers("scale");
  if (x.size() != 4 || border.size() != 4 || (!scale.empty() && scale.size() != 2))
    throw Error(ErrorKind::format, describe(node), "cuts {} by {}", to_string(x), to_string(border));
  const auto within = [](int64_t value, int64_t extent) { return value >= 0 && value <= extent; };
  Cut cut{.top = border[1], .left = border[0]};
  bool fits = within(border[0], x[3]) && within(border[2], x[3]) && within(border[1], x[2]) && within(border[3], x[2]);
  cut.height = scale.empty() ? x[2] - border[1] - border[3] : scale[0];
  cut.width = scale.empty() ? x[3] - border[0] - border[2] : scale[1];
  fits = fits && within(cut.height, x[2] - cut.top) && within(cut.width, x[3] - cut.left);
  if (!fits) throw Error(ErrorKind::shape, describe(node), "cuts {} by {}", to_string(x), to_string(border));
  return cut;
}

Tensors crop(const EvalContext& context) {
  const Cut cut = cut_of(context.node, context.in(0).sizes());
  return {context.in(0).narrow(2, cut.top, cut.height).narrow(3, cut.left, cut.width)};
}

std::vector<TensorType> infer_crop(const InferContext& context) {
  const Cut cut = cut_of(context.node, context.in(0).dims);
  return {{context.in(0).dtype, {context.in(0).dims[0], context.in(0).dims[1], cut.height, cut.width}}};
}

void labels_crop(LabelContext& context) {
  const Tensor& ids = context.ids(0);
  if (!ids.defined()) return;
  if (ids.dim() != 4 || ids.size(2) > 1 || ids.size(3) > 1)
    return context.freeze(ids, fmt::format("{} cuts it", describe(context.node)));
  context.set(0, ids);
}

Tensors is_there(const EvalContext& context) { return {at::scalar_tensor(context.has(0), at::kBool)}; }
std::vector<TensorType> infer_is_there(const InferContext& /*context*/) { return {{at::kBool, {}}}; }
Tensors itself(const EvalContext& context) { return {context.in(0)}; }

constexpr OpDef op(std::string_view type, std::string_view attributes, EvaluateFunction evaluate,
                   LabelFunction labels) {
  return {.type = type,
          .attributes = attributes,
          .min_inputs = 1,
          .max_inputs = 1,
          .evaluate = evaluate,
          .infer = infer_same,
          .cost = cost_elementwise,
          .labels = labels};
}

constexpr OpDef kOps[] = {
    op("ImageScaler", "bias scale", image_scaler, labels_frozen),
    op("Affine", "alpha beta", affine, labels_same).being({.kind = OpKind::function, .law = Law::rigid}),
    {.type = "Crop",
     .attributes = "border scale",
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = crop,
     .infer = infer_crop,
     .cost = cost_none,
     .labels = labels_crop,
     .traits = {.kind = OpKind::selection}},
    {.type = "OptionalHasElement",
     .since = 18,
     .max_inputs = 1,
     .evaluate = is_there,
     .infer = infer_is_there,
     .cost = cost_none,
     .labels = labels_none},
    {.type = "OptionalGetElement",
     .since = 18,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = itself,
     .infer = infer_same,
     .cost = cost_none,
     .labels = labels_same,
     .traits = {.kind = OpKind::same, .law = Law::average}},
};

}  // namespace legacy
}  // namespace

std::span<const OpDef> legacy_ops() { return legacy::kOps; }

}  // namespace pare
