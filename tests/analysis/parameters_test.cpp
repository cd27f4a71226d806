#include "pare/analysis/parameters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/train/train.h"

namespace pare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// x → normalised → a linear layer with its bias → scores masked → Softmax → a second layer → scaled.
Graph masked_scores() {
  at::manual_seed(1);
  Graph graph{.name = "masked"};
  graph.inputs = {{.name = "x", .dims = std::vector<Dim>{{.symbol = "N"}, {.size = 1}, {.size = 4}, {.size = 4}}}};
  graph.outputs = {{.name = "y"}};
  graph.tensors = {{"std", at::full({1, 1, 1, 4}, 0.5)},
                   {"q", at::randn({4, 4})},
                   {"bias", at::zeros({4})},
                   {"mask", at::triu(at::full({4, 4}, -kInfinity), 1)},
                   {"large", at::triu(at::full({4, 4}, -1e9F), 1)},
                   {"keep", at::tril(at::ones({4, 4}))},
                   {"half", at::full({1}, 0.5)},
                   {"relative", at::randn({4, 4})},
                   {"gamma", at::ones({4})},
                   {"w", at::randn({16, 2})}};
  const auto node = [&](const char* op, std::vector<std::string> inputs, const char* output) {
    graph.nodes.push_back({.name = output, .op = op, .inputs = std::move(inputs), .outputs = {output}});
  };
  node("Mul", {"x", "std"}, "normalised");
  node("MatMul", {"normalised", "q"}, "product");
  node("Add", {"bias", "product"}, "queries");
  node("Mul", {"queries", "keep"}, "kept");
  node("MatMul", {"queries", "kept"}, "scores");
  node("Mul", {"scores", "half"}, "smaller");
  node("Add", {"smaller", "mask"}, "causal");
  node("Add", {"causal", "large"}, "twice");
  node("Add", {"twice", "relative"}, "positioned");
  node("Softmax", {"positioned"}, "attention");
  node("Add", {"attention", "queries"}, "sum");
  node("Mul", {"sum", "gamma"}, "scaled");
  node("Flatten", {"scaled"}, "flat");
  node("MatMul", {"flat", "w"}, "y");
  return graph;
}

TEST(TrainedTensors, AreParametersAndNotEveryConstant) {
  EXPECT_EQ(trained_tensors(masked_scores()), (std::vector<std::string>{"bias", "gamma", "q", "w"}));
}

TEST(TrainedTensors, AMaskOfMinusInfinitySurvivesTraining) {
  Dataset data{.name = "noise", .classes = {"a", "b"}, .mean = {0.5}, .std = {0.5}, .split = "train"};
  data.images = at::randint(0, 255, {16, 1, 4, 4}, at::kLong).to(at::kByte);
  data.labels = at::arange(16, at::kLong).remainder(2);
  TrainOptions options;
  options.epochs = 2;
  options.batch = 4;
  options.optimizer.lr = 0.01;
  const Graph before = masked_scores();
  const Graph after = train(before, data, options).last;
  for (const char* name : {"mask", "large", "keep", "std", "half"})
    EXPECT_TRUE(after.tensor(name).equal(before.tensor(name))) << name;
  for (const char* name : {"q", "w", "bias", "gamma"}) {
    EXPECT_TRUE(at::isfinite(after.tensor(name)).all().item<bool>()) << name;
    EXPECT_FALSE(after.tensor(name).equal(before.tensor(name))) << name;
  }
}

// A class token, given to every sample and joined to what a layer makes; padding with one number is no parameter.
TEST(TrainedTensors, TokensThatAreJoinedToFeatures) {
  Graph graph{.name = "tokens"};
  graph.inputs = {{.name = "x", .dims = std::vector<Dim>{{.symbol = "N"}, {.size = 3}, {.size = 4}}}};
  graph.outputs = {{.name = "y"}};
  graph.tensors = {{"w", at::randn({4, 4})},
                   {"cls", at::randn({1, 1, 4})},
                   {"distillation", at::randn({2, 1, 4})},
                   {"padding", at::zeros({2, 1, 4})},
                   {"extents", at::tensor({2, 1, 4}, at::kLong)}};
  const auto node = [&](const char* op, std::vector<std::string> inputs, const char* output) {
    graph.nodes.push_back({.name = output, .op = op, .inputs = std::move(inputs), .outputs = {output}});
  };
  node("MatMul", {"x", "w"}, "features");
  node("Expand", {"cls", "extents"}, "token");
  node("Concat", {"token", "features", "distillation", "padding"}, "y");
  graph.nodes.back().attributes = {{"axis", int64_t{1}}};
  EXPECT_EQ(trained_tensors(graph), (std::vector<std::string>{"cls", "distillation", "w"}));
}

}  // namespace
}  // namespace pare
