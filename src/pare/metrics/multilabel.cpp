#include "pare/metrics/multilabel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "pare/error.h"

namespace pare {

namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

struct ScoreRows {
  at::Tensor scores;   // double [N, K], contiguous
  at::Tensor present;  // uint8 [N, K], contiguous, 0 or 1
};

ScoreRows score_rows(const at::Tensor& scores, const at::Tensor& labels) {
  if (scores.dim() != 2 || scores.sizes() != labels.sizes())
    throw Error(ErrorKind::shape, "metrics", "scores of {} and labels of {}, expected [N, K] of both",
                fmt::join(scores.sizes(), "x"), fmt::join(labels.sizes(), "x"));
  return {scores.detach().to(at::kDouble).contiguous(), labels.detach().ne(0).to(at::kByte).contiguous()};
}

MeanPrecision mean_precision_of_rows(const ScoreRows& rows) {
  const int64_t count = rows.scores.size(0);
  const auto width = static_cast<size_t>(rows.scores.size(1));
  MeanPrecision out;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto offset = static_cast<size_t>(i) * width;
    out.each.push_back(average_precision({rows.scores.data_ptr<double>() + offset, width},
                                         {rows.present.data_ptr<uint8_t>() + offset, width}));
    if (std::isnan(out.each.back())) continue;
    sum += out.each.back();
    ++out.counted;
  }
  out.mean = out.counted > 0 ? sum / static_cast<double>(out.counted) : undefined;
  return out;
}

double mean_f1_of_rows(const ScoreRows& rows, double threshold) {
  const int64_t count = rows.scores.size(0), width = rows.scores.size(1);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t both = 0, either = 0;  // TP, and 2 TP + FP + FN
    for (int64_t k = 0; k < width; ++k) {
      const bool found = rows.scores.data_ptr<double>()[i * width + k] >= threshold;
      const bool present = rows.present.data_ptr<uint8_t>()[i * width + k] != 0;
      both += found && present;
      either += int{found} + int{present};
    }
    if (either > 0) sum += 2.0 * static_cast<double>(both) / static_cast<double>(either);
  }
  return count > 0 ? sum / static_cast<double>(count) : undefined;
}

}  // namespace

double average_precision(std::span<const double> scores, std::span<const uint8_t> present) {
  if (scores.size() != present.size())
    throw Error(ErrorKind::shape, "average_precision", "{} scores and {} labels", scores.size(), present.size());
  const auto key = [&](size_t i) {
    return std::isnan(scores[i]) ? std::pair{true, 0.0} : std::pair{false, -scores[i]};  // sorts NaN last, high first
  };
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  double sum = 0;
  int64_t hits = 0, new_hits = 0;
  for (size_t n = 0; n < order.size(); ++n) {
    new_hits += present[order[n]] != 0;
    if (n + 1 < order.size() && key(order[n]) == key(order[n + 1])) continue;  // inside a tie
    hits += new_hits;
    sum += static_cast<double>(new_hits) * static_cast<double>(hits) / static_cast<double>(n + 1);
    new_hits = 0;
  }
  return hits > 0 ? sum / static_cast<double>(hits) : undefined;
}

MeanPrecision sample_average_precision(const at::Tensor& scores, const at::Tensor& labels) {
  return mean_precision_of_rows(score_rows(scores, labels));
}

MeanPrecision class_average_precision(const at::Tensor& scores, const at::Tensor& labels) {
  return sample_average_precision(scores.t(), labels.t());
}

double example_f1(const at::Tensor& scores, const at::Tensor& labels, double threshold) {
  return mean_f1_of_rows(score_rows(scores, labels), threshold);
}

double macro_f1(const at::Tensor& scores, const at::Tensor& labels, double threshold) {
  return example_f1(scores.t(), labels.t(), threshold);
}

double multi_label_soft_margin(const at::Tensor& logits, const at::Tensor& labels) {
  const auto rows = score_rows(logits, labels);
  // -log s(z) = softplus(-z) and -log(1 - s(z)) = softplus(z), without overflow.
  const at::Tensor z = at::where(rows.present.ne(0), rows.scores, -rows.scores);
  return (at::log1p(at::exp(-z.abs())) + (-z).clamp_min(0)).mean().item<double>();
}

MultiLabelMetrics multi_label_metrics(const at::Tensor& logits, const at::Tensor& labels, double threshold) {
  return {.sample_precision = sample_average_precision(logits, labels).mean,
          .class_precision = class_average_precision(logits, labels).mean,
          .f1 = example_f1(logits, labels, threshold),
          .macro_f1 = pare::macro_f1(logits, labels, threshold),
          .loss = multi_label_soft_margin(logits, labels)};
}

}  // namespace pare
