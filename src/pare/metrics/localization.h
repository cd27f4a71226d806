// Does an attribution map point at the object? Metrics of one map [H, W] against the mask [H, W] of a class (non-zero
// is the object), and of two maps against each other. In double; a NaN in a map makes every metric NaN.
//
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pare {

// Area under the ROC of "this pixel is the object" scored by the map: the share of (object, other) pixel pairs that the
// map ranks right, ties counting half (Mann and Whitney). NaN when the mask covers nothing or everything; a constant
// map has 0.5.
double localization_auc(const at::Tensor& map, const at::Tensor& mask);

// 1 when the first maximum in row-major order lies in the mask, or within `tolerance` pixels (Euclidean) of it, else 0
// (the pointing game). NaN when the mask covers nothing. An all-zero map points at pixel (0, 0).
double point_accuracy(const at::Tensor& map, const at::Tensor& mask, double tolerance = 0);

// The share of the positive relevance that lies in the mask (Arras et al. 2022). NaN when there is none.
double relevance_mass(const at::Tensor& map, const at::Tensor& mask);

// Of the K most relevant pixels, for a mask of K, the share that lies in it (ties: the earlier pixel first).
double relevance_rank(const at::Tensor& map, const at::Tensor& mask);

// The cosine of two maps as vectors: 0 when one of them is all zero, NaN when both are.
double map_cosine(const at::Tensor& a, const at::Tensor& b);

// Spearman's rank correlation: Pearson's of midranks. 0 when one map is constant, NaN when both are.
double map_rank_correlation(const at::Tensor& a, const at::Tensor& b);

// A mean of what is defined.
struct DefinedMean {
  double sum = 0;
  int64_t counted = 0;
  int64_t undefined = 0;

  void add(double value);
  void merge(const DefinedMean& other);
  double mean() const;  // NaN when nothing was counted
};

// Means over (image, class) pairs.
struct LocalizationMetrics {
  DefinedMean auc, point, mass, rank;
  int64_t pairs = 0;
  int64_t zero_maps = 0;  // counted as they are: AUC 0.5, pointing at (0, 0)
  int64_t nan_maps = 0;   // left out

  void add(const at::Tensor& map, const at::Tensor& mask, double tolerance = 0);
  void merge(const LocalizationMetrics& other);
};

}  // namespace pare
