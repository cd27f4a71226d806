// What a frozen network makes of images that come again every epoch, computed once.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "pare/data/loader.h"
#include "pare/run.h"

namespace pare {

// For one program, whose outputs have a row for each image. Images that were changed on the way (augmented), and data
// whose outputs would take more than `most_bytes`, are computed every time. Used by one thread at a time.
class RememberedOutputs {
 public:
  explicit RememberedOutputs(int64_t most_bytes = int64_t{1} << 30) : most_bytes_(most_bytes) {}

  // The outputs for the batch, without gradients; `input` is made of its images.
  std::vector<at::Tensor> of(const Program& program, const at::Tensor& input, const Batch& batch);

 private:
  bool fits(const std::vector<at::Tensor>& outputs, int64_t images, int64_t all) const;

  int64_t most_bytes_;
  bool useless_ = false;
  at::Tensor known_;                // bool, one for each image of the data
  std::vector<at::Tensor> tables_;  // of each output: [images of the data, …]
};

}  // namespace pare
