#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "pare/error.h"
#include "pare/metrics/accuracy.h"
#include "pare/metrics/multilabel.h"

namespace pare {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

// The tables of the scikit-learn runs:
//   s = [[((7*i*i + 11*j + 3*i*j) % 7) / 8 for j in range(5)] for i in range(12)]
//   y = [[(i*7 + j*j + i*j) % 3 == 0 for j in range(5)] for i in range(12)]
//   lab = [(2*i + i*i*i) % 5 for i in range(12)]
at::Tensor table_scores() {
  auto s = at::empty({12, 5}, at::kDouble);
  for (int i = 0; i < 12; ++i)
    for (int j = 0; j < 5; ++j) s[i][j] = ((7 * i * i + 11 * j + 3 * i * j) % 7) / 8.0;
  return s;
}

at::Tensor table_present() {
  auto y = at::empty({12, 5}, at::kLong);
  for (int i = 0; i < 12; ++i)
    for (int j = 0; j < 5; ++j) y[i][j] = (i * 7 + j * j + i * j) % 3 == 0;
  return y;
}

at::Tensor table_labels() {
  auto y = at::empty({12}, at::kLong);
  for (int i = 0; i < 12; ++i) y[i] = (2 * i + i * i * i) % 5;
  return y;
}

// scikit-learn 1.2.1: top_k_accuracy_score(lab, s + 1e-3 * arange(5)[::-1], k=k, normalize=False, labels=range(5)),
// log_loss(lab, softmax(s), normalize=False, labels=range(5)), confusion_matrix(lab, s.argmax(1), labels=range(5)).
TEST(Accuracy, AgreesWithScikitLearn) {
  const auto s = table_scores(), labels = table_labels();
  EXPECT_EQ(top_k_correct(s, labels, 1), 3);
  EXPECT_EQ(top_k_correct(s, labels, 2), 5);
  EXPECT_EQ(top_k_correct(s, labels, 3), 6);
  EXPECT_NEAR(cross_entropy_sum(s, labels), 19.454578633881205, 1e-12);
  const auto confusion = confusion_matrix(predicted_classes(s), labels, 5);
  const auto expected = at::tensor({0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 2, 1, 0, 1, 1, 0, 0, 0, 0, 0},
                                   at::TensorOptions(at::kLong));
  EXPECT_TRUE(at::equal(confusion.flatten(), expected));
  EXPECT_EQ(confusion.trace().item<int64_t>(), top_k_correct(s, labels, 1));
}

// By sorting the whole row, ties to the lower class.
bool oracle_in_top_k(const at::Tensor& row, int64_t label, int64_t k) {
  std::vector<std::pair<double, int64_t>> sorted;
  for (int64_t c = 0; c < row.size(0); ++c) sorted.push_back({-row[c].item<double>(), c});
  std::sort(sorted.begin(), sorted.end());
  for (int64_t n = 0; n < std::min<int64_t>(k, row.size(0)); ++n)
    if (sorted[static_cast<size_t>(n)].second == label) return true;
  return false;
}

TEST(Accuracy, AgreesWithTheDefinitionOnRandomLogitsWithTies) {
  std::mt19937 random(3);
  for (const int64_t classes : {1, 2, 4, 5, 9}) {
    const int64_t rows = 40;
    auto logits = at::empty({rows, classes});
    auto labels = at::empty({rows}, at::kLong);
    for (int64_t i = 0; i < logits.numel(); ++i) logits.data_ptr<float>()[i] = static_cast<float>(random() % 5);
    for (int64_t i = 0; i < rows; ++i) labels.data_ptr<int64_t>()[i] = random() % classes;
    for (const int64_t k : {1, 2, 5, 20}) {
      int64_t expected = 0;
      for (int64_t i = 0; i < rows; ++i) expected += oracle_in_top_k(logits[i], labels[i].item<int64_t>(), k);
      EXPECT_EQ(top_k_correct(logits, labels, k), expected) << classes << " classes, top " << k;
    }
    const double loss = -at::log_softmax(logits.to(at::kDouble), 1).gather(1, labels.unsqueeze(1)).sum().item<double>();
    EXPECT_NEAR(cross_entropy_sum(logits, labels), loss, 1e-9);
    ClassificationMetrics whole, first, second;
    whole.add(logits, labels);
    first.add(logits.slice(0, 0, 13), labels.slice(0, 0, 13));
    second.add(logits.slice(0, 13), labels.slice(0, 13));
    first.merge(second);
    EXPECT_EQ(first.samples, rows);
    EXPECT_EQ(first.top1(), whole.top1());
    EXPECT_EQ(whole.top1_correct, top_k_correct(logits, labels, 1));
    EXPECT_EQ(whole.top5_correct, top_k_correct(logits, labels, 5));
    EXPECT_NEAR(first.loss(), loss / rows, 1e-12);
    if (classes <= 5) {
      EXPECT_EQ(whole.top5(), 1.0);
    }
  }
}

TEST(Accuracy, CountsRowsWithNanAsWrong) {
  const auto logits = at::tensor({1.0, not_a_number, 3.0, not_a_number, 5.0, 1.0, 9.0, 1.0, 2.0}).view({3, 3});
  const auto labels = at::tensor({2, 1, 0}, at::TensorOptions(at::kLong));
  EXPECT_EQ(top_k_correct(logits, labels, 1), 1);
  EXPECT_EQ(top_k_correct(logits, labels, 3), 1);
  ClassificationMetrics metrics;
  metrics.add(logits, labels);
  EXPECT_EQ(metrics.top1_correct, 1);
  EXPECT_EQ(metrics.top5_correct, 1);
  EXPECT_TRUE(std::isnan(metrics.loss()));
  const auto predicted = predicted_classes(logits);
  EXPECT_TRUE(at::equal(predicted, at::tensor({-1, -1, 0}, at::TensorOptions(at::kLong))));
  EXPECT_EQ(confusion_matrix(predicted, labels, 3).sum().item<int64_t>(), 1);
}

TEST(Accuracy, KeepsLargeLogitsFinite) {
  const auto logits = at::tensor({1e4, -1e4, -infinite, 3.0}).view({2, 2});
  EXPECT_NEAR(cross_entropy_sum(logits, at::tensor({1, 1}, at::TensorOptions(at::kLong))), 2e4, 1e-9);
  EXPECT_EQ(cross_entropy_sum(logits, at::tensor({1, 0}, at::TensorOptions(at::kLong))), infinite);
}

TEST(Accuracy, RefusesWhatDoesNotFit) {
  const auto logits = at::zeros({2, 3});
  const auto labels = [](std::vector<int64_t> values) { return at::tensor(values); };
  EXPECT_THROW(top_k_correct(logits, labels({0, 3}), 1), Error);
  EXPECT_THROW(top_k_correct(logits, labels({0, -1}), 1), Error);
  EXPECT_THROW(top_k_correct(logits, labels({0}), 1), Error);
  EXPECT_THROW(top_k_correct(logits, at::zeros({2}), 1), Error);
  EXPECT_THROW(top_k_correct(at::zeros({2}), labels({0, 1}), 1), Error);
  EXPECT_THROW(top_k_correct(logits, labels({0, 1}), 0), Error);
  EXPECT_THROW(confusion_matrix(labels({3, 0}), labels({0, 1}), 3), Error);
  EXPECT_TRUE(std::isnan(ClassificationMetrics{}.top1()));
  EXPECT_EQ(top_k_correct(at::zeros({0, 3}), labels({}), 1), 0);
}

// scikit-learn 1.2.1: with k = rows of y that have a positive and c = such columns,
// average_precision_score(y[k], s[k], average="samples"), average_precision_score(y[:, c], s[:, c], average="macro"),
// f1_score(y, s >= 0.5, average="samples" and "macro", zero_division=0).
TEST(MultiLabel, AgreesWithScikitLearn) {
  const auto s = table_scores(), y = table_present();
  const auto samples = sample_average_precision(s, y);
  EXPECT_NEAR(samples.mean, 0.49895833333333334, 1e-12);
  EXPECT_EQ(samples.counted, 8);
  const auto classes = class_average_precision(s, y);
  EXPECT_NEAR(classes.mean, 0.3378968253968254, 1e-12);
  EXPECT_EQ(classes.counted, 4);
  EXPECT_TRUE(std::isnan(classes.each[2]));
  EXPECT_NEAR(example_f1(s, y), 0.15, 1e-12);
  EXPECT_NEAR(macro_f1(s, y), 0.16888888888888892, 1e-12);
}

// From the definition: for every distinct threshold, precision and recall of what is scored at least so high.
double oracle_average_precision(const std::vector<double>& scores, const std::vector<uint8_t>& present) {
  std::set<double, std::greater<>> thresholds(scores.begin(), scores.end());
  double total = 0, sum = 0, recall_before = 0;
  for (const auto p : present) total += p;
  for (const double threshold : thresholds) {
    double retrieved = 0, hits = 0;
    for (size_t i = 0; i < scores.size(); ++i)
      if (scores[i] >= threshold) {
        ++retrieved;
        hits += present[i];
      }
    sum += (hits / total - recall_before) * (hits / retrieved);
    recall_before = hits / total;
  }
  return sum;
}

TEST(MultiLabel, AveragePrecisionAgreesWithTheDefinition) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t count = 1 + random() % 12;
    std::vector<double> scores(count);
    std::vector<uint8_t> present(count);
    for (size_t i = 0; i < count; ++i) {
      scores[i] = static_cast<double>(random() % 6) - 2;
      present[i] = random() % 2;
    }
    const double found = average_precision(scores, present);
    const double expected = oracle_average_precision(scores, present);
    if (std::count(present.begin(), present.end(), 1) == 0)
      EXPECT_TRUE(std::isnan(found));
    else
      EXPECT_NEAR(found, expected, 1e-12);
  }
}

TEST(MultiLabel, F1AgreesWithTheDefinition) {
  std::mt19937 random(9);
  auto scores = at::empty({30, 6}, at::kDouble);
  auto labels = at::empty({30, 6}, at::kBool);
  for (int64_t i = 0; i < scores.numel(); ++i) {
    scores.data_ptr<double>()[i] = static_cast<double>(random() % 4) / 4;
    labels.data_ptr<bool>()[i] = random() % 3 == 0;
  }
  const auto oracle = [&](bool by_class) {
    const int64_t outer = by_class ? 6 : 30, inner = by_class ? 30 : 6;
    double sum = 0;
    for (int64_t a = 0; a < outer; ++a) {
      double tp = 0, fp = 0, fn = 0;
      for (int64_t b = 0; b < inner; ++b) {
        const int64_t i = by_class ? b : a, k = by_class ? a : b;
        const bool found = scores[i][k].item<double>() >= 0.25, truth = labels[i][k].item<bool>();
        tp += found && truth;
        fp += found && !truth;
        fn += !found && truth;
      }
      const double precision = tp + fp > 0 ? tp / (tp + fp) : 0, recall = tp + fn > 0 ? tp / (tp + fn) : 0;
      sum += precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
    }
    return sum / static_cast<double>(outer);
  };
  EXPECT_NEAR(example_f1(scores, labels, 0.25), oracle(false), 1e-12);
  EXPECT_NEAR(macro_f1(scores, labels, 0.25), oracle(true), 1e-12);
}

TEST(MultiLabel, RanksNanLastAndNeverPredictsIt) {
  const std::vector<double> scores = {not_a_number, 0.1, 0.9, not_a_number};
  const std::vector<uint8_t> present = {1, 1, 0, 0};
  EXPECT_NEAR(average_precision(scores, present), 0.5 * (1.0 / 2) + 0.5 * (2.0 / 4), 1e-12);
  const auto s = at::tensor({not_a_number, 1.0}).view({1, 2});
  EXPECT_NEAR(example_f1(s, at::ones({1, 2})), 2.0 / 3, 1e-12);
  EXPECT_THROW(example_f1(s, at::ones({2, 1})), Error);
  EXPECT_TRUE(std::isnan(sample_average_precision(s, at::zeros({1, 2})).mean));
}

}  // namespace
}  // namespace pare
