// What the walk back does with every kind of operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "attribute/walker.h"
#include "pare/attribute/excitation.h"
#include "pare/attribute/gradients.h"
#include "pare/error.h"

namespace pare {
namespace {

// LRP-0 of a net without biases is input times gradient whatever it is built of.
TEST(Walk, PassesThroughEveryLinearOperator) {
  TestGraph g(5);
  using Ints = std::vector<int64_t>;
  const Ints pads = {1, 1, 1, 1};
  const auto conv = [&](const std::string& x, int64_t in, int64_t out, int64_t groups = 1) {
    return g.relu(g.node("Conv", {x, g.random({out, in / groups, 3, 3})}, {{"pads", pads}, {"group", groups}}));
  };
  std::string x = conv(g.input("x", {-1, 3, 8, 8}), 3, 6);
  x = conv(x, 6, 6, 3);  // groups
  const auto halves = g.node("Split", {x, g.integers({2, 4})}, {{"axis", int64_t{1}}}, 2);
  const std::string cut = g.node("Slice", {halves[1], g.integers({1}), g.integers({3}), g.integers({1})});
  std::string y = g.node("Sub", {halves[0], cut});
  y = g.relu(g.node("Mean", {y, halves[0], cut}));
  y = g.node("Concat", {y, halves[1]}, {{"axis", int64_t{1}}});
  y = g.node("LeakyRelu", {g.node("Mul", {y, g.positive({1, 6, 1, 1})})}, {{"alpha", 0.0}});
  y = g.node("ConvTranspose", {y, g.random({6, 4, 2, 2})}, {{"strides", Ints{2, 2}}});
  y = g.node("AveragePool", {g.relu(y)}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", pads}});
  y = g.node("Transpose", {y}, {{"perm", Ints{0, 2, 3, 1}}});
  y = g.node("ReduceMean", {y, g.integers({1, 2})}, {{"keepdims", int64_t{0}}});
  const Graph graph = g.finish(g.node("MatMul", {g.relu(y), g.random({4, 5})}));
  const Walker w(graph, images(5));
  ASSERT_GT(largest(w.score), 0);
  const at::Tensor product = input_x_gradient(Program(w.graph), w.x, w.classes);
  EXPECT_LT(largest(w.lrp("zero") - product), 1e-12 * largest(product));
  EXPECT_LT(largest(sums(w.lrp("zero")) - w.score), 1e-12);
}

void expect_refused(const Graph& graph, const std::string& op) {
  const Walker w(graph, images(1));
  try {
    w.lrp("z-plus");
    ADD_FAILURE() << op << ": nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr(op));
  }
}

TEST(Walk, AnOperatorWithoutARuleIsNamed) {
  const auto net = [](const std::function<std::string(TestGraph&, const std::string&)>& middle, int64_t features) {
    TestGraph g;
    const std::string y = middle(g, g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
    return g.finish(g.linear(g.node("Flatten", {y}), features, 5));
  };
  const auto largest_rows = [](TestGraph& g, const std::string& y) {
    return g.node("TopK", {y, g.integers({2})}, {{"axis", int64_t{2}}}, 2);
  };
  constexpr int64_t kDouble = 11;  // as ONNX numbers types
  const auto lrn = [](TestGraph& g, const std::string& y) { return g.node("LRN", {y}, {{"size", int64_t{3}}}); };
  expect_refused(net(lrn, 256), "LRN");
  expect_refused(net([&](TestGraph& g, const std::string& y) { return largest_rows(g, y)[0]; }, 64), "TopK");
  // Reached by its second output alone.
  const auto indices = [&](TestGraph& g, const std::string& y) {
    return g.node("Cast", {largest_rows(g, y)[1]}, {{"to", kDouble}});
  };
  expect_refused(net(indices, 64), "TopK");
  const auto inverse = [](TestGraph& g, const std::string& y) { return g.node("Div", {g.positive({1}), y}); };
  expect_refused(net(inverse, 256), "Div");
}

TEST(Walk, GatesPassEverythingToTheirSignal) {
  TestGraph g;
  const std::string x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string gate = g.node("Sigmoid", {g.conv(g.node("GlobalAveragePool", {x}), 4, 4, 1)});
  const std::string gated = g.node("Mul", {gate, x});
  const Graph graph = g.finish(g.linear(g.node("Flatten", {gated}), 256, 5));
  const Walker w(graph, images(2));
  EXPECT_LT(largest(w.lrp("z-plus", gated) - w.lrp("z-plus", x)), 1e-15);
  TestGraph bad;
  const std::string y = bad.relu(bad.conv(bad.input("x", {-1, 3, 8, 8}), 3, 4));
  const Graph product = bad.finish(bad.linear(bad.node("Flatten", {bad.node("Mul", {y, bad.relu(y)})}), 256, 5));
  EXPECT_THROW(Walker(product, images(1)).lrp("zero"), Error);
}

// The classic squeeze and excitation: fully connected layers, whose gates are reshaped, to extents that the image has
// or to constant ones.
TEST(Walk, GatesMayBeReshaped) {
  for (const bool computed : {false, true}) {
    TestGraph g;
    const std::string x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
    const std::string squeezed = g.node("GlobalAveragePool", {x});
    const std::string gate = g.node("Sigmoid", {g.linear(g.node("Flatten", {squeezed}), 4, 4)});
    const std::string shape = computed ? g.node("Shape", {squeezed}) : g.integers({-1, 4, 1, 1});
    const std::string gated = g.node("Mul", {x, g.node("Reshape", {gate, shape})});
    const Walker w(g.finish(g.linear(g.node("Flatten", {gated}), 256, 5)), images(2));
    EXPECT_LT(largest(w.lrp("z-plus", gated) - w.lrp("z-plus", x)), 1e-15) << computed;
  }
}

TEST(Walk, GatesMayBeScaledAndGateAClippedValue) {
  TestGraph g;
  const auto clip = [&](const std::string& y) {
    return g.node("Clip", {y, g.tensor(at::full({}, 0.0, at::kDouble)), g.tensor(at::full({}, 6.0, at::kDouble))});
  };
  const auto number = [&](double value) { return g.tensor(at::full({}, value, at::kDouble)); };
  const std::string y = g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4);
  const std::string swish = g.node("Mul", {y, g.node("Div", {clip(g.node("Add", {y, number(3)})), number(6)})});
  const std::string six = clip(g.conv(swish, 4, 4));
  const std::string gate = g.node("HardSigmoid", {g.conv(g.node("GlobalAveragePool", {six}), 4, 4, 1)});
  const std::string gated = g.node("Mul", {six, gate});
  const Walker w(g.finish(g.linear(g.node("Flatten", {gated}), 256, 5)), images(2));
  EXPECT_LT(largest(w.lrp("z-plus", gated) - w.lrp("z-plus", six)), 1e-15);
  EXPECT_LT(largest(w.lrp("z-plus", swish) - w.lrp("z-plus", y)), 1e-15);
}

// One that does not follow a layer cannot be folded; where it could be, both ways are the same.
TEST(Walk, ABatchNormIsALinearLayerOfItsOwn) {
  const Graph graph = plain_net({.bias = true, .batch_norm = true}), folded = explained_graph(graph);
  ASSERT_LT(folded.nodes.size(), graph.nodes.size());
  const at::Tensor x = images(4);
  const at::Tensor R = Walker(folded, x).lrp("zero");
  EXPECT_LT(largest(Walker(graph, x).lrp("zero") - R), 1e-9 * largest(R));
}

TEST(Walk, SaysWhatGoesPastALayer) {
  const Graph graph = branching_net();
  const Walker w(graph, images(3));
  const std::string inner = graph.nodes[3].outputs[0];  // the other branch of the Add reads what is before it
  for (const char* preset : {"z-plus", "zero"}) {
    const Walked walked = walk_back(graph, w.values, one_hot(w.scores, w.classes) * w.score.unsqueeze(1), inner,
                                    lrp_rule(lrp_preset(preset)));
    EXPECT_GT(largest(walked.beside), 1e-3);
    EXPECT_LT(largest(sums(walked.relevance) + walked.beside - w.score), 1e-12) << preset;
  }
  for (const char* method : {"lrp", "ebp", "rap"})
    EXPECT_LT(Attributor(graph, {.method = method, .layer = inner}).explain(w.x).largest_error(), 1e-11) << method;
}

TEST(Walk, AMatrixProductAndItsBiasAreALinearLayer) {
  TestGraph one, two;
  const at::Tensor weight = at::randn({6, 5}, at::kDouble), bias = at::randn({5}, at::kDouble);
  const Graph gemm = one.finish(one.node("Gemm", {one.input("x", {-1, 6}), one.tensor(weight), one.tensor(bias)}));
  const Graph matmul = two.finish(
      two.node("Add", {two.node("MatMul", {two.input("x", {-1, 6}), two.tensor(weight)}), two.tensor(bias)}));
  at::manual_seed(3);
  const at::Tensor x = at::randn({4, 6}, at::kDouble);
  for (const auto& preset : lrp_presets())
    EXPECT_LT(largest(Walker(gemm, x).lrp(preset) - Walker(matmul, x).lrp(preset)), 1e-12) << preset;
  // Of all scores some are positive only by their bias.
  const at::Tensor rows = at::arange(20, at::kLong).div(5, "floor"), classes = at::arange(20, at::kLong).remainder(5);
  ASSERT_TRUE((at::matmul(x, weight).lt(0) & scores_of(gemm, x).gt(0)).any().item<bool>());
  for (const std::string method : {"lrp", "ebp", "contrastive-ebp", "rap"}) {
    const AttributionOptions options{.method = method, .layer = "input"};
    const auto one_node = Attributor(gemm, options).explain(x, rows, classes);
    const auto two_nodes = Attributor(matmul, options).explain(x, rows, classes);
    EXPECT_LT(largest(one_node.maps - two_nodes.maps), 1e-12) << method;
    // Nothing excites a score whose products are all negative.
    EXPECT_TRUE(method.ends_with("ebp") || two_nodes.largest_error() < 1e-12) << method;
  }
}

// A hidden one too, whatever the convolutions before it follow.
TEST(Walk, AHiddenMatrixProductAndItsBiasAreALinearLayer) {
  const auto net = [](bool joined) {
    TestGraph g(3);
    const auto dense = [&](const std::string& x, int64_t in, int64_t out) {
      const std::string weight = g.random({in, out}), bias = g.random({out});
      if (joined) return g.node("Gemm", {x, weight, bias});
      return g.node("Add", {bias, g.node("MatMul", {x, weight})});
    };
    const std::string y = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
    return g.finish(dense(g.relu(dense(g.node("Flatten", {y}), 256, 7)), 7, 5));
  };
  const Walker one(net(true), images(4)), two(net(false), images(4));
  ASSERT_LT(largest(one.score - two.score), 1e-12);
  for (const auto& preset : lrp_presets()) {
    const at::Tensor expected = one.lrp(preset);
    EXPECT_LT(largest(expected - two.lrp(preset)), 1e-10 * largest(expected)) << preset;
  }
  EXPECT_LT(largest(one.rap() - two.rap()), 1e-10);
}

// Paths that part and meet again are as many as there are subsets of the nodes.
TEST(Walk, LongChainsInFrontOfALayerTakeNoTime) {
  TestGraph g;
  std::string x = g.input("x", {-1, 3, 8, 8});
  for (int i = 0; i < 60; ++i) x = g.node("Max", {x, x});
  const Walker w(g.finish(g.linear(g.node("Flatten", {g.relu(g.conv(x, 3, 4))}), 256, 5)), images(2));
  EXPECT_LT(largest(sums(w.lrp("z-plus")) - w.score), 1e-11);
}

// --- what stands before the first layer

// Every method arrives with all of the score at `values` together, and gets to the input.
void expect_conserved(const Graph& graph, const std::vector<std::string>& values) {
  const Walker w(graph, images(3).abs());
  const auto arrived = [&](const auto& walk) {
    at::Tensor total = at::zeros_like(w.score);
    for (const auto& value : values) total = total + sums(walk(value));
    EXPECT_TRUE(walk("x").isfinite().all().template item<bool>());
    return total;
  };
  for (const char* preset : {"z-plus", "alpha1-beta0"})
    EXPECT_LT(largest(arrived([&](const auto& to) { return w.lrp(preset, to); }) - w.score), 1e-11) << preset;
  EXPECT_LT(largest(arrived([&](const auto& to) { return w.rap(to); }) - w.score), 1e-11);
  EXPECT_LT(largest(arrived([&](const auto& to) { return w.from_one(excitation_rule(), to); }) - 1), 1e-11);
}

TEST(Walk, ConstantsBesideTheInputKeepTheirShare) {
  const auto end = [](TestGraph& g, const std::string& y) {
    return g.finish(g.node("MatMul", {g.node("Flatten", {g.relu(y)}), g.random({256, 5})}));
  };
  const auto conv = [](TestGraph& g, const std::string& x, int64_t in) {
    return g.node("Conv", {x, g.random({4, in, 3, 3})}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  };
  TestGraph a;
  const std::string larger = a.node("Max", {a.positive({1, 3, 1, 1}), a.input("x", {-1, 3, 8, 8})});
  expect_conserved(end(a, conv(a, larger, 3)), {larger});
  TestGraph b;
  const std::string row = b.tensor(at::rand({3, 1, 8, 8}, at::kDouble));
  const std::string both = b.node("Concat", {row, b.input("x", {3, 3, 8, 8})}, {{"axis", int64_t{1}}});
  expect_conserved(end(b, conv(b, both, 4)), {both});
  // A table that the input points into: only what does not pass through it gets to the input.
  TestGraph c;
  const std::string x = c.input("x", {-1, 3, 8, 8});
  const std::string brightest = c.node("ArgMax", {x}, {{"axis", int64_t{1}}});
  const std::string looked_up = c.node("Gather", {c.positive({3}), brightest});
  expect_conserved(end(c, c.node("Add", {conv(c, looked_up, 1), conv(c, x, 3)})), {looked_up, "x"});
}

TEST(Walk, ANormalisationIsNoLayer) {
  const at::Tensor mean = at::tensor({0.4, 0.5, 0.6}, at::kDouble),
                   deviation = at::tensor({0.2, 0.3, 0.4}, at::kDouble);
  const auto of_channels = [](const at::Tensor& t) { return t.view({1, 3, 1, 1}); };
  using Normalise = std::function<std::string(TestGraph&, const std::string&)>;
  const auto net = [](const Normalise& normalise) {
    TestGraph g(4);
    const std::string conv_weight = g.random({4, 3, 3, 3}), conv_bias = g.random({4}), weight = g.random({5, 144});
    const std::string x = normalise(g, g.input("x", {-1, 3, 8, 8}));
    const std::string flat = g.node("Flatten", {g.relu(g.node("Conv", {x, conv_weight, conv_bias}))});
    return g.finish(g.node("Gemm", {flat, weight}, {{"transB", int64_t{1}}}));
  };
  const std::vector<Normalise> ways = {
      [&](TestGraph& g, const std::string& x) {
        const std::string moved = g.node("Sub", {x, g.tensor(of_channels(mean))});
        return g.node("Div", {moved, g.tensor(of_channels(deviation))});
      },
      [&](TestGraph& g, const std::string& x) {
        const std::string scaled = g.node("Mul", {g.tensor(of_channels(1 / deviation)), x});
        return g.node("Add", {scaled, g.tensor(of_channels(-mean / deviation))});
      },
      [&](TestGraph& g, const std::string& x) {
        const auto zeros = g.tensor(at::zeros({3}, at::kDouble)), ones = g.tensor(at::ones({3}, at::kDouble));
        return g.node("BatchNormalization", {x, g.tensor(1 / deviation), g.tensor(-mean / deviation), zeros, ones},
                      {{"epsilon", 0.0}});
      }};
  const at::Tensor pixels = images(4).abs().clamp_max(1);
  const Walker prepared(net([](TestGraph&, const std::string& x) { return x; }),
                        (pixels - of_channels(mean)) / of_channels(deviation));
  for (const auto& normalise : ways) {
    const Walker w(net(normalise), pixels);
    ASSERT_LT(largest(w.scores - prepared.scores), 1e-12);
    for (const char* preset : {"alpha1-beta0", "epsilon-gamma-box"})
      EXPECT_LT(largest(w.lrp(preset) - prepared.lrp(preset)), 1e-11) << preset;
    EXPECT_LT(largest(w.rap() - prepared.rap()), 1e-11);
    EXPECT_LT(largest(sums(w.lrp("alpha1-beta0")) - w.score), 1e-12);
  }
}

}  // namespace
}  // namespace pare
