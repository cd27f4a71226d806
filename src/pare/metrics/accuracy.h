// Metrics of single-label classifiers, from logits [N, C] and labels int64 [N] in [0, C).
//
// Class c is ranked above class d when its logit is larger, or equal with c < d, so exactly k classes are in the top k.
// A row with a NaN has no prediction: it is wrong for every k, and its loss is NaN, so a network that breaks shows it.
//
// Pure functions and values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "pare/evaluate.h"  // IWYU pragma: export

namespace pare {

// How many rows have their label among the k largest logits. k above C means C.
int64_t top_k_correct(const at::Tensor& logits, const at::Tensor& labels, int64_t k);

// Sum over the rows of -log softmax(row)[label], in double.
double cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels);

// int64 [N]: the class ranked first, or -1 for a row with a NaN.
at::Tensor predicted_classes(const at::Tensor& logits);

// int64 [classes, classes]: entry (t, p) counts the rows of label t predicted as p. Predictions of -1 are in no entry.
// Matrices of several batches are added.
at::Tensor confusion_matrix(const at::Tensor& predictions, const at::Tensor& labels, int64_t classes);

}  // namespace pare
