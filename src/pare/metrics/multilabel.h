// Metrics of multi-label classifiers, from scores [N, K] and labels [N, K] (any dtype; non-zero is present), as
// scikit-learn defines them.
//
// Average precision: over the distinct scores from the highest down, AP = sum of (R_n - R_{n-1}) P_n, where P_n and R_n
// are precision and recall when everything scored at least the n-th is retrieved; ties are retrieved together. NaN
// scores rank below every other. Where nothing is present AP is undefined (NaN) and left out of means.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "pare/evaluate.h"  // IWYU pragma: export

namespace pare {

double average_precision(std::span<const double> scores, std::span<const uint8_t> present);

struct MeanPrecision {
  double mean = 0;           // NaN when nothing is counted
  int64_t counted = 0;       // how many were defined
  std::vector<double> each;  // of each sample or class; NaN where undefined
};

// "mAP" of the attribution paper: the AP of each image's K scores, averaged over images (average="samples").
MeanPrecision sample_average_precision(const at::Tensor& scores, const at::Tensor& labels);
// VOC's mAP: the AP of each class over all images, averaged over classes (average="macro").
MeanPrecision class_average_precision(const at::Tensor& scores, const at::Tensor& labels);

// A class is predicted where score >= threshold (a NaN never is). F1 = 2 TP / (2 TP + FP + FN), and 0 where that is 0 /
// 0.
double example_f1(const at::Tensor& scores, const at::Tensor& labels, double threshold = 0.5);  // mean over the samples
double macro_f1(const at::Tensor& scores, const at::Tensor& labels, double threshold = 0.5);    // mean over the classes

// Multi-label soft margin: mean over samples and classes of the logistic loss, -log s(z) where present and -log(1 -
// s(z)) where not, in double.
double multi_label_soft_margin(const at::Tensor& logits, const at::Tensor& labels);

// All of them for the logits of one model. `threshold` is of the logits; 0.5 is the attribution paper's (a probability
// of 0.62).
MultiLabelMetrics multi_label_metrics(const at::Tensor& logits, const at::Tensor& labels, double threshold = 0.5);

}  // namespace pare
