// y = Σ_r x_r; every rank's loss hangs on every y, so dL/dx = Σ_r dL_r/dy_r: the same sum in the backward pass.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "pare/dist/process_group.h"

namespace pare {

namespace {

struct SumOverRanks : torch::autograd::Function<SumOverRanks> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, int64_t group) {
    context->saved_data["group"] = group;
    at::Tensor y = x.detach().clone(at::MemoryFormat::Contiguous);
    reinterpret_cast<ProcessGroup*>(group)->sum(y);
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    auto* group = reinterpret_cast<ProcessGroup*>(context->saved_data["group"].toInt());
    return {group->differentiable_sum(gradients[0]), at::Tensor()};
  }
};

}  // namespace

at::Tensor ProcessGroup::differentiable_sum(const at::Tensor& tensor) {
  return alone() ? tensor : SumOverRanks::apply(tensor, reinterpret_cast<int64_t>(this));
}

}  // namespace pare
