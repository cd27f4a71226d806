#include "pare/distill/remembered.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace pare {

bool RememberedOutputs::fits(const std::vector<at::Tensor>& outputs, int64_t images, int64_t all) const {
  int64_t bytes = 0;
  for (const at::Tensor& output : outputs) {
    if (output.dim() == 0 || output.size(0) != images) return false;
    bytes += static_cast<int64_t>(output.nbytes()) / images;
  }
  return bytes <= most_bytes_ / std::max<int64_t>(all, 1);
}

std::vector<at::Tensor> RememberedOutputs::of(const Program& program, const at::Tensor& input, const Batch& batch) {
  const at::NoGradGuard no_grad;
  if (useless_ || !batch.samples.defined()) return program.run({&input, 1}).outputs;
  if (!known_.defined()) known_ = at::zeros({batch.total}, at::kBool);
  const at::Tensor missing = known_.index_select(0, batch.samples).logical_not().nonzero().flatten();
  if (missing.numel() > 0) {
    const at::Tensor part = missing.numel() == input.size(0) ? input : input.index_select(0, missing);
    auto outputs = program.run({&part, 1}).outputs;
    if (tables_.empty()) {
      if (!fits(outputs, input.size(0), batch.total)) {
        useless_ = true;
        return outputs;
      }
      for (const at::Tensor& output : outputs) {
        std::vector<int64_t> sizes = output.sizes().vec();
        sizes[0] = batch.total;
        tables_.push_back(at::empty(sizes, output.options()));
      }
    }
    const at::Tensor samples = batch.samples.index_select(0, missing);
    for (size_t i = 0; i < outputs.size(); ++i) tables_[i].index_copy_(0, samples, outputs[i].contiguous());
    known_.index_fill_(0, samples, true);
  }
  // From the tables also what was computed just now: the same layout every time, and so the same sums.
  std::vector<at::Tensor> result;
  result.reserve(tables_.size());
  for (const at::Tensor& table : tables_) result.push_back(table.index_select(0, batch.samples));
  return result;
}

}  // namespace pare
