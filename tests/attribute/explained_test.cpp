// The graph that is explained: its scores, and the layer that maps are made of.
#include "pare/attribute/explained.h"

#include <gtest/gtest.h>

#include "attribute/nets.h"
#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/attribute/gradients.h"
#include "pare/error.h"
#include "pare/explain.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

TEST(Explained, FoldingKeepsScoresAndGradients) {
  const Graph graph = plain_net({.bias = true, .batch_norm = true});
  const Graph folded = explained_graph(graph);
  EXPECT_LT(folded.nodes.size(), graph.nodes.size());
  const at::Tensor x = images(3), classes = at::tensor({0, 1, 2}, at::kLong);
  EXPECT_LT(largest(scores_of(graph, x) - scores_of(folded, x)), 1e-12);
  EXPECT_LT(largest(input_gradient(Program(graph), x, classes) - input_gradient(Program(folded), x, classes)), 1e-12);
}

TEST(Explained, TakesScoresInFrontOfASoftmaxAndFindsLayers) {
  Graph graph = plain_net();
  const std::string scores = graph.outputs[0].name;
  graph.nodes.push_back({.name = "softmax", .op = "Softmax", .inputs = {scores}, .outputs = {"p"}});
  graph.outputs[0].name = "p";
  EXPECT_EQ(explained_graph(graph).outputs[0].name, scores);
  EXPECT_EQ(last_spatial_activation(graph), "Relu4_0");
  EXPECT_EQ(last_spatial_value(graph), "MaxPool5_0");
  EXPECT_EQ(find_value(graph, "MaxPool5"), "MaxPool5_0");
  EXPECT_EQ(find_value(graph, "input"), "x");
  EXPECT_THROW(find_value(graph, "conv9"), Error);
  EXPECT_THROW(last_spatial_activation(build("lenet-300-100")), Error);
  EXPECT_EQ(last_spatial_activation(build("resnet20")), "layer3.2.act2");
  // x · sigmoid(x) is one activation, and open extents do not hide the layers.
  TestGraph g;
  const std::string conv = g.conv(g.input("x", {-1, 3, -1, -1}), 3, 4);
  const std::string silu = g.node("Mul", {conv, g.node("Sigmoid", {conv})});
  EXPECT_EQ(last_spatial_activation(g.finish(g.node("Flatten", {g.node("GlobalAveragePool", {silu})}))), silu);
  // So are x · hardsigmoid(x) and x · (clip(x + 3) / 6).
  for (const bool clipped : {false, true}) {
    TestGraph h;
    const auto number = [&](double value) { return h.tensor(at::full({}, value, at::kDouble)); };
    const std::string y = h.conv(h.relu(h.conv(h.input("x", {-1, 3, 8, 8}), 3, 4)), 4, 4);
    const std::string gate =
        clipped ? h.node("Div", {h.node("Clip", {h.node("Add", {y, number(3)}), number(0), number(6)}), number(6)})
                : h.node("HardSigmoid", {y});
    const std::string swish = h.node("Mul", {y, gate});
    EXPECT_EQ(last_spatial_activation(h.finish(h.node("Flatten", {h.node("GlobalAveragePool", {swish})}))), swish);
  }
  // Values that pass by the cut are handed over too.
  const Graph residual = branching_net();
  const Cut cut = cut_after(residual, residual.nodes[3].outputs[0]);
  EXPECT_GE(cut.boundary.size(), 2u);
  const at::Tensor x = images(2);
  const auto between = forward(cut.front, {&x, 1}).outputs;
  EXPECT_LT(largest(forward(cut.back, between).outputs[0] - scores_of(residual, x)), 1e-14);
}

TEST(Explained, AnActivationInABranchGivesWayToTheJoin) {
  TestGraph concat;
  const std::string x = concat.relu(concat.conv(concat.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string one = concat.relu(concat.conv(x, 4, 3)), other = concat.relu(concat.conv(x, 4, 2));
  const std::string both = concat.node("Concat", {one, other}, {{"axis", int64_t{1}}});
  const Graph branches = concat.finish(concat.linear(pooled(concat, both), 5, 5));
  EXPECT_EQ(last_spatial_activation(branches), both);
  EXPECT_EQ(last_spatial_value(branches), both);
  // A block x + f(x) whose inside has its channels last.
  TestGraph add;
  const std::string y = add.conv(add.input("x", {-1, 3, 8, 8}), 3, 4);
  const auto turned = [&](const std::string& v, const std::vector<int64_t>& order) {
    return add.node("Transpose", {v}, {{"perm", order}});
  };
  const std::string inner = add.node("Gelu", {turned(add.conv(y, 4, 4), {0, 2, 3, 1})});
  const std::string sum = add.node("Add", {y, turned(inner, {0, 3, 1, 2})});
  EXPECT_EQ(last_spatial_activation(add.finish(add.linear(pooled(add, sum), 4, 5))), sum);
  // Branches that meet without an extent: the last activation before they part.
  TestGraph late;
  const std::string stem = late.relu(late.conv(late.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string p = pooled(late, late.relu(late.conv(stem, 4, 3))), q = pooled(late, late.conv(stem, 4, 2));
  const std::string flat = late.node("Concat", {p, q}, {{"axis", int64_t{1}}});
  EXPECT_EQ(last_spatial_activation(late.finish(late.linear(flat, 5, 5))), stem);
  // Extents that are read by a later Reshape are no branch, and other outputs have no part in it.
  TestGraph shaped;
  const std::string in = shaped.input("x", {-1, 3, 8, 8});
  const std::string last = shaped.relu(shaped.conv(in, 3, 4));
  const std::string all = shaped.node("Shape", {in});
  const std::string batch = shaped.node("Slice", {all, shaped.integers({0}), shaped.integers({1})});
  const std::string extents = shaped.node("Concat", {batch, shaped.integers({-1})}, {{"axis", int64_t{0}}});
  const std::string scores = shaped.linear(shaped.node("Reshape", {last, extents}), 256, 5);
  const std::string aside = shaped.relu(shaped.conv(last, 4, 4));
  Graph two = shaped.finish(scores);
  two.outputs.push_back({.name = aside, .dtype = at::kDouble});
  EXPECT_EQ(last_spatial_activation(two), last);
  EXPECT_EQ(last_spatial_value(two), last);
}

// Where one place is left of the picture, an extent of channels that come last is none of it.
TEST(Explained, ChannelsAfterTheLastPoolAreNoPicture) {
  const auto turned = [](TestGraph& g, const std::string& v, const std::vector<int64_t>& order) {
    return g.node("Transpose", {v}, {{"perm", order}});
  };
  const auto normed = [](TestGraph& g, const std::string& v) {
    return g.node("LayerNormalization", {v, g.positive({4}), g.random({4})}, {{"axis", int64_t{-1}}});
  };
  TestGraph first;
  const std::string sum = first.conv(first.input("x", {-1, 3, 8, 8}), 3, 4);
  const std::string after = normed(first, turned(first, first.node("GlobalAveragePool", {sum}), {0, 2, 3, 1}));
  const std::string flat = first.node("Flatten", {turned(first, after, {0, 3, 1, 2})});
  const Graph pooled_first = first.finish(first.linear(flat, 4, 5));
  EXPECT_EQ(last_spatial_activation(pooled_first), sum);
  EXPECT_EQ(last_spatial_value(pooled_first), sum);
  // The pool itself has them last.
  TestGraph last;
  const std::string picture = turned(last, last.conv(last.input("x", {-1, 3, 8, 8}), 3, 4), {0, 2, 3, 1});
  const std::string mean = last.node("ReduceMean", {picture, last.integers({1, 2})}, {{"keepdims", int64_t{1}}});
  const Graph turned_first = last.finish(last.linear(last.node("Flatten", {normed(last, mean)}), 4, 5));
  EXPECT_EQ(last_spatial_value(turned_first), picture);
}

// What is published was measured at these layers.
TEST(Explained, ArchitecturesWithoutBranchesAtTheEndHaveTheirLastActivation) {
  for (const auto& arch : architectures()) {
    const Graph graph = build(arch.name, {.width = 0.125});
    const Shapes shapes = infer_shapes(graph, {.batch = 1});
    std::string last;
    for (const auto& node : graph.nodes)
      if (const auto* type = shapes.find(node.outputs[0]);
          node.op == "Relu" && type->rank() == 4 && type->dims[2] * type->dims[3] > 1)
        last = node.outputs[0];
    if (!last.empty()) {
      EXPECT_EQ(last_spatial_activation(graph), last) << arch.name;
    }
  }
}

TEST(Explained, ScoresAreOneRowAnImage) {
  EXPECT_EQ(score_rows(at::zeros({2, 5, 1, 1})).sizes(), at::IntArrayRef({2, 5}));
  EXPECT_THROW(score_rows(at::zeros({2, 21, 7, 7})), Error);
  TestGraph g;
  const Graph dense = g.finish(g.conv(g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4)), 4, 5));
  EXPECT_THROW(Attributor(dense, {}).explain(images(2)), Error);
}

TEST(Explained, LooksForScoresBeforeReshapes) {
  for (const char* probability : {"Softmax", "Sigmoid"})
    for (const char* after : {"Identity", "Flatten"}) {
      Graph graph = plain_net();
      const std::string scores = graph.outputs[0].name;
      graph.nodes.push_back({.name = "p", .op = probability, .inputs = {scores}, .outputs = {"p"}});
      graph.nodes.push_back({.name = "q", .op = after, .inputs = {"p"}, .outputs = {"q"}});
      graph.outputs[0].name = "q";
      EXPECT_EQ(score_value(graph), scores) << probability << " and " << after;
    }
  Graph graph = plain_net();
  graph.nodes.push_back({.name = "q", .op = "Identity", .inputs = {graph.outputs[0].name}, .outputs = {"q"}});
  graph.outputs[0].name = "q";
  EXPECT_EQ(score_value(graph), "q");
}

// A layer before a batch norm is itself, not what the norm makes of it.
TEST(Explained, ObservedLayersKeepTheirValues) {
  const Graph graph = plain_net({.bias = true, .batch_norm = true});
  const Node& conv = graph.nodes.at(4);
  const Node& norm = graph.nodes.at(5);
  ASSERT_EQ(conv.op, "Conv");
  ASSERT_EQ(norm.op, "BatchNormalization");
  const at::Tensor x = images(3);
  const TensorMap own = values_of(graph, x);
  for (const std::string& name : {conv.name, conv.outputs[0]}) {
    const Graph kept = explained_graph(graph, {name});
    EXPECT_EQ(find_value(kept, name), conv.outputs[0]);
    EXPECT_LT(largest(values_of(kept, x).at(conv.outputs[0]) - own.at(conv.outputs[0])), 1e-12);
  }
  EXPECT_THROW(explained_graph(graph, {"conv9"}), Error);
  const auto map = [&](const std::string& layer) { return Attributor(graph, {.layer = layer}).explain(x).maps; };
  EXPECT_GT(largest(map(conv.outputs[0]) - map(norm.outputs[0])), 1e-3);
  // A norm has its name even where it is folded.
  Graph renamed = graph;
  renamed.nodes.at(5).name = "/features/norm";
  EXPECT_TRUE(Attributor(renamed, {.layer = "/features/norm"}).explain(x).maps.equal(map(norm.outputs[0])));
}

}  // namespace
}  // namespace pare
