// Gradients summed over ranks while the backward pass still runs (Li et al. 2020, PyTorch Distributed).
//
// Gradients are copied into flat buckets in the order in which they become ready. A bucket whose gradients are all
// there is sent while the pass goes on to earlier layers. The order is that of rank 0's first pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "pare/dist/process_group.h"
#include "pare/graph.h"

namespace pare {

// Which tensors share a bucket: in the given order, each bucket filled up to `limit` bytes but never empty.
std::vector<std::vector<size_t>> split_into_buckets(const std::vector<int64_t>& bytes, int64_t limit);

class GradientBuckets {
 public:
  explicit GradientBuckets(ProcessGroup& ranks, int64_t bucket_bytes = 1 << 19);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Before the backward pass: watches the tensors, which require gradients and lie densely in memory.
  void begin(const TensorMap& tensors);
  // After it: every gradient is the sum over the ranks. A tensor without one keeps none.
  void finish(TensorMap& tensors);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace pare
