// Compression by its goal: what is measured on the way, and what it remembers.
#include "pare/workflow/compress.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "pare/run.h"
#include "pare/workflow/compress_memory.h"
#include "pare/workflow/held_out.h"
#include "pare/workflow/latency_table.h"
#include "pare/workflow/onnx_runtime.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

using testing::HasSubstr;

Samples pictures(int64_t count) {
  at::manual_seed(11);
  return samples_of({at::randn({count, 3, 8, 8}, at::kDouble)});
}

// Five classes, all of which it sees in the pictures.
Graph small_network() {
  TestGraph g(5);
  const auto x = g.input("x", {-1, 3, 8, 8});
  const auto a = g.relu(g.conv(x, 3, 16));
  const auto b = g.relu(g.conv(a, 16, 24));
  const auto pooled = g.node("GlobalAveragePool", {b});
  Graph graph = g.finish(g.linear(g.node("Flatten", {pooled}), 24, 5));
  const at::Tensor scores = Program(graph).run(pictures(100).inputs(0, 100), {}).outputs[0];
  graph.tensors["t5"] = graph.tensors["t5"] - scores.mean(0);
  return graph;
}

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Counts what is said of each stage.
struct Stages : Observer {
  std::map<std::string, int> seen;
  void progress(std::string_view what, int64_t, int64_t) override { ++seen[std::string(what)]; }
};

TEST(Compress, ReachesAFractionOfTheMacs) {
  const Graph graph = small_network();
  const CompressResult result = compress(graph, pictures(60), {.macs = 0.4, .runtime = Runtime::pare});
  EXPECT_TRUE(result.reached);
  EXPECT_EQ(result.metric, "agreement");
  EXPECT_EQ(result.held_out, 18);
  const double left = static_cast<double>(cost_of(result.graph).macs) / static_cast<double>(cost_of(graph).macs);
  EXPECT_LE(left, 0.6);
  EXPECT_GT(left, 0.4);
  ASSERT_GE(result.points.size(), 2U);
  EXPECT_EQ(result.points[0].macs, cost_of(graph).macs);
  EXPECT_EQ(result.points[0].score, 1.0);
  EXPECT_EQ(result.points[result.chosen].macs, cost_of(result.graph).macs);
  EXPECT_GT(result.points[result.chosen].base_latency, 0);
}

TEST(Compress, APlanSolvesNothing) {
  const Graph graph = small_network();
  Stages stages;
  const CompressResult result =
      compress(graph, pictures(40), {.macs = 0.3, .runtime = Runtime::pare, .plan = true}, stages);
  EXPECT_EQ(cost_of(result.graph).macs, cost_of(graph).macs);
  EXPECT_LT(result.after.cost.macs, result.before.cost.macs);
  EXPECT_FALSE(stages.seen.contains("solving layers"));
}

// The smallest network within the drop: what was tried and is smaller costs more.
TEST(Compress, SearchesTheSmallestWithinADrop) {
  const Graph graph = small_network();
  const double allowed = 0.2;
  const CompressResult result = compress(graph, pictures(100), {.max_drop = allowed, .runtime = Runtime::pare});
  ASSERT_TRUE(result.reached);
  EXPECT_LT(cost_of(result.graph).macs, cost_of(graph).macs);
  EXPECT_LE(result.points[result.chosen].drop, allowed);
  for (size_t i = result.chosen + 1; i < result.points.size(); ++i)
    if (result.points[i].macs < result.points[result.chosen].macs) EXPECT_GT(result.points[i].drop, allowed) << i;
}

TEST(Compress, SaysWhatWasFoundWhereADropIsExceeded) {
  const Graph graph = small_network();
  const CompressResult result = compress(graph, pictures(60), {.macs = 0.8, .max_drop = 0.0, .runtime = Runtime::pare});
  EXPECT_FALSE(result.reached);
  EXPECT_THAT(result.missed, HasSubstr("held-out samples, by more than 0"));
  EXPECT_EQ(cost_of(result.graph).macs, cost_of(graph).macs);
  EXPECT_GE(result.points.size(), 2U);
}

// Seven samples can't tell a thousandth from nothing.
TEST(Compress, SaysWhereSamplesAreTooFewForTheDrop) {
  const auto notes = [](double drop) {
    return compress(small_network(), pictures(24), {.max_drop = drop, .runtime = Runtime::pare}).notes;
  };
  EXPECT_THAT(notes(0.001), testing::Contains(testing::AllOf(HasSubstr("7 held-out samples judged"),
                                                             HasSubstr("more `samples` would tell"))));
  EXPECT_THAT(notes(0.95), testing::Not(testing::Contains(HasSubstr("held-out samples judged"))));
}

// How pictures were normalised and fitted goes with the model that learned from them so.
TEST(Compress, TheModelSaysHowItWasShownPictures) {
  const Samples samples = pictures(24);
  Graph graph = small_network();
  graph.metadata["pare.std"] = "[0.25]";
  CompressJob job;
  job.macs = 0.4;
  job.runtime = Runtime::pare;
  job.given = &samples;
  job.data.mean = {0.5};
  job.data.preprocess = "stretch";
  PruneJob pruning;
  pruning.channels = 0.5;
  pruning.given = &samples;
  pruning.data = job.data;
  for (const Graph& made : {compress(graph, job).graph, prune(graph, pruning).graph}) {
    EXPECT_EQ(made.metadata.at("pare.mean"), "[0.5,0.5,0.5]");
    EXPECT_EQ(made.metadata.at("pare.std"), "[0.25]");
    EXPECT_EQ(made.metadata.at("pare.preprocess"), "stretch");
  }
  EXPECT_FALSE(compress(graph, samples, {.macs = 0.4, .runtime = Runtime::pare}).graph.metadata.contains("pare.mean"));
}

TEST(Compress, RefusesGoalsThatMeanNothing) {
  const Graph graph = small_network();
  const auto refused = [&](const CompressOptions& options) {
    return message_of([&] { compress(graph, pictures(20), options); });
  };
  EXPECT_THAT(refused({}), HasSubstr("a goal is missing"));
  EXPECT_THAT(refused({.faster = 2, .macs = 0.5}), HasSubstr("expected one of"));
  EXPECT_THAT(refused({.faster = 0.5}), HasSubstr("expected more than 1"));
  EXPECT_THAT(refused({.latency = 1e9, .runtime = Runtime::pare}), HasSubstr("already"));
  EXPECT_THAT(refused({.faster = 1000, .runtime = Runtime::pare}), HasSubstr("beyond reach"));
  EXPECT_THAT(refused({.macs = 0.999}), HasSubstr("at most"));
  EXPECT_THAT(message_of([&] { compress(graph, pictures(2), {.macs = 0.3}); }), HasSubstr("expected 4 or more"));
}

// The second call has nothing to learn, and ends with the same network.
TEST(Compress, GoesOnFromWhatItRemembers) {
  const std::filesystem::path memory = std::filesystem::path(testing::TempDir()) / "compress-memory";
  std::filesystem::remove_all(memory);
  const Graph graph = small_network();
  const CompressOptions options{.macs = 0.4, .runtime = Runtime::pare, .memory = memory};
  Stages first, second;
  const CompressResult once = compress(graph, pictures(60), options, first);
  const CompressResult again = compress(graph, pictures(60), options, second);
  EXPECT_TRUE(first.seen.contains("ordering channels"));
  EXPECT_FALSE(second.seen.contains("ordering channels"));
  EXPECT_EQ(again.points[again.chosen].latency, once.points[once.chosen].latency);
  for (const auto& [name, tensor] : once.graph.tensors) EXPECT_TRUE(tensor.equal(again.graph.tensors.at(name))) << name;
  // Other samples are another thing to learn.
  Stages other;
  compress(graph, pictures(61), options, other);
  EXPECT_TRUE(other.seen.contains("ordering channels"));
}

TEST(CompressMemory, ForgetsWhatIsNotItsOwn) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "memory";
  std::filesystem::remove_all(directory);
  const CompressPoint point{.widths = {{"a", 3}}, .macs = 7, .latency = 0.5, .base_latency = 1, .score = 0.25};
  CompressMemory(directory, "mine").keep(point);
  const auto found = CompressMemory(directory, "mine").point({{"a", 3}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->macs, 7);
  EXPECT_EQ(found->score, 0.25);
  EXPECT_DOUBLE_EQ(found->speed_up(), 2);
  EXPECT_FALSE(CompressMemory(directory, "mine").point({{"a", 4}}));
  EXPECT_FALSE(CompressMemory(directory, "another").point({{"a", 3}}));
  std::ofstream(directory / "points.json") << R"({"key":"mine","points":[{"widths":5}]})";
  std::ofstream(directory / "study.json") << "no JSON";
  EXPECT_FALSE(CompressMemory(directory, "mine").point({{"a", 3}}));
  EXPECT_FALSE(CompressMemory(directory, "mine").study());
}

// Wins and losses of a picture cancel in the mean and not in the interval.
TEST(HeldOut, MeanOfPairedDifferences) {
  const at::Tensor none = at::zeros({98}, at::kDouble);
  EXPECT_EQ(mean_difference(none).first, 0);
  EXPECT_NEAR(mean_difference(none).second, 1.96 * std::sqrt(0.02 / 100), 1e-12);
  const at::Tensor mixed =
      at::cat({at::ones({10}, at::kDouble), -at::ones({10}, at::kDouble), at::zeros({78}, at::kDouble)});
  EXPECT_NEAR(mean_difference(mixed).first, 0, 1e-12);
  EXPECT_NEAR(mean_difference(mixed).second, 1.96 * std::sqrt(22.0 / 100 / 100), 1e-12);
}

TEST(HeldOut, MeasuresByWhatSamplesAndAnswersAre) {
  const Graph graph = small_network();
  const Samples unlabelled = pictures(30);
  const at::Tensor answers = Program(graph).run(unlabelled.inputs(0, 30), {}).outputs[0];
  Samples labelled = unlabelled;
  labelled.labels = [labels = answers.argmax(1)](int64_t begin, int64_t end) { return labels.slice(0, begin, end); };
  Observer nobody;
  EXPECT_EQ(HeldOut(graph, unlabelled, nobody).metric(), "agreement");
  const HeldOut top1(graph, labelled, nobody);
  EXPECT_EQ(top1.metric(), "top1");
  EXPECT_EQ(top1.original(), 1);
  // A network that always answers one class is right where that class is.
  Graph constant = graph;
  constant.tensors["t4"] = at::zeros_like(constant.tensors["t4"]);
  constant.tensors["t5"] = at::tensor({9.0, 0.0, 0.0, 0.0, 0.0}, at::kDouble);
  const double share = (answers.argmax(1) == 0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(top1.score(constant).score, share, 1e-12);
  EXPECT_NEAR(top1.score(constant).drop, 1 - share, 1e-12);
}

// Maps are judged by closeness, whether the original's are kept or made again.
TEST(HeldOut, MapsNeedNotBeKept) {
  TestGraph g(31);
  const auto trunk = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 8));
  const Graph graph = g.finish(g.conv(trunk, 8, 4, 1));
  Graph other = graph;
  for (auto& [name, tensor] : other.tensors)
    if (tensor.is_floating_point()) tensor = 0.9 * tensor;
  at::manual_seed(3);
  const Samples samples = samples_of({at::randn({21, 3, 8, 8}, at::kDouble)});
  Observer nobody;
  const HeldOut kept(graph, samples, nobody), made_again(graph, samples, nobody, 0);
  EXPECT_EQ(kept.metric(), "closeness");
  EXPECT_EQ(made_again.original(), 1);
  EXPECT_NEAR(kept.original(), 1, 1e-12);
  const auto z = Program(graph).run(samples.inputs(0, 21), {}).outputs[0].flatten(1);
  const auto w = Program(other).run(samples.inputs(0, 21), {}).outputs[0].flatten(1);
  const double closeness = (1 - (w - z).square().sum(1) / z.square().sum(1)).mean().item<double>();
  EXPECT_NEAR(kept.score(other).score, closeness, 1e-6);
  EXPECT_EQ(made_again.score(other).score, kept.score(other).score);
}

TEST(LatencyTable, CurvesRiseAndAreLinearBetween) {
  const LatencyCurve curve = latency_curve({{1, 8}, {0.25, 3}, {0.5, 2.5}, {0.75, 5}});
  EXPECT_DOUBLE_EQ(curve.at(1), 8);
  EXPECT_DOUBLE_EQ(curve.at(0.625), 3.75);
  EXPECT_DOUBLE_EQ(curve.at(0.25), 2.5);  // measured 3: noise
  EXPECT_DOUBLE_EQ(curve.at(0), 2.5);
  EXPECT_DOUBLE_EQ(latency_curve({{1, 4}}).at(0.5), 2);
}

TEST(LatencyTable, ALayerAloneComputesWhatItDoesInTheNetwork) {
  const Graph graph = small_network();
  const Shapes shapes = analysis_shapes(graph);
  const at::Tensor x = pictures(1).inputs(0, 1)[0];
  const Graph first = layer_alone(graph, shapes, 0), second = layer_alone(graph, shapes, 2);
  ASSERT_EQ(first.nodes.size(), 2U);
  EXPECT_EQ(first.nodes[1].op, "Relu");
  const at::Tensor between = Program(first).run(std::vector{x}, {}).outputs[0];
  RunOptions taps;
  taps.taps = {second.outputs[0].name};
  EXPECT_TRUE(Program(second)
                  .run(std::vector{between}, {})
                  .outputs[0]
                  .allclose(Program(graph).run(std::vector{x}, taps).tapped.at(second.outputs[0].name)));
}

// Whatever the runtime joins, each layer's time is known; and the activation alone reads what a layer makes, so that it
// is told as the layer's or as its own, never lost.
TEST(LatencyMeter, KnowsWhatEachLayerTakesInOnnxRuntime) {
  if (OnnxRuntime::find().empty()) GTEST_SKIP() << "onnxruntime-node is not installed in data/node_modules";
  const Graph graph = cast(small_network(), at::kFloat);
  const std::vector<NodeTime> times = LatencyMeter(Runtime::onnxruntime, 1, 0).node_times(graph);
  std::set<size_t> seen;
  for (const auto& [node, op, seconds] : times) {
    ASSERT_LT(node, graph.nodes.size());
    EXPECT_GT(seconds, 0) << op;
    const bool layer = graph.nodes[node].op == "Conv" || graph.nodes[node].op == "Gemm";
    seen.insert(layer || node == 0 ? node : node - 1);
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].op == "Conv" || graph.nodes[n].op == "Gemm") EXPECT_TRUE(seen.contains(n)) << n;
}

TEST(LatencyTable, NarrowerIsNeverSlower) {
  const Graph graph = small_network();
  const ChannelMap map = analyze_channels(graph);
  const auto groups = candidates(graph, map, {.budget = Budget::macs, .ratio = 0.5, .round_to = 1});
  const LatencyMeter meter(Runtime::pare, 1, 0);
  Observer nobody;
  const LatencyTable table(graph, map, groups, meter, nobody);
  EXPECT_GT(table.whole(), 0);
  EXPECT_DOUBLE_EQ(table({}), table.whole());
  std::set<ChannelId> removed;
  double before = table.whole();
  for (const ChannelId channel : map.groups[1].channels) {
    if (removed.size() + 1 == map.groups[1].channels.size()) break;
    removed.insert(channel);
    const double now = table(removed);
    EXPECT_LE(now, before + 1e-15);
    EXPECT_GE(now, 0);
    before = now;
  }
}

}  // namespace
}  // namespace pare
