// Models that give maps and boxes, and samples without labels: pruned on samples, and measured by how far outputs move.
#include "pare/workflow/class_scores.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "pare/compare.h"
#include "pare/data/image.h"
#include "pare/error.h"
#include "pare/passes/working_form.h"
#include "pare/run.h"
#include "pare/workflow/compress.h"
#include "pare/workflow/prune.h"
#include "support/builder.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

Graph single_precision(Graph graph) {
  for (auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point()) tensor = tensor.to(at::kFloat);
  for (auto& input : graph.inputs) input.dtype = at::kFloat;
  for (auto& output : graph.outputs) output.dtype = at::kFloat;
  return graph;
}

// A map of 4 classes as large as the picture.
Graph segmenter() {
  TestGraph g(21);
  const auto trunk = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 3, 12, 12}), 3, 16), 16));
  return single_precision(g.finish(g.conv(g.relu(g.conv(trunk, 16, 16)), 16, 4, 1)));
}

// Scores and boxes of 9 anchors, [N, 9, 4] and [N, 9, 2], from heads of their own.
Graph detector() {
  TestGraph g(22);
  const auto trunk = g.relu(g.conv(g.input("x", {-1, 3, 12, 12}), 3, 16));
  const auto pooled = g.node("AveragePool", {trunk},
                             {{"kernel_shape", std::vector<int64_t>{4, 4}}, {"strides", std::vector<int64_t>{4, 4}}});
  const auto head = [&](int64_t values) {
    const auto map = g.conv(g.relu(g.conv(pooled, 16, 16)), 16, values, 1);
    const auto last = g.node("Transpose", {map}, {{"perm", std::vector<int64_t>{0, 2, 3, 1}}});
    return g.node("Reshape", {last, g.integers({0, 9, values})});
  };
  const auto scores = head(2), boxes = head(4);
  Graph graph = g.finish(boxes);
  graph.outputs.push_back({.name = scores, .dtype = at::kDouble});
  return single_precision(graph);
}

Samples pictures(int64_t count) {
  at::manual_seed(4);
  return samples_of({at::rand({count, 3, 12, 12})});
}

PruneResult pruned(const Graph& graph, const Samples& samples, const std::string& compensate, bool allocate = false) {
  PruneOptions options{.round_to = 1, .compensate = compensate};
  (allocate ? options.macs : options.channels) = 0.4;
  return prune(graph, samples, options);
}

double output_distance(const Graph& original, const Graph& other, const Samples& samples) {
  return metric_of(metrics_of(agreement(original, other, samples)), "distance");
}

TEST(OutputDistance, IsTheMeanOfRelativeLengths) {
  const Graph graph = detector();
  const Samples samples = pictures(6);
  const Graph other = pruned(graph, samples, "none").graph;
  const auto inputs = samples.inputs(0, 6);
  const auto a = forward(graph, inputs).outputs, b = forward(other, inputs).outputs;
  double sum = 0;
  for (size_t k = 0; k < 2; ++k)
    for (int64_t i = 0; i < 6; ++i) sum += ((a[k][i] - b[k][i]).norm() / a[k][i].norm()).item<double>();
  EXPECT_NEAR(output_distance(graph, other, samples), sum / 12, 1e-5);
  EXPECT_EQ(output_distance(graph, graph, samples), 0);
}

TEST(OutputDistance, MapsAndBoxesAreNoClassScores) {
  EXPECT_FALSE(gives_class_scores(segmenter(), pictures(1)));
  EXPECT_FALSE(gives_class_scores(detector(), pictures(1)));
  TestGraph g(23);
  const auto pooled = g.node("GlobalAveragePool", {g.conv(g.input("x", {-1, 3, 12, 12}), 3, 8)});
  EXPECT_TRUE(gives_class_scores(g.finish(pooled), pictures(1)));
}

TEST(OutputDistance, MeasuresPruningWithoutLabels) {
  for (const Graph& graph : {segmenter(), detector()})
    for (const bool allocate : {false, true}) {
      const PruneResult calibrated = pruned(graph, pictures(48), "calibrated", allocate);
      EXPECT_EQ(metric_of(calibrated.before.metrics, "distance"), 0.0);
      EXPECT_EQ(metric_of(calibrated.before.metrics, "argmax"), 1.0);
      ASSERT_EQ(calibrated.after.metrics.size(), 4U);
      EXPECT_EQ(calibrated.after.metrics[0].first, "distance");
      const double distance = calibrated.after.metrics[0].second;
      EXPECT_GT(distance, 0);
      EXPECT_NEAR(distance, output_distance(graph, calibrated.graph, pictures(48)), 1e-9);
      EXPECT_THAT(calibrated.notes, testing::Contains(testing::HasSubstr("there are no labels")));
      if (!allocate) EXPECT_LT(distance, 0.8 * pruned(graph, pictures(48), "none").after.metrics[0].second);
    }
}

// Labels of classes say nothing about maps.
TEST(OutputDistance, MeasuresMapsAlsoWhereSamplesHaveLabels) {
  const Samples labelled = samples_of(pictures(12).inputs(0, 12), at::arange(12, at::kLong).remainder(3));
  const PruneResult result = pruned(segmenter(), labelled, "most-sim");
  EXPECT_EQ(result.after.metrics.at(0).first, "distance");
  EXPECT_THAT(result.notes, testing::Contains(testing::HasSubstr("not the scores of classes")));
}

TEST(OutputDistance, IsNoGate) {
  PruneOptions options{.channels = 0.5, .round_to = 1, .max_drop = 0.1};
  try {
    prune(segmenter(), pictures(8), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("needs labels and the scores of classes"));
  }
}

// Six pictures to learn from and six to measure on, with classes or without.
fs::path picture_folder(const std::string& name, const std::vector<std::string>& classes) {
  const fs::path folder = fs::path(testing::TempDir()) / name;
  at::manual_seed(5);
  for (const char* split : {"train", "test"}) {
    for (int i = 0; i < 6; ++i) {
      const fs::path directory = folder / split / classes[static_cast<size_t>(i) % classes.size()];
      fs::create_directories(directory);
      write_png(directory / fmt::format("{}.png", i), at::randint(256, {3, 14, 12}, at::TensorOptions(at::kByte)));
    }
  }
  return folder;
}

// Compression judges maps as pruning does: a class for each picture is no answer that they could be held to.
TEST(OutputDistance, MeasuresWhatCompressionMakesOfMaps) {
  for (const auto& classes : {std::vector<std::string>{"a", "b"}, {""}}) {
    const fs::path folder = picture_folder("pare_compressed_maps", classes);
    CompressJob job;
    job.macs = 0.3;
    job.runtime = Runtime::pare;
    job.round_to = 1;
    job.int8 = true;
    job.data.data = "folder:" + folder.string();
    const CompressResult result = compress(segmenter(), job);
    EXPECT_TRUE(result.reached);
    EXPECT_EQ(result.metric, "closeness");
    EXPECT_EQ(metric_of(result.before.metrics, "distance"), 0.0);
    ASSERT_EQ(result.after.metrics.size(), 4U);
    EXPECT_GT(result.after.metrics[0].second, 0);
    EXPECT_LT(result.after.metrics[0].second, 1);
    EXPECT_THAT(result.notes, testing::Contains(testing::HasSubstr("measured by how far outputs agree")));
    fs::remove_all(folder);
  }
}

TEST(OutputDistance, PicturesOfAFolderNeedNoClasses) {
  const fs::path folder = picture_folder("pare_unlabelled", {""});
  PruneJob job;
  job.data.data = "folder:" + folder.string();
  job.channels = 0.4;
  job.round_to = 1;
  const PruneResult result = prune(segmenter(), job);
  EXPECT_EQ(result.compensate, "calibrated");
  EXPECT_EQ(result.after.metrics.at(0).first, "distance");
  EXPECT_GT(result.after.metrics.at(0).second, 0);
  EXPECT_THROW(job.data.load(segmenter()), Error);  // what needs labels refuses them
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pare
