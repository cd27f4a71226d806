// Class activation maps and gradients: identities, golden values, and the methods through one interface.
#include "pare/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attribute/nets.h"
#include "pare/attribute/cam.h"
#include "pare/attribute/gradients.h"
#include "pare/error.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

// dz_c/dA of a value, by the whole graph's autograd.
at::Tensor gradient_at(const Graph& graph, const std::string& value, const at::Tensor& x, const at::Tensor& classes) {
  at::Tensor A;
  RunOptions options;
  options.transform = [&](const std::string& name, const at::Tensor& t) {
    if (name != value) return t;
    A = t.detach().requires_grad_();
    return A;
  };
  class_scores(forward(graph, {&x, 1}, options).outputs[0], classes).sum().backward();
  return A.grad();
}

TEST(Cam, GradCamIsCamOnGlobalAveragingAndALinearLayer) {
  const Graph graph = branching_net(2, /*bias=*/true);
  const at::Tensor x = images(4), classes = at::tensor({0, 3, 4, 1}, at::kLong);
  const std::string layer = last_spatial_activation(graph);
  const at::Tensor A = values_of(graph, x).at(layer);
  const at::Tensor w = graph.tensor(graph.nodes.back().inputs[1]).index_select(0, classes);
  const at::Tensor cam = at::einsum("nk,nkhw->nhw", {w, A});
  const at::Tensor g = gradient_at(graph, layer, x, classes);
  EXPECT_LT(largest(class_activation_map(A, g, CamKind::grad, false) - cam), 1e-13);
  const at::Tensor of_means = at::einsum("nk,nkhw->nhw", {g.mean({2, 3}), A});
  EXPECT_LT(largest(of_means - cam / static_cast<double>(A.size(2) * A.size(3))), 1e-13);
  const at::Tensor bias = graph.tensor(graph.nodes.back().inputs[2]).index_select(0, classes);
  ASSERT_GT(largest(bias), 0.01);
  EXPECT_LT(largest(cam.flatten(1).mean(1) + bias - class_scores(scores_of(graph, x), classes)), 1e-13);
  const auto found = Attributor(graph, {}).explain(x, {}, classes);
  EXPECT_LT(largest(found.maps - cam.clamp_min(0)), 1e-13);
  EXPECT_LT(largest(found.scores - scores_of(graph, x)), 1e-13);
}

TEST(Cam, HiResCamSumsToTheScoreOfALinearHead) {
  const Graph graph = plain_net({.bias = true});
  const at::Tensor x = images(5), classes = at::tensor({0, 1, 2, 3, 4}, at::kLong);
  const std::string layer = last_spatial_value(graph);
  const at::Tensor A = values_of(graph, x).at(layer), g = gradient_at(graph, layer, x, classes);
  const at::Tensor bias = graph.tensor(graph.nodes.back().inputs[2]);
  const at::Tensor total = sums(class_activation_map(A, g, CamKind::hires, false)) + bias;
  EXPECT_LT(largest(total - class_scores(scores_of(graph, x), classes)), 1e-13);
  // The summed gradients are the spatial sums of the head's rows, which do not depend on the image.
  const at::Tensor rows = graph.tensor(graph.nodes.back().inputs[1]).view({5, 6, 4}).sum(2);
  EXPECT_LT(largest(g.sum({2, 3}) - rows), 1e-14);
}

TEST(Cam, GradCamPlusPlusAsItsFormulaInLoops) {
  at::manual_seed(1);
  const at::Tensor A = at::randn({2, 3, 4, 5}, at::kDouble).clamp_min(0), g = at::randn({2, 3, 4, 5}, at::kDouble);
  const auto at = [](const at::Tensor& t, int64_t n, int64_t k, int64_t p) {
    return t.flatten(2)[n][k][p].item<double>();
  };
  at::Tensor expected = at::zeros({2, 20}, at::kDouble);
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t k = 0; k < 3; ++k) {
      double sum = 0, weight = 0;
      for (int64_t p = 0; p < 20; ++p) sum += at(A, n, k, p);
      for (int64_t p = 0; p < 20; ++p) {
        const double d = at(g, n, k, p), alpha = d * d / (2 * d * d + sum * d * d * d);
        weight += alpha * std::max(d, 0.0);
      }
      for (int64_t p = 0; p < 20; ++p) expected[n][p] += weight * at(A, n, k, p);
    }
  EXPECT_LT(largest(class_activation_map(A, g, CamKind::grad_plus_plus).flatten(1) - expected.clamp_min(0)), 1e-12);
}

// conv 1->2 of ones with biases -50 and -75, ReLU, linear rows (1,1,1,1,1,-1,-1,-1), ReLU; x = 0 … 15.
TEST(Cam, GoldenValues) {
  TestGraph g;
  const std::string x = g.input("x", {-1, 1, 4, 4});
  const std::string conv = g.relu(g.node(
      "Conv", {x, g.tensor(at::ones({2, 1, 3, 3}, at::kDouble)), g.tensor(at::tensor({-50.0, -75.0}, at::kDouble))}));
  const at::Tensor row = at::tensor({1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0}, at::kDouble);
  const std::string fc =
      g.node("Gemm", {g.node("Flatten", {conv}), g.tensor(row.repeat({2, 1}))}, {{"transB", int64_t{1}}});
  const Graph graph = g.finish(g.relu(fc));
  const at::Tensor input = at::arange(16, at::kDouble).view({1, 1, 4, 4});
  const auto values = values_of(graph, input);
  EXPECT_TRUE(at::equal(values.at(conv)[0],
                        at::tensor({0.0, 4.0, 31.0, 40.0, 0.0, 0.0, 6.0, 15.0}, at::kDouble).view({2, 2, 2})));
  const auto found = Attributor(graph, {.layer = conv}).explain(input, {}, at::zeros({1}, at::kLong));
  EXPECT_TRUE(at::equal(found.scores, at::full({1, 2}, 54.0, at::kDouble)));
  // Of mean-pooled gradients, hence the 4.
  EXPECT_TRUE(at::equal(found.maps / 4, at::tensor({0.0, 4.0, 28.0, 32.5}, at::kDouble).view({1, 2, 2}))) << found.maps;
}

TEST(Gradients, IntegratedGradientsAreComplete) {
  const auto rule = gauss_legendre(5);  // exact to degree 9
  double sum = 0, ninth = 0;
  for (size_t i = 0; i < 5; ++i) sum += rule.weights[i], ninth += rule.weights[i] * std::pow(rule.nodes[i], 9);
  EXPECT_NEAR(sum, 1, 1e-14);
  EXPECT_NEAR(ninth, 0.1, 1e-14);
  const at::Tensor x = images(4), classes = at::tensor({0, 1, 2, 3}, at::kLong);
  // A bias-free ReLU net from 0: any number of nodes.
  const Program homogeneous(plain_net());
  for (const int64_t steps : {1, 3}) {
    const auto ig = integrated_gradients(homogeneous, x, classes, {.steps = steps});
    EXPECT_LT(largest(ig.delta), 1e-12) << steps;
    EXPECT_LT(largest(sums(ig.attribution) - class_scores(scores_of(plain_net(), x), classes)), 1e-12);
  }
  // A quadratic function, from anywhere: one node.
  TestGraph g;
  const std::string in = g.input("x", {-1, 6});
  const std::string linear = g.linear(in, 6, 5);
  const Graph quadratic = g.finish(g.node("Add", {g.node("Mul", {linear, linear}), linear}));
  at::manual_seed(5);
  const at::Tensor flat = at::randn({4, 6}, at::kDouble), from = at::randn({4, 6}, at::kDouble);
  EXPECT_LT(largest(integrated_gradients(Program(quadratic), flat, classes, {.steps = 1, .baseline = from}).delta),
            1e-13);
  // With biases it only tends to 0.
  const Program biased(plain_net({.bias = true}));
  const double size = largest(scores_of(biased.graph(), x));
  const double coarse = largest(integrated_gradients(biased, x, classes, {.steps = 20}).delta);
  const double fine = largest(integrated_gradients(biased, x, classes, {.steps = 300}).delta);
  EXPECT_LT(coarse, 0.02 * size);
  EXPECT_LT(fine, 0.2 * coarse);
}

TEST(Gradients, SmoothGradientsTendToTheGradient) {
  const Program program(plain_net({.bias = true}));
  const at::Tensor x = images(2), classes = at::tensor({0, 1}, at::kLong);
  const at::Tensor g = input_gradient(program, x, classes);
  EXPECT_LT(largest(smooth_gradient(program, x, classes, {.samples = 3, .noise = 0}) - g), 1e-14);
  const auto once = smooth_gradient(program, x, classes, {.seed = 5}),
             again = smooth_gradient(program, x, classes, {.seed = 5});
  EXPECT_TRUE(at::equal(once, again));
  EXPECT_FALSE(at::equal(once, g));
}

TEST(Attributor, ScoresWithoutAGradientAreRefusedByName) {
  TestGraph g;
  const std::string y = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string whole = g.node("Cast", {g.node("Cast", {y}, {{"to", int64_t{7}}})}, {{"to", int64_t{11}}});
  const Graph graph = g.finish(g.linear(pooled(g, whole), 4, 5));
  for (const char* method : {"gradcam", "gradient", "ig"}) try {
      Attributor(graph, {.method = method, .layer = std::string(method) == "gradcam" ? y : "", .steps = 2})
          .explain(images(2));
      ADD_FAILURE() << method << ": nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
      EXPECT_EQ(error.where(), std::string(method) == "gradcam" ? y : "x");
    }
}

TEST(Attributor, ANetworkMayHaveOneScore) {
  TestGraph g;
  const std::string y = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string score = g.node("Squeeze", {g.linear(g.node("Flatten", {y}), 256, 1), g.integers({1})});
  const Graph graph = g.finish(score);
  ASSERT_EQ(scores_of(graph, images(2)).dim(), 1);
  for (const auto& method : attribution_methods()) {
    const auto found = Attributor(graph, {.method = method, .steps = 2, .samples = 2}).explain(images(2));
    EXPECT_EQ(found.scores.sizes(), at::IntArrayRef({2, 1})) << method;
    EXPECT_EQ(found.maps.size(0), 2) << method;
  }
}

TEST(Attributor, EveryMethodMapsEveryNet) {
  const std::vector<Graph> nets = {cast(build("vgg9-bn", {.width = 0.25, .input = {3, 16, 16}}), at::kDouble),
                                   cast(build("resnet20", {.width = 0.25, .input = {3, 16, 16}}), at::kDouble),
                                   cast(build("mobilenetv1", {.width = 0.125}), at::kDouble)};
  for (const auto& net : nets) {
    const int64_t side = (*net.inputs[0].dims)[2].size;
    at::manual_seed(2);
    const at::Tensor x = at::rand({2, 3, side, side}, at::kDouble);
    for (const auto& method : attribution_methods()) {
      const Attributor attributor(net, {.method = method, .steps = 2, .samples = 2});
      const auto found = attributor.explain(x, at::tensor({1, 0, 1}, at::kLong), at::tensor({3, 0, 9}, at::kLong));
      ASSERT_EQ(found.maps.dim(), 3) << method;
      EXPECT_EQ(found.maps.size(0), 3);
      EXPECT_TRUE(found.maps.isfinite().all().item<bool>()) << method << " of " << net.name;
      EXPECT_EQ(found.scores.sizes(), at::IntArrayRef({2, 10}));
      EXPECT_EQ(resize_maps(found.maps, 20, 30).sizes(), at::IntArrayRef({3, 20, 30}));
      // Pairs are explained as they would be alone.
      const auto alone = attributor.explain(x.slice(0, 0, 1), {}, at::tensor({0}, at::kLong));
      EXPECT_LT(largest(alone.maps[0] - found.maps[1]), 1e-10 + 1e-9 * largest(alone.maps)) << method;
    }
  }
}

// Exported for so many images at a time.
Graph net_of_fixed_batch(int64_t batch) {
  TestGraph g(6);
  const std::string y = g.relu(g.conv(g.input("x", {batch, 3, 8, 8}), 3, 4));
  return g.finish(g.linear(g.node("Reshape", {y, g.integers({batch, -1})}), 256, 5));
}

TEST(Attributor, AModelOfAFixedBatchExplainsAnyNumberOfPairs) {
  const at::Tensor x = images(3), rows = at::tensor({2, 0, 2}, at::kLong), classes = at::tensor({4, 1, 0}, at::kLong);
  const at::Tensor none = at::empty({0}, at::kLong);
  for (const auto& method : attribution_methods()) {
    const AttributionOptions options{.method = method, .steps = 2, .samples = 2};
    const Attributor alone(net_of_fixed_batch(1), options);
    const auto one = [&](int64_t n, const at::Tensor& c) { return alone.explain(x.slice(0, n, n + 1), {}, c); };
    for (const int64_t batch : {1, 2, 4}) {
      const Attributor attributor(net_of_fixed_batch(batch), options);
      const auto pairs = attributor.explain(x, rows, classes), tops = attributor.explain(x);
      ASSERT_EQ(pairs.maps.size(0), 3) << method;
      for (int64_t p = 0; p < 3; ++p) {
        const auto pair = one(rows[p].item<int64_t>(), classes.slice(0, p, p + 1)), top = one(p, {});
        EXPECT_LT(largest(pairs.maps[p] - pair.maps[0]), 1e-12) << method << " in batches of " << batch;
        EXPECT_LT(largest(tops.maps[p] - top.maps[0]), 1e-12) << method << " in batches of " << batch;
        EXPECT_EQ(tops.classes[p].item<int64_t>(), top.classes[0].item<int64_t>());
        // Image 1 has no pair.
        EXPECT_LT(largest(pairs.scores[p] - top.scores[0]), 1e-12) << method;
        EXPECT_LT(largest(tops.scores[p] - top.scores[0]), 1e-12) << method;
      }
      const auto nothing = attributor.explain(x, none, none);
      EXPECT_EQ(nothing.maps.size(0), 0);
      EXPECT_EQ(nothing.scores.sizes(), at::IntArrayRef({3, 5}));
      EXPECT_THROW(attributor.explain(x, rows, at::tensor({1}, at::kLong)), Error);
    }
  }
}

// Channels are shuffled with the batch on another axis than the first.
Graph shuffling_net() {
  TestGraph g(8);
  const std::string x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string split = g.node("Reshape", {x, g.integers({-1, 2, 64})});  // N·C/2, 2, H·W
  const std::string turned = g.node("Transpose", {split}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  const std::string halves = g.node("Reshape", {turned, g.integers({2, -1, 2, 8, 8})});
  const auto half = [&](int64_t i) {
    return g.node("Gather", {halves, g.tensor(at::full({}, i, at::kLong))}, {{"axis", int64_t{0}}});
  };
  const std::string joined = g.node("Concat", {half(0), g.relu(g.conv(half(1), 2, 2))}, {{"axis", int64_t{1}}});
  return g.finish(g.linear(pooled(g, g.relu(g.conv(joined, 4, 6))), 6, 5));
}

TEST(Attributor, TheBatchNeedNotBeTheFirstAxis) {
  const Graph net = shuffling_net();
  const at::Tensor x = images(2), rows = at::tensor({1, 0, 1}, at::kLong), classes = at::tensor({3, 0, 2}, at::kLong);
  for (const auto& method : attribution_methods()) {
    std::vector<std::string> layers = {""};
    if (method == "gradcam" || method == "ebp") layers.emplace_back("Relu8");  // inside a branch
    for (const auto& layer : layers) {
      const Attributor attributor(net, {.method = method, .layer = layer, .steps = 2, .samples = 2});
      const auto found = attributor.explain(x, rows, classes);
      for (int64_t p = 0; p < 3; ++p) {
        const int64_t n = rows[p].item<int64_t>();
        const auto alone = attributor.explain(x.slice(0, n, n + 1), {}, classes.slice(0, p, p + 1));
        EXPECT_LT(largest(found.maps[p] - alone.maps[0]), 1e-12) << method << " at " << layer;
        EXPECT_LT(largest(found.scores[n] - alone.scores[0]), 1e-12) << method;
      }
    }
  }
}

TEST(Attributor, LittleMemoryTakesSeveralPieces) {
  const Graph net = plain_net({.bias = true});
  const at::Tensor x = images(3), rows = at::tensor({2, 0, 2, 2, 0}, at::kLong);
  const at::Tensor classes = at::tensor({4, 1, 0, 2, 3}, at::kLong);
  for (const auto& method : attribution_methods()) {
    const AttributionOptions all{.method = method, .steps = 2, .samples = 2};
    AttributionOptions few = all;
    few.memory = 60'000;  // of some pairs, but not of five
    const auto one = Attributor(net, all).explain(x, rows, classes);
    const auto other = Attributor(net, few).explain(x, rows, classes);
    EXPECT_LT(largest(one.maps - other.maps), 1e-12) << method;
    EXPECT_LT(largest(one.scores - other.scores), 1e-12) << method;
  }
}

TEST(Attributor, ReportsItsConservationError) {
  const Graph net = plain_net({.bias = true});
  const at::Tensor x = images(4).abs();
  EXPECT_LT(Attributor(net, {.method = "lrp"}).explain(x).largest_error(), 1e-12);
  EXPECT_LT(Attributor(net, {.method = "ebp"}).explain(x).largest_error(), 1e-12);
  EXPECT_LT(Attributor(net, {.method = "rap"}).explain(x).largest_error(), 1e-12);
  EXPECT_GT(Attributor(net, {.method = "lrp", .lrp = "zero"}).explain(x).mean_error(), 1e-3);
  EXPECT_TRUE(std::isnan(Attributor(net, {}).explain(x).largest_error()));
}

TEST(Attributor, ExplainsNetsOfFlatInputs) {
  const Graph net = build("lenet-300-100");
  const at::Tensor x = at::rand({2, 1, 28, 28});
  for (const char* method : {"gradient", "input-x-gradient", "ig", "lrp", "rap"}) {
    const auto found = Attributor(net, {.method = method}).explain(x);
    EXPECT_EQ(found.maps.sizes(), at::IntArrayRef({2, 28, 28})) << method;
  }
  EXPECT_THROW(Attributor(net, {.method = "gradcam"}), Error);
  EXPECT_THROW(Attributor(net, {.method = "gradcam", .layer = "fc1"}).explain(x), Error);
}

TEST(Attributor, SaysWhatIsWrong) {
  const Graph net = plain_net();
  const at::Tensor x = images(1);
  EXPECT_THROW(Attributor(net, {.method = "magic"}), Error);
  EXPECT_THROW(Attributor(net, {.layer = "conv9"}), Error);
  EXPECT_THROW(Attributor(net, {.layer = "input"}), Error);
  EXPECT_THROW(Attributor(net, {.method = "ig", .layer = "Relu4"}), Error);
  EXPECT_THROW(Attributor(net, {.method = "lrp", .lrp = "magic"}), Error);
  EXPECT_THROW(Attributor(net, {}).explain(x, {}, at::tensor({5}, at::kLong)), Error);
  EXPECT_THROW(Attributor(net, {}).explain(x, {}, at::tensor({-1}, at::kLong)), Error);
  EXPECT_THROW(Attributor(net, {.layer = "Flatten6"}).explain(x), Error);
  EXPECT_EQ(find_value(branching_net(), "GlobalAveragePool13"), "GlobalAveragePool13_0");
  EXPECT_THROW(Attributor(branching_net(), {.layer = "GlobalAveragePool13"}).explain(x), Error);
  EXPECT_THROW(Attributor(net, {.method = "lrp", .layer = "Flatten6"}).explain(x), Error);
}

}  // namespace
}  // namespace pare
