// Identities of LRP, excitation backprop and RAP in double precision.
#include <gtest/gtest.h>

#include "attribute/walker.h"
#include "pare/attribute/excitation.h"
#include "pare/attribute/gradients.h"
#include "pare/error.h"

namespace pare {
namespace {

TEST(Lrp, ZeroIsInputTimesGradientAndSumsToTheScore) {
  for (const Graph& graph : {plain_net(), branching_net()}) {
    const Walker w(graph, images(6));
    const at::Tensor R = w.lrp("zero");
    EXPECT_LT(largest(sums(R) - w.score), 1e-13);
    const at::Tensor product = input_x_gradient(Program(w.graph), w.x, w.classes);
    EXPECT_LT(largest(R - product), 1e-13);
    EXPECT_LT(largest(sums(product) - w.score), 1e-13);
  }
}

TEST(Lrp, AlphaBetaConservesAtEveryLayer) {
  const Walker w(plain_net(), images(6));
  for (const auto& layer : w.layers())
    for (const char* preset : {"z-plus", "alpha1-beta0", "alpha2-beta1"})
      EXPECT_LT(largest(sums(w.lrp(preset, layer)) - w.score), 1e-12) << preset << " at " << layer;
  const Walker branching(branching_net(), images(6));
  for (const char* preset : {"z-plus", "alpha1-beta0"})
    EXPECT_LT(largest(sums(branching.lrp(preset)) - branching.score), 1e-12) << preset;
}

// Sums of values of both signs, as in networks that normalise before their layers: where all terms are negative
// nothing raises them, and yet they matter. What layers read is positive here, so that each has terms of both signs.
TEST(Lrp, SumsAndAveragesOfNegativeValuesLoseNothing) {
  TestGraph g(3);
  const auto conv = [&](const std::string& x, int64_t in, int64_t out) {
    return g.node("Conv", {x, g.random({out, in, 3, 3})}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  };
  const auto positive = [&](const std::string& x) { return g.node("Softplus", {g.batch_norm(x, 4)}); };
  const std::string stem = conv(g.input("x", {-1, 3, 8, 8}), 3, 4);
  const std::string sum = g.node("Add", {conv(positive(stem), 4, 4), stem});
  const std::string second = g.node("Add", {conv(positive(sum), 4, 4), sum});
  const std::string last = conv(positive(second), 4, 6);
  const std::string pooled = g.node("AveragePool", {last}, {{"kernel_shape", std::vector<int64_t>{2, 2}}});
  const Graph graph = g.finish(g.node("MatMul", {g.node("Flatten", {pooled}), g.random({294, 5})}));
  const Walker w(graph, images(6));
  const at::Tensor terms = at::stack({w.values.at(stem), w.values.at(sum) - w.values.at(stem)});
  ASSERT_TRUE((terms.amax(0).lt(0) & w.lrp("z-plus", sum).ne(0)).any().item<bool>());
  for (const char* preset : {"z-plus", "alpha1-beta0", "alpha2-beta1"})
    EXPECT_LT(largest((sums(w.lrp(preset)) - w.score) / w.score), 1e-11) << preset;
  EXPECT_LT(largest(sums(w.from_one(excitation_rule(), stem)) - 1), 1e-12);
}

// Inverted residuals without batch norms: depthwise filters have terms of one sign alone, or read nothing but zeros,
// and are active by their biases. What they have of the score is shared by those they read.
TEST(Lrp, UnitsThatTheirBiasesMakeActiveLoseNothing) {
  TestGraph g(5);
  const auto relu6 = [&](const std::string& x) {
    const auto bound = [&](double value) { return g.tensor(at::scalar_tensor(value, at::kDouble)); };
    return g.node("Clip", {x, bound(0), bound(6)});
  };
  const auto pointwise = [&](const std::string& x, int64_t in, int64_t out, double bias) {
    return g.node("Conv", {x, g.random({out, in, 1, 1}), g.tensor(at::full({out}, bias, at::kDouble))});
  };
  const std::string stem = pointwise(g.input("x", {-1, 3, 8, 8}), 3, 4, 0);
  const std::string wide = relu6(pointwise(stem, 4, 12, -0.5));
  at::Tensor filters = -at::arange(1, 12 * 9 + 1, at::kDouble).view({12, 1, 3, 3}).remainder(0.7);  // none is positive
  const std::string depthwise = g.node("Conv", {wide, g.tensor(filters), g.tensor(at::full({12}, 0.5, at::kDouble))},
                                       {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"group", int64_t{12}}});
  const std::string active = relu6(depthwise);
  const std::string sum = g.node("Add", {pointwise(active, 12, 4, 0), stem});
  const Graph graph = g.finish(g.node("MatMul", {g.node("Flatten", {sum}), g.random({256, 5})}));
  const Walker w(graph, images(6));
  const at::Tensor read = at::max_pool2d(w.values.at(wide), {3, 3}, {1, 1}, {1, 1}), made = w.values.at(active);
  ASSERT_TRUE((made.gt(0) & read.gt(0)).any().item<bool>());
  ASSERT_TRUE((made.gt(0) & read.eq(0)).any().item<bool>());
  for (const char* preset : {"z-plus", "alpha1-beta0", "alpha2-beta1"})
    for (const std::string& to : {stem, std::string("x")})
      EXPECT_LT(largest((sums(w.lrp(preset, to)) - w.score) / w.score), 1e-11) << preset << to;
}

// Dividing the products of x+ and of x- by denominators of their own hands out everything twice.
TEST(Lrp, SignedInputsShareOneDenominator) {
  const Walker w(plain_net(), images(4));
  const auto separate = [](const LinearStep& l, const at::Tensor& R) {
    return share(l, {{l.x.clamp_min(0), l.weight.clamp_min(0)}}, R) +
           share(l, {{l.x.clamp_max(0), l.weight.clamp_max(0)}}, R);
  };
  const at::Tensor twice = w.from_score(separate);
  EXPECT_LT(largest(sums(twice) / w.score - 2), 1e-12);
  EXPECT_LT(largest(sums(w.lrp("z-plus")) / w.score - 1), 1e-12);
}

TEST(Lrp, GoldenEpsilon) {
  TestGraph g;
  const std::string x = g.input("x", {-1, 3});
  const std::string hidden = g.relu(g.node("Gemm", {x, g.tensor(at::full({3, 3}, 2.0, at::kDouble))}));
  const Graph graph = g.finish(g.node("Gemm", {hidden, g.tensor(at::full({3, 1}, 3.0, at::kDouble))}));
  const Walker w(graph, at::tensor({1.0, 2.0, 3.0}, at::kDouble).view({1, 3}));
  EXPECT_EQ(w.score.item<double>(), 108);
  EXPECT_LT(largest(w.lrp("epsilon") - at::tensor({18.0, 36.0, 54.0}, at::kDouble)), 1e-5);
  EXPECT_LT(largest(w.lrp("zero") - at::tensor({18.0, 36.0, 54.0}, at::kDouble)), 1e-12);
}

TEST(Lrp, BiasesKeepTheirShareOfEpsilonAndNoneOfZPlus) {
  const Walker w(plain_net({.bias = true}), images(4));
  EXPECT_LT(largest(sums(w.lrp("z-plus")) - w.score), 1e-12);
  EXPECT_GT(largest(sums(w.lrp("zero")) - w.score), 1e-3);
}

TEST(Lrp, PresetsAndTheirErrors) {
  const Walker w(plain_net({.bias = true}), images(2));
  for (const auto& preset : lrp_presets()) EXPECT_TRUE(w.lrp(preset).isfinite().all().item<bool>()) << preset;
  EXPECT_THROW(lrp_preset("alpha3"), Error);
  EXPECT_THROW(lrp_rule({.dense = {.alpha = 2, .beta = 0.5}}), Error);
  // Bounds that hold for every pixel conserve as well as an image's own.
  LrpOptions bounded = lrp_preset("alpha1-beta0");
  bounded.low = {-9, -8, -7};
  bounded.high = {9, 8, 7};
  EXPECT_LT(largest(sums(w.from_score(lrp_rule(bounded))) - w.score), 1e-12);
}

TEST(Excitation, IsAProbabilityAtEveryLayer) {
  for (const Graph& graph : {plain_net({.bias = true}), branching_net()}) {
    const Walker w(graph, images(6).abs());
    for (const auto& layer : w.layers()) {
      if (layer.starts_with("Conv") || layer.starts_with("Gemm")) continue;  // not an activation
      const at::Tensor P = w.from_one(excitation_rule(), layer);
      EXPECT_GE(P.min().item<double>(), 0) << layer;
      const bool passed_by = graph.nodes.size() != plain_net().nodes.size();
      EXPECT_TRUE(passed_by || largest(sums(P) - 1) < 1e-12) << layer;
    }
    EXPECT_LT(largest(sums(w.from_one(excitation_rule())) - 1), 1e-12);
  }
}

TEST(Excitation, IsZPlusOverTheScoreAtHiddenLayers) {
  const Walker w(plain_net(), images(6));
  for (const auto& layer : w.layers()) {
    if (layer == "x") continue;
    const at::Tensor P = w.from_one(excitation_rule(), layer);
    const auto score = w.score.view(P.dim() == 4 ? std::vector<int64_t>{-1, 1, 1, 1} : std::vector<int64_t>{-1, 1});
    EXPECT_LT(largest(w.lrp("alpha1-beta0", layer) - score * P), 1e-13) << layer;
  }
}

TEST(Excitation, TheOppositeNegatesTheHeadAlone) {
  const Walker w(plain_net(), images(3));
  Graph negated = w.graph;
  const auto& head = negated.nodes.back().inputs[1];
  negated.tensors[head] = -negated.tensors.at(head);
  const Walker other(negated, w.x);
  const std::string layer = w.graph.nodes[3].outputs[0];
  EXPECT_LT(largest(w.from_one(excitation_rule(true), layer) - other.from_one(excitation_rule(), layer)), 1e-15);
}

TEST(Rap, SumsToTheScoreWhateverItsSign) {
  Walker w(plain_net({.bias = true}), images(10));
  w.classes.slice(0, 0, 5).copy_(w.scores.slice(0, 0, 5).argmin(1));
  w.score = class_scores(w.scores, w.classes);
  ASSERT_LT(w.score.min().item<double>(), 0);
  ASSERT_GT(w.score.max().item<double>(), 0);
  EXPECT_LT(largest(sums(w.rap()) - w.score), 1e-12);
  const std::string flat = w.graph.nodes.back().inputs[0];
  EXPECT_TRUE((w.rap(flat) * w.score.unsqueeze(1)).ge(0).all().item<bool>());
  const Walker branching(branching_net(), images(4));
  EXPECT_LT(largest(sums(branching.rap()) - branching.score), 1e-11);
}

// Two convolutions with biases, whose means are the scores; or two linear layers, whose sums are.
Graph net_without_a_last_layer(bool averages) {
  TestGraph g(6);
  const std::string x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  if (averages) return g.finish(g.node("Flatten", {g.node("GlobalAveragePool", {g.relu(g.conv(x, 4, 5))})}));
  const std::string flat = g.node("Flatten", {x});
  return g.finish(g.node("Add", {g.linear(flat, 256, 5), g.linear(flat, 256, 5)}));
}

TEST(Rap, SumsToTheScoreWhateverTheNetEndsIn) {
  const at::Tensor x = images(5), rows = at::arange(25, at::kLong).div(5, "floor"),
                   classes = at::arange(25, at::kLong).remainder(5);
  for (const bool averages : {true, false}) {
    const Graph net = net_without_a_last_layer(averages);
    const Attribution found = Attributor(net, {.method = "rap"}).explain(x, rows, classes);
    EXPECT_GT(largest(found.expected), 0);
    EXPECT_LT(largest(found.relevance - found.expected), 1e-11) << averages;
  }
}

}  // namespace
}  // namespace pare
