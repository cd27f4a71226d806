// Criteria against their formulas, written slowly.
#include "pare/prune/criteria.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "pare/error.h"
#include "pare/prune/filters.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

at::Tensor scores(const Graph& graph, const char* criterion, size_t group = 0, const Gradients* gradients = nullptr) {
  const ChannelMap map = analyze_channels(graph);
  std::string reason;
  return importance(graph, map, map.groups[group], {.criterion = criterion, .gradients = gradients}, reason);
}

Graph linear_net() {
  TestGraph g(4);
  const auto x = g.input("x", {-1, 5});
  return g.finish(g.linear(g.relu(g.linear(x, 5, 6)), 6, 3));
}

TEST(Criteria, NormsTakeTheBiasOfALinearLayer) {
  const Graph graph = linear_net();
  const at::Tensor w = graph.tensor("t0");
  const at::Tensor b = graph.tensor("t1");
  const at::Tensor l1 = scores(graph, "l1");
  const at::Tensor l2 = scores(graph, "l2");
  const at::Tensor gm = scores(graph, "gm");
  const auto entry = [&](int64_t n, int64_t i) { return i < 5 ? w[n][i].item<double>() : b[n].item<double>(); };
  for (int64_t n = 0; n < 6; ++n) {
    double sum = 0;
    double squares = 0;
    double distances = 0;
    for (int64_t i = 0; i < 6; ++i) {
      sum += std::abs(entry(n, i));
      squares += entry(n, i) * entry(n, i);
    }
    for (int64_t m = 0; m < 6; ++m) {
      double d = 0;
      for (int64_t i = 0; i < 6; ++i) d += (entry(n, i) - entry(m, i)) * (entry(n, i) - entry(m, i));
      distances += std::sqrt(d);
    }
    EXPECT_NEAR(l1[n].item<double>(), sum, 1e-12);
    EXPECT_NEAR(l2[n].item<double>(), std::sqrt(squares), 1e-12);
    EXPECT_NEAR(gm[n].item<double>(), distances, 1e-9);
  }
}

TEST(Criteria, BatchNormTakesTheBiasAway) {
  TestGraph g(5);
  const auto x = g.input("x", {-1, 3, 6, 6});
  const Graph graph = g.finish(g.conv(g.relu(g.batch_norm(g.conv(x, 3, 4), 4)), 4, 2));
  EXPECT_LE((scores(graph, "l1") - graph.tensor("t0").abs().sum({1, 2, 3})).abs().max().item<double>(), 1e-12);
  EXPECT_LE((scores(graph, "bn") - graph.tensor("t2").abs()).abs().max().item<double>(), 1e-12);
}

TEST(Criteria, ScaleNeedsABatchNorm) {
  const Graph graph = linear_net();
  const ChannelMap map = analyze_channels(graph);
  std::string reason;
  EXPECT_FALSE(importance(graph, map, map.groups[0], {.criterion = "bn"}, reason).defined());
  EXPECT_FALSE(reason.empty());
  EXPECT_THROW(scores(graph, "taylor"), Error);
  EXPECT_THROW(find_criterion("l3"), Error);
}

// The derivative of the loss when all parameters of a channel are scaled by 1 + ε.
TEST(Criteria, TaylorIsTheDerivativeOfTheLoss) {
  Graph graph = linear_net();
  const at::Tensor images = at::randn({20, 5}, at::kDouble);
  const at::Tensor labels = at::randint(0, 3, {20}, at::kLong);
  const Gradients gradients = loss_gradients(graph, images, labels);
  const at::Tensor taylor = scores(graph, "taylor", 0, &gradients);
  const auto loss = [&](const Graph& net) {
    const at::Tensor logits = forward(net, {&images, 1}).outputs[0];
    return at::nll_loss(at::log_softmax(logits, 1), labels).item<double>();
  };
  for (int64_t n = 0; n < 6; ++n) {
    const auto moved = [&](double factor) {
      Graph net = graph;
      for (const char* name : {"t0", "t1"}) {
        net.tensors[name] = net.tensors[name].clone();
        net.tensors[name][n] *= factor;
      }
      return loss(net);
    };
    EXPECT_NEAR(taylor[n].item<double>(), std::abs(moved(1 + 1e-6) - moved(1 - 1e-6)) / 2e-6, 1e-6);
  }
}

double largest(const at::Tensor& difference) { return difference.abs().max().item<double>(); }

TEST(Criteria, GeometricMedianOfFiltersFarFromZero) {
  Graph graph = linear_net();
  graph.tensors["t0"] = graph.tensor("t0") * 1e-3 + 1e3;
  graph.tensors["t1"] = graph.tensor("t1") + 1e3;
  graph.tensors["t0"][4] = graph.tensors["t0"][2];  // a copy, at no distance
  graph.tensors["t1"][4] = graph.tensors["t1"][2];
  const at::Tensor filters = at::cat({graph.tensor("t0"), graph.tensor("t1").unsqueeze(1)}, 1);
  const at::Tensor direct = (filters.unsqueeze(0) - filters.unsqueeze(1)).norm(2, {2}).sum(1);
  EXPECT_LE(largest(scores(graph, "gm") / direct - 1), 1e-6);
}

// By matrix products. CPU time, so that other work on the machine does not count.
TEST(Criteria, GeometricMedianCostsLessThanAllDifferences) {
  TestGraph g(6);
  const Graph graph = g.finish(g.linear(g.relu(g.linear(g.input("x", {-1, 2000}), 2000, 700)), 700, 3));
  const auto seconds = [](const auto& work) {
    const std::clock_t begin = std::clock();
    work();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const ChannelMap map = analyze_channels(graph);
  std::string reason;
  const double fast = seconds([&] { importance(graph, map, map.groups[0], {.criterion = "gm"}, reason); });
  const at::Tensor filters = graph.tensor("t0");
  const double slow = seconds([&] {
    for (int64_t n = 0; n < filters.size(0); ++n) (filters - filters[n]).norm(2, {1}).sum();
  });
  EXPECT_LT(fast, slow / 2);
}

Graph with_node(Graph graph, const std::string& op) {
  graph.nodes.push_back({.name = "last", .op = op, .inputs = {graph.outputs[0].name}, .outputs = {"last"}});
  graph.outputs[0].name = "last";
  return graph;
}

TEST(Criteria, TaylorTakesTheScoresInFrontOfProbabilities) {
  const Graph graph = linear_net();
  const at::Tensor images = at::randn({20, 5}, at::kDouble);
  const at::Tensor labels = at::randint(0, 3, {20}, at::kLong);
  const Gradients plain = loss_gradients(graph, images, labels);
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    const Gradients found = loss_gradients(with_node(graph, op), images, labels);
    EXPECT_LE(largest(found.at("t0") - plain.at("t0")), 1e-12) << op;
  }
}

// Statistics are not parameters: a channel's importance is the derivative of the loss by a scale of the others.
TEST(Criteria, TaylorLeavesRunningStatisticsOut) {
  TestGraph g(9);
  const auto x = g.input("x", {-1, 3, 5, 5});
  const auto hidden = g.relu(g.batch_norm(g.conv(x, 3, 4), 4));
  const Graph graph = g.finish(g.linear(g.node("Flatten", {hidden}), 100, 3));
  const at::Tensor images = at::randn({7, 3, 5, 5}, at::kDouble);
  const at::Tensor labels = at::randint(0, 3, {7}, at::kLong);
  const Gradients gradients = loss_gradients(graph, images, labels);
  const at::Tensor taylor = scores(graph, "taylor", 0, &gradients);
  for (int64_t n = 0; n < 4; ++n) {
    double sum = 0;
    for (const char* name : {"t0", "t1", "t2", "t3"})  // weight, bias, γ, β
      sum += (gradients.at(name)[n] * graph.tensor(name)[n]).sum().item<double>();
    EXPECT_NEAR(taylor[n].item<double>(), std::abs(sum), 1e-12);
  }
  EXPECT_FALSE(gradients.contains("t4"));
  EXPECT_FALSE(gradients.contains("t5"));
}

TEST(Criteria, TaylorInBatchesIsThatOfAllImagesAtOnce) {
  const Graph graph = linear_net();
  const at::Tensor images = at::randn({20, 5}, at::kDouble);
  for (const at::Tensor& labels : {at::randint(0, 3, {20}, at::kLong), at::randint(0, 2, {20, 3}, at::kByte)}) {
    const Gradients once = loss_gradients(graph, images, labels, 20);
    for (const int64_t at_once : {1, 7, 0})
      for (const auto& [name, gradient] : loss_gradients(graph, images, labels, at_once))
        EXPECT_LE(largest(gradient - once.at(name)), 1e-12) << name << " " << at_once;
  }
}

// Data with several classes for an image: the mean over classes of −log p(label | score).
TEST(Criteria, TaylorOfSeveralLabelsIsTheirCrossEntropy) {
  Graph graph = linear_net();
  const at::Tensor images = at::randn({6, 5}, at::kDouble);
  const at::Tensor labels = at::randint(0, 2, {6, 3}, at::kByte);
  const Gradients gradients = loss_gradients(graph, images, labels);
  const auto loss = [&](double bias) {
    Graph moved = graph;
    moved.tensors["t3"] = graph.tensor("t3").clone();
    moved.tensors["t3"][1] += bias;
    const at::Tensor p = at::sigmoid(forward(moved, {&images, 1}).outputs[0]);
    return -at::where(labels.gt(0), p, 1 - p).log().mean().item<double>();
  };
  EXPECT_NEAR(gradients.at("t3")[1].item<double>(), (loss(1e-5) - loss(-1e-5)) / 2e-5, 1e-8);
}

TEST(Criteria, RandomFollowsTheSeed) {
  const Graph graph = linear_net();
  const ChannelMap map = analyze_channels(graph);
  std::string reason;
  const auto drawn = [&](uint64_t seed) {
    return importance(graph, map, map.groups[0], {.criterion = "random", .seed = seed}, reason);
  };
  EXPECT_TRUE(drawn(1).equal(drawn(1)));
  EXPECT_FALSE(drawn(1).equal(drawn(2)));
}

TEST(Filters, FollowPointwiseAndDepthwise) {
  TestGraph g(6);
  const auto x = g.input("x", {-1, 3, 6, 6});
  const auto a = g.relu(g.batch_norm(g.conv(x, 3, 4, 1), 4));
  const auto b = g.relu(g.batch_norm(g.conv(a, 4, 4, 3, 4), 4));
  const Graph graph = g.finish(g.conv(b, 4, 2, 1));
  const ChannelMap map = analyze_channels(graph);
  const GroupFilters filters = group_filters(graph, map, map.groups[0]);
  ASSERT_TRUE(filters.single());
  ASSERT_TRUE(filters.depthwise.defined());
  EXPECT_EQ(filters.vectors().sizes(), (std::vector<int64_t>{4, 27}));
  ASSERT_TRUE(filters.norm.has_value());
  EXPECT_TRUE(filters.norm->gamma.equal(graph.tensor("t8")));  // of the second batch norm
  EXPECT_NEAR(filters.activation(at::tensor({-1.0, 2.0}))[0].item<double>(), 0, 0);
}

TEST(Filters, SeeAGatedActivation) {
  TestGraph g(6);
  const auto x = g.input("x", {-1, 3, 6, 6});
  const auto a = g.batch_norm(g.conv(x, 3, 4, 1), 4);
  const Graph graph = g.finish(g.conv(g.node("Mul", {a, g.node("Sigmoid", {a})}), 4, 2, 1));
  const ChannelMap map = analyze_channels(graph);
  const GroupFilters filters = group_filters(graph, map, map.groups[0]);
  ASSERT_TRUE(filters.activation);
  const at::Tensor z = at::tensor({-1.0, 2.0}, at::kDouble);
  EXPECT_LE((filters.activation(z) - z * at::sigmoid(z)).abs().max().item<double>(), 1e-12);
}

}  // namespace
}  // namespace pare
