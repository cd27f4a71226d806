#include "pare/metrics/accuracy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pare/error.h"

namespace pare {

namespace {

struct LogitRows {
  at::Tensor values;  // double [N, C], contiguous
  int64_t rows, classes;
  const double* row(int64_t i) const { return values.data_ptr<double>() + i * classes; }
};

LogitRows logit_rows(const at::Tensor& logits) {
  if (logits.dim() != 2 || logits.size(1) == 0)
    throw Error(ErrorKind::shape, "metrics", "logits of {}, expected [N, C]", fmt::join(logits.sizes(), "x"));
  return {logits.detach().to(at::kDouble).contiguous(), logits.size(0), logits.size(1)};
}

at::Tensor checked_labels(const at::Tensor& labels, int64_t rows, int64_t classes) {
  if (labels.dim() != 1 || labels.size(0) != rows || labels.scalar_type() != at::kLong)
    throw Error(ErrorKind::shape, "metrics", "labels {} of {} for {} rows, expected int64 [{}]",
                c10::toString(labels.scalar_type()), fmt::join(labels.sizes(), "x"), rows, rows);
  auto out = labels.contiguous();
  for (int64_t i = 0; i < rows; ++i)
    if (const int64_t label = out.data_ptr<int64_t>()[i]; label < 0 || label >= classes)
      throw Error(ErrorKind::shape, "metrics", "label {} in row {} is not one of {} classes", label, i, classes);
  return out;
}

// How many classes are ranked above `label`; all of them when there is a NaN.
int64_t rank_of(const double* row, int64_t classes, int64_t label) {
  int64_t above = 0;
  bool broken = false;
  for (int64_t c = 0; c < classes; ++c) {
    broken |= std::isnan(row[c]);
    above += row[c] > row[label] || (row[c] == row[label] && c < label);
  }
  return broken ? classes : above;
}

double row_loss(const double* row, int64_t classes, int64_t label) {
  double most = row[0];
  for (int64_t c = 0; c < classes; ++c) {
    if (std::isnan(row[c])) return row[c];
    most = std::max(most, row[c]);
  }
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - most);
  return std::log(sum) + most - row[label];
}

double fraction(double part, int64_t whole) {
  return whole > 0 ? part / static_cast<double>(whole) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

int64_t top_k_correct(const at::Tensor& logits, const at::Tensor& labels, int64_t k) {
  if (k < 1) throw Error(ErrorKind::usage, "metrics", "top {} is empty", k);
  const auto rows = logit_rows(logits);
  const auto truth = checked_labels(labels, rows.rows, rows.classes);
  const int64_t within = std::min(k, rows.classes);
  int64_t correct = 0;
  for (int64_t i = 0; i < rows.rows; ++i)
    correct += rank_of(rows.row(i), rows.classes, truth.data_ptr<int64_t>()[i]) < within;
  return correct;
}

double cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels) {
  const auto rows = logit_rows(logits);
  const auto truth = checked_labels(labels, rows.rows, rows.classes);
  double sum = 0;
  for (int64_t i = 0; i < rows.rows; ++i) sum += row_loss(rows.row(i), rows.classes, truth.data_ptr<int64_t>()[i]);
  return sum;
}

at::Tensor predicted_classes(const at::Tensor& logits) {
  const auto rows = logit_rows(logits);
  auto out = at::empty({rows.rows}, at::kLong);
  for (int64_t i = 0; i < rows.rows; ++i) {
    const double* row = rows.row(i);
    const bool broken = std::any_of(row, row + rows.classes, [](double x) { return std::isnan(x); });
    out.data_ptr<int64_t>()[i] = broken ? -1 : std::max_element(row, row + rows.classes) - row;
  }
  return out;
}

at::Tensor confusion_matrix(const at::Tensor& predictions, const at::Tensor& labels, int64_t classes) {
  if (predictions.dim() != 1 || predictions.scalar_type() != at::kLong || classes < 1)
    throw Error(ErrorKind::shape, "metrics", "predictions {} of {}, expected int64 [N]",
                c10::toString(predictions.scalar_type()), fmt::join(predictions.sizes(), "x"));
  const auto truth = checked_labels(labels, predictions.size(0), classes);
  const auto found = predictions.contiguous();
  auto matrix = at::zeros({classes, classes}, at::kLong);
  for (int64_t i = 0; i < found.size(0); ++i) {
    const int64_t class_found = found.data_ptr<int64_t>()[i];
    if (class_found < -1 || class_found >= classes)
      throw Error(ErrorKind::shape, "metrics", "prediction {} in row {} is not one of {} classes", class_found, i,
                  classes);
    if (class_found >= 0) ++matrix.data_ptr<int64_t>()[truth.data_ptr<int64_t>()[i] * classes + class_found];
  }
  return matrix;
}

void ClassificationMetrics::add(const at::Tensor& logits, const at::Tensor& labels) {
  const auto rows = logit_rows(logits);
  const auto truth = checked_labels(labels, rows.rows, rows.classes);
  const int64_t five = std::min<int64_t>(5, rows.classes);
  for (int64_t i = 0; i < rows.rows; ++i) {
    const int64_t label = truth.data_ptr<int64_t>()[i];
    const int64_t rank = rank_of(rows.row(i), rows.classes, label);
    top1_correct += rank < 1;
    top5_correct += rank < five;
    loss_sum += row_loss(rows.row(i), rows.classes, label);
  }
  samples += rows.rows;
}

void ClassificationMetrics::merge(const ClassificationMetrics& other) {
  samples += other.samples;
  top1_correct += other.top1_correct;
  top5_correct += other.top5_correct;
  loss_sum += other.loss_sum;
}

double ClassificationMetrics::top1() const { return fraction(static_cast<double>(top1_correct), samples); }
double ClassificationMetrics::top5() const { return fraction(static_cast<double>(top5_correct), samples); }
double ClassificationMetrics::loss() const { return fraction(loss_sum, samples); }

}  // namespace pare
