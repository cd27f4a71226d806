// Criteria against their formulas, written slowly.
#include "pare/prune/criteria.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/core/error.h"
#include "pare/exec/program.h"
#include "pare/prune/filters.h"
#include "support/builder.h"

namespace pare {
namespace {

at::Tensor scores(const Graph& graph, Criterion criterion, size_t group = 0, const Gradients* gradients = nullptr) {
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
  const at::Tensor l1 = scores(graph, Criterion::l1);
  const at::Tensor l2 = scores(graph, Criterion::l2);
  const at::Tensor gm = scores(graph, Criterion::gm);
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
  EXPECT_LE((scores(graph, Criterion::l1) - graph.tensor("t0").abs().sum({1, 2, 3})).abs().max().item<double>(), 1e-12);
  EXPECT_LE((scores(graph, Criterion::bn) - graph.tensor("t2").abs()).abs().max().item<double>(), 1e-12);
}

TEST(Criteria, ScaleNeedsABatchNorm) {
  const Graph graph = linear_net();
  const ChannelMap map = analyze_channels(graph);
  std::string reason;
  EXPECT_FALSE(importance(graph, map, map.groups[0], {.criterion = Criterion::bn}, reason).defined());
  EXPECT_FALSE(reason.empty());
  EXPECT_THROW(scores(graph, Criterion::taylor), Error);
  EXPECT_THROW(criterion_of("l3"), Error);
}

// The derivative of the loss when all parameters of a channel are scaled by 1 + ε.
TEST(Criteria, TaylorIsTheDerivativeOfTheLoss) {
  Graph graph = linear_net();
  const at::Tensor images = at::randn({20, 5}, at::kDouble);
  const at::Tensor labels = at::randint(0, 3, {20}, at::kLong);
  const Gradients gradients = loss_gradients(graph, images, labels);
  const at::Tensor taylor = scores(graph, Criterion::taylor, 0, &gradients);
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

TEST(Criteria, RandomFollowsTheSeed) {
  const Graph graph = linear_net();
  const ChannelMap map = analyze_channels(graph);
  std::string reason;
  const auto drawn = [&](uint64_t seed) {
    return importance(graph, map, map.groups[0], {.criterion = Criterion::random, .seed = seed}, reason);
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
