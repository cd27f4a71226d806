#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/error.h"
#include "pare/sparsify/continuous.h"
#include "pare/sparsify/fixed_mask.h"
#include "pare/sparsify/gradual.h"
#include "pare/sparsify/hard_concrete.h"
#include "pare/sparsify/slimming.h"
#include "pare/train/train.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Dataset noise(int64_t count) {
  at::manual_seed(9);
  Dataset data{.name = "noise", .classes = {"a", "b"}, .mean = {0.5}, .std = {0.5}, .split = "train"};
  data.labels = at::arange(count, at::kLong).remainder(2);
  data.images = at::randint(0, 255, {count, 1, 8, 8}, at::kLong).to(at::kByte);
  return data;
}

Graph net() { return build("convnet-bn", {.width = 0.25, .classes = 2, .input = {1, 8, 8}}, 2); }
std::vector<std::string> names() { return maskable_tensors(net(), {}); }

TensorMap raw_of(const Reparameterization& method, at::ScalarType dtype = at::kFloat) {
  const Graph graph = cast(net(), dtype);
  TensorMap raw;
  for (const auto& name : trained_tensors(graph)) raw[name] = graph.tensor(name).clone().requires_grad_();
  for (const auto& [name, tensor] : method.extra(raw)) raw[name] = tensor.detach().clone().requires_grad_();
  return raw;
}

TrainOptions short_run() {
  TrainOptions options;
  options.epochs = 2;
  options.batch = 16;
  return options;
}

TEST(Continuous, BeginsAsTheDenseNetwork) {
  for (const double s_init : {-0.3, -0.1, 0.0, 0.2}) {
    const ContinuousSparsification method({.s_init = s_init}, names());
    const TensorMap raw = raw_of(method, at::kDouble);
    const TensorMap effective = method.effective(raw, {0, 100, 10});
    for (const auto& name : names())
      EXPECT_LT((effective.at(name) - raw.at(name)).abs().max().item<double>(), 1e-15) << s_init;
  }
}

TEST(Continuous, TemperatureIsExponentialToTheStep) {
  const ContinuousSparsification method({.beta_final = 200}, names());
  EXPECT_DOUBLE_EQ(method.beta({0, 101, 10}), 1);
  EXPECT_NEAR(method.beta({50, 101, 10}), std::sqrt(200.0), 1e-9);
  EXPECT_NEAR(method.beta({100, 101, 10}), 200, 1e-9);
  EXPECT_TRUE(std::isfinite(method.beta({0, 1, 1})));
}

// The gradients of w and s against central differences, with the penalty.
TEST(Continuous, GradientsEqualCentralDifferences) {
  at::manual_seed(6);
  const ContinuousSparsification method({.s_init = -0.1, .lambda = 0.01}, {"w"});
  TensorMap raw = {{"w", at::randn({3, 4}, at::kDouble).requires_grad_()},
                   {"w.mask_logit", (at::randn({3, 4}, at::kDouble) * 0.3).requires_grad_()}};
  const auto target = at::randn({3, 4}, at::kDouble);
  const TrainPosition at{30, 100, 10};
  const auto loss = [&] {
    const auto w = method.effective(raw, at).at("w");
    return (w - target).pow(2).sum() + method.penalty(raw, at);
  };
  loss().backward();
  const double h = 1e-6;
  for (auto& [name, tensor] : raw) {
    const auto gradient = tensor.grad().clone();
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const at::NoGradGuard no_grad;
      auto entry = tensor.view(-1)[i];
      const auto value = entry.item<double>();
      entry.fill_(value + h);
      const auto above = loss().item<double>();
      entry.fill_(value - h);
      const auto below = loss().item<double>();
      entry.fill_(value);
      EXPECT_NEAR(gradient.view(-1)[i].item<double>(), (above - below) / (2 * h), 1e-7) << name << " " << i;
    }
  }
}

TEST(Continuous, RoundsOnlyRemove) {
  const ContinuousSparsification method({.s_init = -0.1}, {"w"});
  const TensorMap logits = {{"w", at::tensor({-2.0, -0.01, 0.01, 3.0})}};
  const auto next = method.next_round(logits, ContinuousSparsification::masks(logits)).at("w");
  EXPECT_TRUE(next.allclose(at::tensor({-400.0, -2.0, -0.1, -0.1})));
  TensorMap before;
  TrainOptions options = short_run();
  options.optimizer.lr = 0.1;
  TensorMap start;
  Graph graph = net();
  for (int round = 0; round < 3; ++round) {
    ContinuousSparsification cs({.s_init = -0.02, .mask_rate = 5}, names(), start);
    TrainParts parts;
    parts.parameters = &cs;
    const TrainResult result = train(graph, noise(64), options, parts);
    const TensorMap masks = ContinuousSparsification::masks(cs.logits(result.state.raw));
    for (const auto& [name, mask] : before)
      EXPECT_FALSE(masks.at(name).logical_and(mask.logical_not()).any().item<bool>());
    for (const auto& name : names()) {  // the finished network has exact zeros just there
      EXPECT_TRUE(result.last.tensor(name).ne(0).equal(masks.at(name)));
      graph.tensors[name] = result.state.raw.at(name).contiguous();
    }
    before = masks;
    start = cs.next_round(cs.logits(result.state.raw), masks);
  }
}

TEST(FixedMask, AllOnesIsTheDenseRunBitForBit) {
  const TrainOptions options = short_run();
  const Graph dense = train(net(), noise(48), options).last;
  TensorMap ones;
  for (const auto& name : names()) ones[name] = at::ones(net().tensor(name).sizes(), at::kBool);
  FixedMask mask(ones);
  TrainParts parts;
  parts.parameters = &mask;
  const Graph ticket = train(net(), noise(48), options, parts).last;
  for (const auto& [name, tensor] : dense.tensors) EXPECT_TRUE(tensor.equal(ticket.tensor(name))) << name;
}

TEST(FixedMask, RemovedWeightsStayExactlyZero) {
  const auto masks = masks_by_score(magnitudes(net().tensors, names()), {}, 0.8, {});
  FixedMask mask(masks);
  TrainParts parts;
  parts.parameters = &mask;
  const Graph graph = train(net(), noise(48), short_run(), parts).last;
  for (const auto& name : names()) {
    EXPECT_TRUE(graph.tensor(name).masked_select(masks.at(name).logical_not()).eq(0).all().item<bool>());
    EXPECT_FALSE(graph.tensor(name).equal(masked(net(), masks).tensor(name)));
  }
}

TEST(Gradual, FollowsTheCubicToTheStep) {
  const GradualOptions options{.sparsity = 0.9, .begin = 0.1, .end = 0.8, .every = 10};
  const int64_t steps = 1000;  // t0 = 100, n = 70
  for (int64_t t = 0; t <= steps; t += 10) {
    const double expected =
        t < 100 ? 0 : 0.9 - 0.9 * std::pow(1 - std::min(1.0, (static_cast<double>(t) - 100) / 700), 3);
    EXPECT_NEAR(gradual_sparsity(options, t, steps), expected, 1e-12) << t;
  }
}

TEST(Gradual, MasksFollowAndNeverComeBack) {
  GradualPruning method({.sparsity = 0.9, .begin = 0.1, .end = 0.8, .every = 2}, {}, names());
  TrainParts parts;
  parts.parameters = &method;
  TrainOptions options = short_run();
  options.epochs = 6;
  TensorMap last;
  parts.on_step = [&](const StepReport& report) {
    if (method.masks().empty()) return;
    const double wanted =
        gradual_sparsity({.sparsity = 0.9, .begin = 0.1, .end = 0.8, .every = 2}, report.at.step, report.at.steps);
    const auto sparsity = sparsity_of(net(), method.masks());
    EXPECT_EQ(sparsity.masked_kept, std::llround((1 - wanted) * static_cast<double>(sparsity.masked_total)))
        << report.at.step;
    for (const auto& [name, mask] : last)
      EXPECT_FALSE(method.masks().at(name).logical_and(mask.logical_not()).any().item<bool>());
    last = method.masks();
  };
  const TrainResult result = train(net(), noise(64), options, parts);
  const auto sparsity = sparsity_of(result.last, nonzero_masks(result.last, names()));
  EXPECT_NEAR(sparsity.over_masked(), 0.9, 1e-3);
}

// However short the window is, the last mask has what was asked for.
TEST(Gradual, AWindowShorterThanItsStepEndsAtTheAskedSparsity) {
  for (const int64_t epochs : {1, 2, 3}) {
    GradualPruning method({.sparsity = 0.9, .begin = 0.1, .end = 0.75, .every = 20}, {}, names());
    TrainParts parts;
    parts.parameters = &method;
    TrainOptions options = short_run();
    options.epochs = epochs;
    const TrainResult result = train(net(), noise(64), options, parts);
    const auto sparsity = sparsity_of(result.last, nonzero_masks(result.last, names()));
    EXPECT_EQ(sparsity.masked_kept, std::llround(0.1 * static_cast<double>(sparsity.masked_total))) << epochs;
  }
}

// Neither momentum nor moments nor decay move a weight that was removed.
TEST(Gradual, TheOptimiserForgetsRemovedWeights) {
  for (const auto optimizer : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw})
    for (const bool nesterov : {false, true}) {
      GradualPruning method({.sparsity = 0.8, .begin = 0.1, .end = 0.8, .every = 3}, {}, names());
      TrainParts parts;
      parts.parameters = &method;
      TrainOptions options = short_run();
      options.epochs = 4;
      options.optimizer.optimizer = optimizer;
      options.optimizer.nesterov = nesterov;
      int64_t looked = 0;
      parts.on_epoch = [&](const TrainState& state) {
        for (const auto& [name, mask] : method.masks()) {
          EXPECT_TRUE(state.raw.at(name).masked_select(mask.logical_not()).eq(0).all().item<bool>())
              << name_of(optimizer) << " " << name;
          ++looked;
        }
      };
      train(net(), noise(64), options, parts);
      EXPECT_GT(looked, 0);
    }
}

TEST(FixedMask, AStateUnderMasksRemembersNothingOfRemovedWeights) {
  TrainOptions options = short_run();
  options.average = 0.9;
  const TrainState state = train(net(), noise(48), options).state;
  const auto masks = masks_by_score(magnitudes(net().tensors, names()), {}, 0.8, {});
  const TrainState start = masked(state, masks);
  for (const auto& [name, mask] : masks) {
    for (const auto& tensor : {start.raw.at(name), start.average.at(name), start.optimizer.at("velocity/" + name)})
      EXPECT_TRUE(tensor.masked_select(mask.logical_not()).eq(0).all().item<bool>()) << name;
    EXPECT_TRUE(start.raw.at(name).masked_select(mask).equal(state.raw.at(name).masked_select(mask)));
  }
}

// Kept by a count although its logit is below zero, or removed although it is above: the mask decides.
TEST(Continuous, ACountIsCarriedIntoTheNextRound) {
  const ContinuousSparsification method({.s_init = -0.1}, {"w"});
  const TensorMap logits = {{"w", at::tensor({-2.0, -0.01, 0.01, 3.0})}};
  const TensorMap masks = {{"w", at::tensor({0, 1, 0, 1}, at::kLong).to(at::kBool)}};
  const auto next = method.next_round(logits, masks).at("w");
  EXPECT_TRUE(next.allclose(at::tensor({-400.0, -0.1, -20.0, -0.1})));
  const TensorMap raw = {{"w.mask_logit", at::tensor({5.0, 5.0, 5.0, 5.0})}};
  EXPECT_TRUE(ContinuousSparsification::masks(method.logits(raw, masks)).at("w").equal(masks.at("w")));
}

TEST(HardConcrete, ProbabilityEqualsItsMonteCarloEstimate) {
  at::manual_seed(8);
  for (const double value : {-2.0, -0.5, 0.0, 1.5}) {
    const auto log_alpha = at::full({400000}, value, at::kDouble);
    const auto z = HardConcrete::sample(log_alpha, at::rand({400000}, at::kDouble));
    const auto p = HardConcrete::probability_nonzero(log_alpha)[0].item<double>();
    EXPECT_NEAR(z.ne(0).to(at::kDouble).mean().item<double>(), p, 4 * std::sqrt(p * (1 - p) / 400000)) << value;
  }
  EXPECT_EQ(HardConcrete::test_gate(at::tensor({-std::log(11.0) - 1e-9})).item<double>(), 0);
  EXPECT_GT(HardConcrete::test_gate(at::tensor({-std::log(11.0) + 1e-3})).item<double>(), 0);
}

TEST(HardConcrete, TrainsItsGates) {
  HardConcrete method({.lambda = 0.05, .gate_rate = 1, .adam = true}, names());
  TrainParts parts;
  parts.parameters = &method;
  TrainOptions options = short_run();
  options.epochs = 12;
  options.optimizer.lr = 0.1;
  const TrainResult result = train(net(), noise(64), options, parts);
  const TensorMap masks = method.masks(result.state.raw);
  EXPECT_GT(sparsity_of(net(), masks).over_masked(), 0.5);  // so strong a penalty closes gates
  for (const auto& name : names())
    EXPECT_TRUE(result.last.tensor(name).masked_select(masks.at(name).logical_not()).eq(0).all().item<bool>());
}

TEST(Slimming, PenaltyIsTheSumOfScales) {
  const auto scales = batch_norm_scales(net());
  EXPECT_EQ(scales, (std::vector<std::string>{"bn1.weight", "bn2.weight"}));
  const Slimming method(scales, 0.01);
  const TensorMap raw = raw_of(method);
  const double expected = 0.01 * static_cast<double>(raw.at("bn1.weight").numel() + raw.at("bn2.weight").numel());
  EXPECT_NEAR(method.penalty(raw, {}).item<double>(), expected, 1e-6);
  EXPECT_THROW(batch_norm_scales(build("lenet-300-100", {})), Error);
}

}  // namespace
}  // namespace pare
