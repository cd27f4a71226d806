// Commands on models as exporters leave them: with a fixed batch, or in half precision. The oracle is the same model
// with an open batch in single precision.
#include "pare/passes/working_form.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/bytes.h"
#include "pare/compensate/compensate.h"
#include "pare/metrics/evaluate.h"
#include "pare/run.h"
#include "pare/workflow/compare.h"
#include "pare/workflow/fuse.h"
#include "pare/workflow/prune.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

const TemporaryDirectory& digits() {
  static const TemporaryDirectory directory("working_form");
  static const bool written = [] {
    for (const auto& [name, count] : {std::pair("train", 40U), std::pair("t10k", 20U)}) {
      std::string pixels, labels;
      for (uint32_t i = 0; i < count * 784; ++i) pixels.push_back(static_cast<char>((i * 2654435761U) >> 24));
      for (uint32_t i = 0; i < count; ++i) labels.push_back(static_cast<char>(i % 10));
      directory.write(std::string(name) + "-images-idx3-ubyte", idx_of({count, 28, 28}, pixels));
      directory.write(std::string(name) + "-labels-idx1-ubyte", idx_of({count}, labels));
    }
    return true;
  }();
  EXPECT_TRUE(written);
  return directory;
}

DataChoice digits_choice() { return {.data = "mnist:" + digits().path.string()}; }

Graph open_net(uint64_t seed = 1) { return build("convnet-bn", {.width = 0.25, .input = {1, 28, 28}}, seed); }

// Batch one, and the Flatten as a Reshape to one row.
Graph fixed_net(uint64_t seed = 1) {
  Graph graph = open_net(seed);
  for (auto* infos : {&graph.inputs, &graph.outputs})
    for (auto& info : *infos)
      if (info.dims) info.dims->front() = {.size = 1};
  for (auto& node : graph.nodes) {
    if (node.op != "Flatten") continue;
    node.op = "Reshape";
    node.attributes.clear();
    node.inputs.emplace_back("row");
    graph.tensors["row"] = at::tensor(std::vector<int64_t>{1, -1}, at::kLong);
  }
  EXPECT_TRUE(graph.tensors.contains("row"));
  return graph;
}

// One that cannot be opened: a constant of one image is put beside the channels of the input.
Graph closed_net() {
  Graph graph = fixed_net();
  const std::string input = graph.inputs[0].name;
  for (auto& node : graph.nodes)
    for (auto& name : node.inputs)
      if (name == input) name = "cut";
  graph.tensors["none"] = at::zeros({1, 1, 28, 0});
  Node join{.name = "join", .op = "Concat", .inputs = {input, "none"}, .outputs = {"cut"}};
  join.attributes["axis"] = int64_t{3};
  graph.nodes.insert(graph.nodes.begin(), join);
  return graph;
}

at::Tensor scores(const Graph& graph) {
  at::manual_seed(4);
  const at::Tensor images = at::randn({6, 1, 28, 28});
  return forward(graph, {&images, 1}).outputs[0];
}

double distance(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

PruneJob options_for(const std::string& compensation, const std::string& criterion = "l1") {
  PruneJob options;
  options.channels = 0.4;
  options.round_to = 1;
  options.compensate = compensation;
  options.criterion = criterion;
  options.images = MadeImages::white;
  options.samples = 12;
  options.data = digits_choice();
  return options;
}

TEST(WorkingForm, EvaluationOfAFixedBatchIsThatOfAnOpenOne) {
  const Dataset data = digits_choice().load(open_net());
  const Evaluation found = evaluate({open_net(), fixed_net(), closed_net()}, data);
  for (const size_t m : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(found.models[m].top1(), found.models[0].top1());
    EXPECT_NEAR(found.models[m].loss(), found.models[0].loss(), 1e-5);
  }
}

TEST(WorkingForm, PruningAFixedBatchIsPruningAnOpenOne) {
  for (const auto& [compensation, criterion] : std::vector<std::pair<std::string, std::string>>{
           {"synthetic", "l1"}, {"calibrated", "taylor"}, {"none", "subset"}}) {
    PruneJob options = options_for(compensation, criterion);
    // Of 32 channels on 12 samples the twelfth is as good as any other left: rounding would choose it.
    if (criterion == "subset") options.samples = 40;
    const PruneResult expected = prune(open_net(), options);
    for (const Graph& graph : {fixed_net(), closed_net()}) {
      const PruneResult found = prune(graph, options);
      EXPECT_LE(distance(scores(found.graph), scores(expected.graph)), 1e-3) << compensation;
      EXPECT_EQ(found.graph.inputs[0].dims->front().size, 1) << "the batch that the file declares";
      EXPECT_EQ(found.graph.outputs[0].dims->front().size, 1);
      EXPECT_EQ(found.notes, expected.notes);
    }
  }
}

TEST(WorkingForm, DistillingFromAFixedBatchMakesAsManyImages) {
  PruneJob options = options_for("synthetic");
  options.images = MadeImages::distilled;
  options.samples = 5;
  options.distill_steps = 3;
  const PruneResult expected = prune(open_net(), options);
  for (const Graph& graph : {fixed_net(), closed_net()}) {
    const PruneResult found = prune(graph, options);
    EXPECT_LE(distance(scores(found.graph), scores(expected.graph)), 1e-2);
    ASSERT_EQ(found.notes.size(), expected.notes.size());
    EXPECT_THAT(found.notes, testing::Contains(testing::HasSubstr("distilled 5 images")));
  }
}

TEST(WorkingForm, FusionByNoiseOfAFixedBatchIsThatOfAnOpenOne) {
  FuseRunOptions options;
  options.fuse.repair = FusionRepair::regression;
  options.fuse.inputs = 60;
  const Graph expected = run_fuse({open_net(1), open_net(2)}, options).result.fused;
  const Graph found = run_fuse({fixed_net(1), fixed_net(2)}, options).result.fused;
  EXPECT_LE(distance(scores(found), scores(expected)), 1e-3);
  EXPECT_EQ(found.inputs[0].dims->front().size, 1);
}

// Numbers of eleven bits: the result of a method differs by no more than rounding does.
constexpr double kHalfRounding = 2e-2;

TEST(WorkingForm, PruningHalfPrecisionIsPruningSinglePrecision) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const Graph half = cast(open_net(), dtype);
    const Graph single = cast(half, at::kFloat);
    for (const auto& compensation : compensations()) {
      if (dtype == at::kBFloat16 && compensation.name != "calibrated") continue;  // widened alike
      const PruneJob options = options_for(std::string(compensation.name));
      const PruneResult found = prune(half, options);
      for (const auto& [name, tensor] : found.graph.tensors)
        EXPECT_TRUE(!tensor.is_floating_point() || tensor.scalar_type() == dtype) << name;
      EXPECT_EQ(found.graph.inputs[0].dtype, dtype);
      EXPECT_NEAR(static_cast<double>(found.before.cost.bytes), static_cast<double>(cost_of(half).bytes), 0);
      EXPECT_LE(distance(scores(working_form(found.graph)), scores(prune(single, options).graph)),
                dtype == at::kHalf ? kHalfRounding : 8 * kHalfRounding)
          << compensation.name;
    }
  }
  for (const char* criterion : {"gm", "bn", "taylor", "subset"}) {
    const PruneJob options = options_for("none", criterion);
    const Graph half = cast(open_net(), at::kHalf);
    EXPECT_LE(distance(scores(working_form(prune(half, options).graph)),
                       scores(prune(cast(half, at::kFloat), options).graph)),
              kHalfRounding)
        << criterion;
  }
}

TEST(WorkingForm, FusionOfHalfPrecisionIsThatOfSinglePrecision) {
  std::vector<Graph> half, single;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
    half.push_back(cast(open_net(seed), at::kHalf));
    single.push_back(cast(half.back(), at::kFloat));
  }
  for (const auto repair : {FusionRepair::none, FusionRepair::rescale, FusionRepair::regression}) {
    FuseRunOptions options;
    options.fuse.repair = repair;
    if (options.fuse.repair == FusionRepair::regression) options.fuse.inputs = 60;
    if (options.fuse.repair != FusionRepair::none) options.data = digits_choice(), options.samples = 20;
    const FuseRun found = run_fuse(half, options);
    EXPECT_EQ(found.result.fused.inputs[0].dtype, at::kHalf);
    EXPECT_EQ(found.result.fused.tensors.begin()->second.scalar_type(), at::kHalf);
    EXPECT_LE(distance(scores(working_form(found.result.fused)), scores(run_fuse(single, options).result.fused)),
              kHalfRounding)
        << name_of(repair);
  }
}

TEST(WorkingForm, EvaluationAndComparisonOfHalfPrecision) {
  const Graph half = cast(open_net(), at::kHalf);
  const Graph single = cast(half, at::kFloat);
  const Dataset data = digits_choice().load(half);
  const Evaluation found = evaluate({half, single}, data);
  EXPECT_NEAR(found.models[0].loss(), found.models[1].loss(), 1e-3);
  const auto differences = compare_models(half, half, {random_inputs(half, 2, 1)}, {});
  EXPECT_TRUE(differences[0].ok());
}

}  // namespace
}  // namespace pare
