#include "pare/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"

namespace pare {
namespace {

// The published rules, a tensor operation at a time.
struct SlowOptimizer {
  OptimizerOptions o;
  at::Tensor first = {}, second = {};
  int64_t t = 0;

  void step(at::Tensor& w, at::Tensor g, double lr, double decay) {
    ++t;
    if (o.optimizer == OptimizerKind::sgd) {
      g = g + decay * w;
      first = first.defined() ? o.momentum * first + g : g.clone();
      w = w - lr * (o.nesterov ? g + o.momentum * first : first);
      return;
    }
    if (o.optimizer == OptimizerKind::adamw)
      w = w - lr * decay * w;
    else
      g = g + decay * w;
    first = (first.defined() ? o.beta1 * first : at::zeros_like(w)) + (1 - o.beta1) * g;
    second = (second.defined() ? o.beta2 * second : at::zeros_like(w)) + (1 - o.beta2) * g * g;
    const auto mean = first / (1 - std::pow(o.beta1, t)), variance = second / (1 - std::pow(o.beta2, t));
    w = w - lr * mean / (variance.sqrt() + o.epsilon);
  }
};

class OptimizerRules : public testing::TestWithParam<OptimizerOptions> {};

TEST_P(OptimizerRules, EqualTheFormulas) {
  at::manual_seed(1);
  const OptimizerOptions options = GetParam();
  Optimizer optimizer(options);
  TensorMap raw;
  raw["filters"] = at::randn({5, 4, 3, 3}, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  raw["bias"] = at::randn({7}, at::kDouble).requires_grad_();
  std::map<std::string, SlowOptimizer> slow = {{"filters", {options}}, {"bias", {options}}};
  TensorMap expected = {{"filters", raw["filters"].detach().clone()}, {"bias", raw["bias"].detach().clone()}};
  for (int i = 0; i < 6; ++i) {
    const double lr = 0.1 / (i + 1);
    for (auto& [name, w] : raw) {
      const auto g = at::randn(w.sizes(), at::kDouble);
      w.mutable_grad() =
          g.contiguous(w.dim() == 4 && i % 2 == 0 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
      const bool decayed = !options.decay_weights_only || w.dim() > 1;
      slow.at(name).step(expected[name], g * 0.5, name == "bias" ? lr * 3 : lr, decayed ? options.weight_decay : 0);
    }
    optimizer.step(raw, lr, 0.5,
                   [](const std::string& name) { return ParameterSettings{.rate = name == "bias" ? 3.0 : 1.0}; });
    for (const auto& [name, w] : raw) {
      EXPECT_LT((w - expected[name]).abs().max().item<double>(), 1e-12) << name << " after step " << i;
      EXPECT_FALSE(w.grad().defined());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerRules,
    testing::Values(OptimizerOptions{.weight_decay = 0.01}, OptimizerOptions{.momentum = 0, .weight_decay = 0},
                    OptimizerOptions{.nesterov = true, .weight_decay = 0.02, .decay_weights_only = true},
                    OptimizerOptions{.optimizer = OptimizerKind::adam, .weight_decay = 0.01},
                    OptimizerOptions{
                        .optimizer = OptimizerKind::adamw, .weight_decay = 0.1, .decay_weights_only = true}));

TEST(Optimizer, GoesOnFromItsState) {
  for (const auto kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    at::manual_seed(2);
    const OptimizerOptions options{.optimizer = kind};
    TensorMap whole = {{"w", at::randn({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_()}};
    TensorMap parted = {{"w", whole["w"].detach().clone().requires_grad_()}};
    Optimizer one(options);
    auto two = std::make_unique<Optimizer>(options);
    for (int i = 0; i < 4; ++i) {
      const auto g = at::randn({4, 3, 2, 2});
      whole["w"].mutable_grad() = g.clone();
      parted["w"].mutable_grad() = g.clone();
      one.step(whole, 0.1);
      two->step(parted, 0.1);
      TensorMap state = two->state();
      for (auto& [name, tensor] : state) tensor = tensor.contiguous().clone();  // as a file gives it back
      two = std::make_unique<Optimizer>(options);
      two->restore(state);
    }
    EXPECT_TRUE(whole["w"].equal(parted["w"])) << name_of(kind);
  }
}

TEST(Optimizer, NormOfAllGradients) {
  TensorMap raw = {{"a", at::zeros({2}).requires_grad_()}, {"b", at::zeros({1}).requires_grad_()}};
  raw["a"].mutable_grad() = at::tensor({3.0F, 0.0F});
  raw["b"].mutable_grad() = at::tensor({4.0F});
  EXPECT_DOUBLE_EQ(gradient_norm(raw), 5);
}

TEST(Optimizer, RefusesNonsense) {
  EXPECT_THROW((OptimizerOptions{.lr = 0}.check()), Error);
  EXPECT_THROW((OptimizerOptions{.lr = std::nan("")}.check()), Error);
  EXPECT_THROW((OptimizerOptions{.momentum = 1}.check()), Error);
  EXPECT_THROW((OptimizerOptions{.momentum = 0, .nesterov = true}.check()), Error);
  EXPECT_THROW((OptimizerOptions{.weight_decay = -1}.check()), Error);
  EXPECT_THROW((OptimizerOptions{.beta2 = 1}.check()), Error);
}

}  // namespace
}  // namespace pare
