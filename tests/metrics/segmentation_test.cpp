// mIoU, pixel accuracy and the mean of recalls, against counting pixel by pixel.
#include "pare/metrics/segmentation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "pare/error.h"
#include "support/builder.h"

namespace pare {
namespace {

// The definitions, slowly.
struct Counted {
  std::map<int64_t, double> both, either;
  std::map<int64_t, double> labelled;
  double right = 0, all = 0;

  void add(const at::Tensor& predicted, const at::Tensor& masks) {
    for (int64_t i = 0; i < masks.numel(); ++i) {
      const auto label = masks.flatten()[i].item<int64_t>(), found = predicted.flatten()[i].item<int64_t>();
      if (label == 255) continue;
      ++all, ++labelled[label], ++either[label];
      if (label == found)
        ++right, ++both[label];
      else
        ++either[found];
    }
  }
  double miou() const {
    double sum = 0;
    for (const auto& [label, count] : labelled) sum += (both.contains(label) ? both.at(label) : 0) / either.at(label);
    return sum / static_cast<double>(labelled.size());
  }
  double mean_recall() const {
    double sum = 0;
    for (const auto& [label, count] : labelled) sum += (both.contains(label) ? both.at(label) : 0) / count;
    return sum / static_cast<double>(labelled.size());
  }
};

at::Tensor random_masks(int64_t n, int64_t side, int64_t classes) {
  at::Tensor masks = at::randint(0, classes, {n, side, side}, at::kByte);
  masks.masked_fill_(at::rand({n, side, side}) < 0.1, 255);
  return masks;
}

TEST(Segmentation, CountsPixelsAsTheDefinitionSays) {
  at::manual_seed(1);
  for (int trial = 0; trial < 10; ++trial) {
    const int64_t classes = 2 + trial % 4;
    const at::Tensor scores = at::randn({3, classes + 1, 7, 7}), masks = random_masks(3, 7, classes);
    SegmentationMetrics metrics;
    for (int64_t i = 0; i < 3; ++i) metrics.add(scores.slice(0, i, i + 1), masks.slice(0, i, i + 1));
    Counted slow;
    slow.add(scores.argmax(1), masks);
    EXPECT_NEAR(metrics.miou(), slow.miou(), 1e-12);
    EXPECT_NEAR(metrics.pixel_accuracy(), slow.right / slow.all, 1e-12);
    EXPECT_NEAR(metrics.mean_accuracy(), slow.mean_recall(), 1e-12);
    SegmentationMetrics at_once, labels;
    at_once.add(scores, masks);
    labels.add(scores.argmax(1), masks);  // classes as integers
    EXPECT_EQ(at_once.miou(), metrics.miou());
    EXPECT_EQ(labels.miou(), metrics.miou());
  }
}

TEST(Segmentation, ByHand) {
  // Labels 0 0 1 void; predicted 0 1 1 0: class 0 has 1 of 2, class 1 has 1 of 2.
  const at::Tensor masks = at::tensor({0, 0, 1, 255}, at::kByte).view({1, 1, 4});
  const at::Tensor predicted = at::tensor({0, 1, 1, 0}, at::kLong).view({1, 1, 4});
  SegmentationMetrics metrics;
  metrics.add(predicted, masks);
  EXPECT_DOUBLE_EQ(metrics.miou(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.pixel_accuracy(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.mean_accuracy(), 0.75);
  // A class that no mask has is wrong where it is predicted, and is no part of the mean.
  SegmentationMetrics absent;
  absent.add(at::tensor({0, 7, 1, 0}, at::kLong).view({1, 1, 4}), masks);
  EXPECT_DOUBLE_EQ(absent.miou(), (0.5 + 1) / 2);
  EXPECT_TRUE(std::isnan(absent.iou().at(7)));
}

TEST(Segmentation, OutputsAreBroughtToTheSizeOfTheMask) {
  at::manual_seed(2);
  const at::Tensor scores = at::randn({2, 3, 4, 4}), masks = random_masks(2, 9, 3);
  SegmentationMetrics metrics;
  metrics.add(scores, masks);
  Counted slow;
  slow.add(at::upsample_bilinear2d(scores, {9, 9}, false).argmax(1), masks);
  EXPECT_NEAR(metrics.miou(), slow.miou(), 1e-12);
  const at::Tensor nearest = predicted_pixels(at::arange(4).view({1, 2, 2}), 4, 4, 0.5);
  EXPECT_TRUE(at::equal(nearest[0], at::arange(4).view({2, 2}).repeat_interleave(2, 0).repeat_interleave(2, 1)));
}

TEST(Segmentation, OneScoreForEachPixelIsAThreshold) {
  const at::Tensor masks = at::tensor({0, 1, 1, 0}, at::kByte).view({1, 1, 4});
  SegmentationMetrics metrics;
  metrics.add(at::tensor({0.1f, 0.6f, 0.4f, 0.5f}).view({1, 1, 1, 4}), masks);
  EXPECT_DOUBLE_EQ(metrics.pixel_accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(metrics.miou(), (1.0 / 3 + 1.0 / 3) / 2);
}

TEST(Segmentation, NotANumberIsNoPrediction) {
  const at::Tensor masks = at::zeros({1, 2, 2}, at::kByte);
  at::Tensor scores = at::zeros({1, 2, 2, 2});
  scores[0][0].fill_(1);
  scores[0][1][0][0] = std::numeric_limits<float>::quiet_NaN();
  SegmentationMetrics metrics;
  metrics.add(scores, masks);
  EXPECT_DOUBLE_EQ(metrics.pixel_accuracy(), 0.75);
  EXPECT_TRUE(std::isnan(SegmentationMetrics{}.miou()));
  EXPECT_THROW(metrics.add(at::zeros({1, 3}), masks), Error);
  EXPECT_THROW(metrics.add(at::full({1, 2, 2}, 300, at::kLong), masks), Error);
}

TEST(Segmentation, EvaluatesModelsTheSameOnAnyNumberOfThreads) {
  TestGraph g(3);
  const auto trunk = g.relu(g.conv(g.input("x", {-1, 3, 16, 16}), 3, 8));
  Graph graph = g.finish(g.conv(trunk, 8, 4, 1));
  at::manual_seed(5);
  const at::Tensor images = at::randn({150, 3, 16, 16}, at::kDouble), masks = random_masks(150, 16, 4);
  const Samples samples = samples_of({images}, masks);
  SegmentationMetrics whole;
  whole.add(Program(graph).run(samples.inputs(0, 150)).outputs[0], masks);
  const int threads = at::get_num_threads();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    const Evaluation found = evaluate(graph, samples);
    EXPECT_EQ(found.samples, 150);
    EXPECT_EQ(found.metric("miou"), whole.miou()) << count << " threads";
    EXPECT_EQ(found.metric("pixel-accuracy"), whole.pixel_accuracy());
  }
  at::set_num_threads(threads);
  // As a stream of uneven batches.
  int64_t next = 0;
  const SampleStream stream = [&]() -> std::optional<SampleBatch> {
    if (next >= 150) return std::nullopt;
    const int64_t begin = next, end = std::min<int64_t>(next + 37, 150);
    next = end;
    return SampleBatch{samples.inputs(begin, end), samples.labels(begin, end)};
  };
  EXPECT_EQ(evaluate(std::vector<Graph>{graph}, stream).metric("miou"), whole.miou());
}

}  // namespace
}  // namespace pare
