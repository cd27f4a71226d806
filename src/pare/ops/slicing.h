// Slice and Pad: the two operators that take from, or add to, the ends of axes.
#pragma once

#include "pare/ops/common.h"
#include "pare/ops/op.h"

namespace pare {

std::vector<at::Tensor> evaluate_slice(const EvalContext& context);
std::vector<TensorType> infer_slice(const InferContext& context);
void labels_slice(LabelContext& context);
void rewrite_slice(RewriteContext& context);

std::vector<at::Tensor> evaluate_pad(const EvalContext& context);
std::vector<TensorType> infer_pad(const InferContext& context);
void labels_pad(LabelContext& context);
void rewrite_pad(RewriteContext& context);

inline constexpr OpDef kSlice = {.type = "Slice",
                                 .since = 10,
                                 .min_inputs = 3,
                                 .max_inputs = 5,
                                 .evaluate = evaluate_slice,
                                 .infer = infer_slice,
                                 .cost = cost_none,
                                 .labels = labels_slice,
                                 .rewrite = rewrite_slice,
                                 .traits = {.kind = OpKind::selection}};
inline constexpr OpDef kPad = {.type = "Pad",
                               .attributes = "mode",
                               .since = 11,
                               .min_inputs = 2,
                               .max_inputs = 4,
                               .evaluate = evaluate_pad,
                               .infer = infer_pad,
                               .cost = cost_none,
                               .labels = labels_pad,
                               .rewrite = rewrite_pad,
                               .traits = {.kind = OpKind::padding}};

}  // namespace pare
