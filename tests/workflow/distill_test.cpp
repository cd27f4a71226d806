// Learning from the original in the three settings of compression, and what the settings themselves must keep.
#include "pare/workflow/distill.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/error.h"
#include "pare/run.h"
#include "pare/workflow/prune.h"
#include "pare/workflow/sparsify.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Dataset noise() {
  at::manual_seed(3);
  Dataset data{.name = "noise", .classes = {"a", "b", "c"}, .mean = {0.5}, .std = {0.25}, .split = "train"};
  data.images = at::randint(256, {24, 3, 16, 16}, at::kByte);
  data.labels = at::randint(0, 2, {24, 3}, at::kByte);
  check_dataset(data);
  return data;
}

Graph net(double width = 0.25) { return build("vgg9-bn", {.width = width, .classes = 3, .input = {3, 16, 16}}, 4); }

// Trains without a run directory and keeps what it was asked.
struct Recorder {
  std::vector<std::string> objectives;  // "distillation" or ""
  std::vector<Graph> trained;

  Trainer trainer() {
    return [this](const Graph& graph, const Dataset& data, const TrainingOptions& options, const TrainingJob& job) {
      objectives.emplace_back(job.objective != nullptr ? "distillation" : "");
      TrainResult result =
          train(graph, data, options.train, {.parameters = job.parameters, .objective = job.objective});
      trained.push_back(result.last);
      return TrainingOutcome{.graph = std::move(result.last), .state = std::move(result.state)};
    };
  }
};

SparsifyOptions rounds_of(int64_t rounds) {
  SparsifyOptions options;
  options.method = "imp-continued";
  options.rounds = rounds;
  options.round_rate = 0.2;
  options.training.train.epochs = 1;
  options.training.train.batch = 8;
  options.distill.match = "sswa";
  return options;
}

TEST(Distill, RoundsOfPruningRemoveTheirShareAndLearnFromTheDenseNetwork) {
  Recorder recorder;
  const SparsifyResult result = sparsify(net(), true, noise(), rounds_of(4), recorder.trainer());
  ASSERT_EQ(result.rounds.size(), 4u);
  EXPECT_EQ(recorder.objectives, std::vector<std::string>(4, "distillation"));
  for (size_t r = 0; r < 4; ++r) {
    const SparsityReport& sparsity = result.rounds[r].sparsity;
    EXPECT_NEAR(sparsity.over_masked(), 1 - std::pow(0.8, static_cast<double>(r + 1)),
                1.0 / static_cast<double>(sparsity.masked_total));
    for (const auto& [name, mask] : result.rounds[r].masks)  // zeros stay zeros through the training itself
      EXPECT_EQ(recorder.trained[r].tensor(name).masked_select(mask.logical_not()).ne(0).sum().item<int64_t>(), 0);
  }
}

TEST(Distill, ADenseTrainingComesFirstWhereThereIsNoTrainedNetwork) {
  Recorder recorder;
  sparsify(net(), false, noise(), rounds_of(2), recorder.trainer());
  EXPECT_EQ(recorder.objectives, (std::vector<std::string>{"", "distillation", "distillation"}));
  SparsifyOptions cs = rounds_of(1);
  cs.method = "cs";
  EXPECT_THROW(sparsify(net(), false, noise(), cs, recorder.trainer()), Error);
}

TEST(Distill, MagnitudeLearnsOnlyWhileItIsFineTuned) {
  Recorder recorder;
  SparsifyOptions magnitude = rounds_of(1);
  magnitude.method = "magnitude";
  magnitude.sparsity = 0.5;
  for (const bool trained : {true, false})
    EXPECT_THROW(sparsify(net(), trained, noise(), magnitude, recorder.trainer()), Error);
  EXPECT_TRUE(recorder.objectives.empty());
  magnitude.finetune = 1;
  sparsify(net(), true, noise(), magnitude, recorder.trainer());
  EXPECT_EQ(recorder.objectives, std::vector<std::string>{"distillation"});
}

// Filters whose batch norm is zero do nothing: without them, and their columns of the classifier, the function is the
// same.
TEST(Distill, DeadFiltersAreRemovedWithTheirColumns) {
  Graph graph = cast(net(0.5), at::kDouble);
  at::manual_seed(8);
  for (const auto& node : std::vector<Node>(graph.nodes)) {
    if (node.op != "BatchNormalization") continue;
    const int64_t channels = graph.tensor(node.inputs[1]).size(0);
    const at::Tensor alive = at::randperm(channels).ge(channels / 2).to(at::kDouble);
    graph.tensors[node.inputs[1]] = (at::rand({channels}, at::kDouble) + 0.5) * alive;
    graph.tensors[node.inputs[2]] = at::randn({channels}, at::kDouble) * alive;
    graph.tensors[node.inputs[3]] = at::randn({channels}, at::kDouble);
  }
  PruneJob options;
  options.channels = 0.5;
  options.criterion = "bn";
  options.compensate = "none";
  options.round_to = 1;
  const PruneResult pruned = prune(graph, options);
  EXPECT_LT(pruned.after.cost.parameters, 0.3 * static_cast<double>(pruned.before.cost.parameters));
  const at::Tensor x = at::randn({4, 3, 16, 16}, at::kDouble);
  const at::Tensor before = forward(graph, {&x, 1}).outputs[0], after = forward(pruned.graph, {&x, 1}).outputs[0];
  EXPECT_LT((before - after).abs().max().item<double>(), 1e-12);
}

TEST(Distill, TeacherAndOptionsDefineTheRun) {
  std::vector<std::string> definitions;
  const Trainer trainer = [&](const Graph& graph, const Dataset&, const TrainingOptions&, const TrainingJob& job) {
    definitions.push_back(job.definition);
    return TrainingOutcome{.graph = graph};
  };
  const Graph student = net(0.125), one = net(), other = net(0.5);
  const DistillationOptions swa{.match = "swa"}, sswa{.match = "sswa"};
  distill({one, student, swa}, noise(), {}, trainer);
  distill({one, student, sswa}, noise(), {}, trainer);
  distill({other, student, swa}, noise(), {}, trainer);
  distill({one, student, swa}, noise(), {}, trainer);
  EXPECT_NE(definitions[0], definitions[1]);
  EXPECT_NE(definitions[0], definitions[2]);
  EXPECT_EQ(definitions[0], definitions[3]);
  Dataset grey = noise();
  grey.images = grey.images.slice(1, 0, 1);
  EXPECT_THROW(distill({one, student, swa}, grey, {}, trainer), Error);
}

}  // namespace
}  // namespace pare
