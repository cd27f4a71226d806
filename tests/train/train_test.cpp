#include "pare/train/train.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "pare/error.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

// Two classes of 8x8 images: bright above or bright below, with noise.
Dataset halves(int64_t count) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  Dataset data{.name = "halves", .classes = {"above", "below"}, .mean = {0.5}, .std = {0.5}, .split = "train"};
  data.labels = at::arange(count, at::kLong).remainder(2);
  data.images = at::randint(0, 120, {count, 1, 8, 8}, generator, at::kLong).to(at::kByte);
  for (int64_t i = 0; i < count; ++i) data.images[i][0].narrow(0, i % 2 * 4, 4).add_(80);
  return data;
}

Graph small_net(bool batch_norm, double dropout = 0) {
  return build(batch_norm ? "convnet-bn" : "convnet",
               {.width = 0.25, .classes = 2, .input = {1, 8, 8}, .dropout = dropout}, 1);
}

TrainOptions short_run() {
  TrainOptions options;
  options.epochs = 3;
  options.batch = 16;
  options.optimizer.lr = 0.05;
  return options;
}

void expect_same(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(tensor.equal(b.at(name))) << name;
  }
}

TEST(Train, LearnsAndReports) {
  std::vector<double> losses;
  int64_t steps = 0;
  TrainParts parts;
  parts.on_step = [&](const StepReport& report) { EXPECT_EQ(report.at.step, ++steps); };
  parts.on_epoch = [&](const TrainState& state) { losses.push_back(state.history.back().loss); };
  const TrainResult result = train(small_net(true), halves(100), short_run(), parts);
  EXPECT_EQ(steps, 3 * 7);
  ASSERT_EQ(losses.size(), 3);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
  EXPECT_GT(result.state.history.back().accuracy, 0.95);
  EXPECT_TRUE(result.state.finished);
}

TEST(Train, StatisticsMoveAndConstantsStay) {
  const Graph before = small_net(true);
  const Graph after = train(before, halves(64), short_run()).last;
  EXPECT_FALSE(after.tensor("bn1.running_mean").equal(before.tensor("bn1.running_mean")));
  EXPECT_FALSE(after.tensor("conv1.weight").equal(before.tensor("conv1.weight")));
  for (const auto& [name, tensor] : before.tensors) {
    EXPECT_TRUE(after.tensor(name).is_contiguous()) << name;
    if (!at::isFloatingType(tensor.scalar_type())) {
      EXPECT_TRUE(tensor.equal(after.tensor(name))) << name;
    }
  }
}

// One step of plain gradient descent by hand.
TEST(Train, AStepIsTheGradientOfTheObjective) {
  const Graph graph = cast(small_net(false), at::kDouble);
  const Dataset data = halves(8);
  TrainOptions options = short_run();
  options.epochs = 1;
  options.batch = 8;
  options.order = SampleOrder::stored;
  options.schedule.schedule = ScheduleKind::constant;
  options.optimizer = {.lr = 0.1, .momentum = 0, .weight_decay = 0};
  const Graph after = train(graph, data, options).last;

  TensorMap parameters;
  for (const auto& name : trained_tensors(graph)) parameters[name] = graph.tensor(name).clone().requires_grad_();
  const at::Tensor images = make_batch(data, 0, 8).images.to(at::kDouble);
  const auto logits = forward(graph, {&images, 1}, {.training = true, .parameters = &parameters}).outputs[0];
  at::nll_loss(at::log_softmax(logits, 1), data.labels).backward();
  for (const auto& [name, tensor] : parameters)
    EXPECT_LT((tensor.detach() - 0.1 * tensor.grad() - after.tensor(name)).abs().max().item<double>(), 1e-12) << name;
}

TEST(Train, MultiLabelLossIsTheMeanBinaryCrossEntropy) {
  const auto logits = at::randn({3, 4}, at::kDouble);
  const auto labels = at::randint(0, 2, {3, 4}).to(at::kFloat);
  const auto s = logits.sigmoid();
  const auto expected = -(labels * s.log() + (1 - labels) * (1 - s).log()).mean();
  EXPECT_NEAR(classification_loss(logits, labels).item<double>(), expected.item<double>(), 1e-7);
  EXPECT_THROW(classification_loss(logits, labels.narrow(1, 0, 3)), Error);
}

TEST(Train, LabelSmoothingMixesInTheUniformTarget) {
  const auto logits = at::randn({5, 4}, at::kDouble);
  const auto labels = at::tensor({0, 3, 1, 2, 2}, at::kLong);
  const auto log_p = at::log_softmax(logits, 1);
  const auto expected = -(0.9 * log_p.gather(1, labels.unsqueeze(1)).squeeze(1) + 0.1 * log_p.mean(1)).mean();
  EXPECT_NEAR(classification_loss(logits, labels, 0.1).item<double>(), expected.item<double>(), 1e-12);
}

// Stopped after every possible number of steps, stored, read back and gone on with: the same bits.
TEST(Train, ResumesToTheSameBits) {
  const Graph graph = small_net(true, 0.3);
  const Dataset data = halves(60);
  TrainOptions options = short_run();
  options.augment = "flip";
  options.average = 0.9;
  options.optimizer.optimizer = OptimizerKind::adam;
  options.seed = 5;
  const auto validate = [](const Graph& g) { return g.tensor("conv1.weight").sum().item<double>(); };
  TrainParts whole;
  whole.validate = validate;
  const TrainResult expected = train(graph, data, options, whole);
  const auto path = std::filesystem::temp_directory_path() / "pare_resume.safetensors";
  for (const int64_t stop : {1, 3, 4, 5, 8, 11}) {
    int64_t steps = 0;
    TrainParts parts;
    parts.validate = validate;
    parts.on_step = [&](const StepReport&) { ++steps; };
    parts.stop = [&] { return steps == stop; };
    parts.save = [&](const TrainState& state) { write_train_state(path, state, "run"); };
    EXPECT_THROW(train(graph, data, options, parts), Error);
    parts.stop = {};
    const TrainState from = read_train_state(path, "run");
    EXPECT_EQ(from.step, stop);
    const TrainResult result = train(graph, data, options, parts, &from);
    expect_same(result.last.tensors, expected.last.tensors);
    expect_same(result.best.tensors, expected.best.tensors);
    expect_same(result.state.optimizer, expected.state.optimizer);
    ASSERT_EQ(result.state.history.size(), expected.state.history.size());
    for (size_t i = 0; i < expected.state.history.size(); ++i) {
      EXPECT_EQ(result.state.history[i].loss, expected.state.history[i].loss);
      EXPECT_EQ(result.state.history[i].accuracy, expected.state.history[i].accuracy);
    }
  }
  std::filesystem::remove(path);
}

TEST(Train, KeepsTheBestEpochAndStopsWithoutPatience) {
  TrainOptions options = short_run();
  options.epochs = 10;
  options.patience = 2;
  std::vector<Graph> seen;
  TrainParts parts;
  const std::vector<double> scores = {0.1, 0.5, 0.4, 0.3, 0.9};
  parts.validate = [&](const Graph& graph) {
    seen.push_back(graph);
    return scores.at(seen.size() - 1);
  };
  const TrainResult result = train(small_net(false), halves(32), options, parts);
  EXPECT_EQ(seen.size(), 4);
  EXPECT_EQ(result.state.best_epoch, 2);
  expect_same(result.best.tensors, seen[1].tensors);
  expect_same(result.last.tensors, seen[3].tensors);
}

TEST(Train, AverageFollowsTheWeights) {
  TrainOptions options = short_run();
  options.epochs = 1;
  options.average = 0.75;
  at::Tensor expected;
  TrainOptions plain = options;
  plain.average = 0;
  const Dataset data = halves(48);
  for (int64_t steps = 1; steps <= 3; ++steps) {  // the weights after each step, from runs stopped there
    TrainParts parts;
    int64_t done = 0;
    at::Tensor now;
    parts.stop = [&] { return ++done == steps; };
    parts.save = [&](const TrainState& state) { now = state.raw.at("fc1.weight").clone(); };
    EXPECT_THROW(train(small_net(false), data, plain, parts), Error);
    expected = expected.defined() ? 0.75 * expected + 0.25 * now : now;
  }
  const auto found = train(small_net(false), data, options).last.tensor("fc1.weight");
  EXPECT_LT((found - expected).abs().max().item<float>(), 1e-6);
}

TEST(Train, ClipsTheGradient) {
  TrainOptions options = short_run();
  options.epochs = 1;
  options.batch = 48;
  options.optimizer = {.lr = 1, .momentum = 0, .weight_decay = 0};
  options.schedule.schedule = ScheduleKind::constant;
  options.clip_norm = 0.01;
  const Graph before = small_net(false);
  const Graph after = train(before, halves(48), options).last;
  double moved = 0;
  for (const auto& name : trained_tensors(before))
    moved += (after.tensor(name) - before.tensor(name)).to(at::kDouble).pow(2).sum().item<double>();
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5);
}

TEST(Train, ALossThatIsNotFiniteNamesTheStepAndKeepsTheState) {
  TrainOptions options = short_run();
  options.optimizer.lr = 1e30;
  options.schedule.schedule = ScheduleKind::constant;
  int saved = 0;
  TrainParts parts;
  parts.save = [&](const TrainState&) { ++saved; };
  try {
    train(small_net(false), halves(60), options, parts);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failed);
    EXPECT_NE(error.message().find("step"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("fc2.weight inf"), std::string::npos) << error.message();
  }
  EXPECT_EQ(saved, 0);
}

// w = a·b elementwise, with b trained beside a, and a penalty on b.
class Product : public Reparameterization {
 public:
  TensorMap extra(const TensorMap& parameters) const override {
    return {{"b", at::ones_like(parameters.at("fc1.weight"))}};
  }
  TensorMap effective(const TensorMap& raw, const TrainPosition&) const override {
    TensorMap result = raw;
    result["fc1.weight"] = raw.at("fc1.weight") * raw.at("b");
    return result;
  }
  at::Tensor penalty(const TensorMap& raw, const TrainPosition&) const override { return raw.at("b").sum() * weight; }
  ParameterSettings settings(const std::string& name) const override { return {.rate = name == "b" ? 0.5 : 1}; }
  void after_step(TensorMap&, Optimizer&, const TrainPosition& at) override { last = at.step; }

  double weight = 100;
  int64_t last = 0;
};

TEST(Train, AReparameterisationIsAllThatAMethodNeeds) {
  Product product;
  TrainParts parts;
  parts.parameters = &product;
  TrainOptions options = short_run();
  options.epochs = 1;
  options.batch = 32;
  options.optimizer = {.lr = 1e-4, .momentum = 0, .weight_decay = 0};
  options.schedule.schedule = ScheduleKind::constant;
  const TrainResult result = train(small_net(false), halves(32), options, parts);
  EXPECT_EQ(product.last, 1);
  // The penalty's gradient is 100 and swamps the loss's: b = 1 − 0.5·1e-4·100.
  const auto b = result.state.raw.at("b");
  EXPECT_NEAR(b.mean().item<double>(), 1 - 0.005, 1e-4);
  EXPECT_TRUE(result.last.tensor("fc1.weight").allclose(result.state.raw.at("fc1.weight") * b));
  EXPECT_FALSE(result.last.is_constant("b"));
  EXPECT_NEAR(result.state.history[0].penalty, 100.0 * static_cast<double>(b.numel()), 1);
}

TEST(Train, WhatIsTrained) {
  const auto names = trained_tensors(small_net(true));
  EXPECT_NE(std::find(names.begin(), names.end(), "bn1.weight"), names.end());
  EXPECT_EQ(std::find(names.begin(), names.end(), "bn1.running_var"), names.end());
  Graph bare;
  bare.inputs = {{.name = "x"}};
  bare.outputs = {{.name = "y"}};
  bare.nodes = {{.name = "n", .op = "Relu", .inputs = {"x"}, .outputs = {"y"}}};
  EXPECT_THROW(train(bare, halves(4), short_run()), Error);
}

TEST(TrainState, DamageIsSeen) {
  const auto path = std::filesystem::temp_directory_path() / "pare_state.safetensors";
  TrainState state = train(small_net(false), halves(16), short_run()).state;
  write_train_state(path, state, "this");
  EXPECT_EQ(read_train_state(path, "this").step, state.step);
  EXPECT_THROW(read_train_state(path, "other"), Error);
  const auto size = std::filesystem::file_size(path);
  for (const auto at : {size - 5, size / 2, size / 3}) {
    write_train_state(path, state, "this");
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.close();
    EXPECT_THROW(read_train_state(path, "this"), Error) << at;
  }
  write_train_state(path, state, "this");
  std::filesystem::resize_file(path, size / 2);
  EXPECT_THROW(read_train_state(path, "this"), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace pare
