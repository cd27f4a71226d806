// Agreement of a model with another (pare/compare.h has the definitions), streamed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "pare/compare.h"

namespace pare {

// Of one output, over some samples.
struct AgreementSums {
  double distance = 0, cosine = 0, classes = 0;  // weighted by samples; NaN where they are not defined
  double largest = 0;
  int64_t samples = 0;

  // Rows of `count` samples where there is one for each, else one value for all of them.
  void add(const at::Tensor& z, const at::Tensor& other, int64_t count);
  void merge(const AgreementSums& more);
  OutputAgreement mean(const std::string& name) const;
};

struct BoxPairs {
  int64_t reference = 0, other = 0, pairs = 0;
  double overlap = 0;  // summed over the pairs

  // float [n, 6]: left, top, right, bottom, score, class.
  void add(const at::Tensor& reference_boxes, const at::Tensor& other_boxes, double score, double least_overlap);
  void merge(const BoxPairs& more);
};

}  // namespace pare
