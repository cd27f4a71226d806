// Operators of pare's own, which passes/for_inference.h puts in the place of ONNX's. They are never written to a file.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/families.h"
#include "pare/ops/onednn.h"

namespace pare {
namespace {
namespace fused {

// Gemm with a constant weight, its bias and a Relu: inputs x, packed weight, bias; attributes in, out, relu.
std::vector<at::Tensor> linear(const EvalContext& context) {
  const at::Tensor none;
  return {run_packed_linear(context.in(0), {.weight = context.in(1),
                                            .bias = context.has(2) ? context.in(2) : none,
                                            .in = context.node.integer("in", 0),
                                            .out = context.node.integer("out", 0),
                                            .relu = context.node.integer("relu", 0) != 0})};
}

std::vector<TensorType> infer_linear(const InferContext& context) {
  return {{context.in(0).dtype, {context.in(0).dims.at(0), context.node.integer("out", 0)}}};
}

Cost cost_linear(const CostContext& context) {
  const int64_t macs = context.outputs[0].count() * context.node.integer("in", 0);
  return {.macs = macs, .flops = 2 * macs};
}

constexpr OpDef kOps[] = {
    {.type = "pare.Linear",
     .min_inputs = 2,
     .max_inputs = 3,
     .evaluate = linear,
     .infer = infer_linear,
     .cost = cost_linear,
     .labels = labels_frozen},
};

}  // namespace fused
}  // namespace

std::span<const OpDef> fused_ops() { return fused::kOps; }

}  // namespace pare
