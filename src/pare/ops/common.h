// Pieces that several operator families share.
#pragma once

#include <string>
#include <vector>

#include "pare/ops/labels.h"
#include "pare/ops/op.h"

namespace pare {

// A negative axis counts from the end. Error{format} when it is outside the rank.
int64_t normalized_axis(int64_t axis, int64_t rank, const Node& node);
std::vector<int64_t> normalized_axes(std::vector<int64_t> axes, int64_t rank, const Node& node);

// A tensor of four axes in channels-last order. One channel is the same memory in either order, but ATen goes by the
// strides, and what a layer computes takes its order from them: here they say channels-last.
at::Tensor channels_last(const at::Tensor& images);

// The extents of operands broadcast together as numpy does. Error{shape} names the node when they do not fit.
Shape broadcast_dims(const Shape& a, const Shape& b, const Node& node);

// infer: outputs typed like input 0.
std::vector<TensorType> infer_same(const InferContext& context);
// infer: inputs broadcast together; the type of input 0, or bool.
std::vector<TensorType> infer_broadcast(const InferContext& context);
std::vector<TensorType> infer_broadcast_bool(const InferContext& context);

// cost: one operation for each element of the output, or none.
Cost cost_elementwise(const CostContext& context);
Cost cost_none(const CostContext& context);

// labels: output 0 carries the ids of input 0 (same shape).
void labels_same(LabelContext& context);
// labels: operands broadcast together; parameters become slots, other operands are united place by place.
void labels_broadcast(LabelContext& context);
// labels: the operator, pure data movement of input 0, is executed on its ids. Its other inputs (a shape, axes) must be
// constants, else the ids are frozen.
void labels_by_execution(LabelContext& context, EvaluateFunction evaluate);
template <EvaluateFunction evaluate>
void labels_moved(LabelContext& context) {
  labels_by_execution(context, evaluate);
}
// labels: the ids of the inputs may not be removed.
void labels_frozen(LabelContext& context);
// labels: nothing to say (the output never carries channels and the inputs are not tied down): Shape, Constant.
void labels_none(LabelContext& context);
// labels: ids along `axes` are frozen (the operator mixes what lies along them), others go on to output 0, whose shape
// must be that of input 0.
void labels_mixed_along(LabelContext& context, const std::vector<int64_t>& axes);
// labels: the same where the operator does to all that lies along `axes` alike, whatever its order (a softmax): for an
// exchange the ids along them go on and are kept.
void labels_alike_along(LabelContext& context, const std::vector<int64_t>& axes);

}  // namespace pare
