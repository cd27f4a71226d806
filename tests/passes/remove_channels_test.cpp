// The oracle of channel labels: a graph with channels removed equals the same graph with those channels masked to zero
// in every value, to rounding error in double precision, for every topology.
#include "pare/passes/remove_channels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "pare/ops/op.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"
#include "passes/removed_is_masked.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

TEST(RemoveChannels, PlainChain) {
  TestGraph g;
  auto x = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 6), 6));
  x = g.relu(g.conv(x, 6, 8));
  const Graph graph = g.finish(g.conv(x, 8, 4));
  const auto outcome = expect_removed_equals_masked(graph);
  EXPECT_EQ(outcome.groups, 2);
  EXPECT_EQ(outcome.removable, 14);
  EXPECT_LT(outcome.after, outcome.before / 2);
  EXPECT_NE(reason_of(graph, "Conv5").find("graph output"), std::string::npos);
}

// The entries of a value's shape at these places, then constants.
std::string shape_with(TestGraph& g, const std::string& value, const Ints& places, const Ints& constants) {
  const std::string own = g.node("Gather", {g.node("Shape", {value}), g.integers(places)});
  return g.node("Concat", {own, g.integers(constants)}, {{"axis", int64_t{0}}});
}

// What exporters leave where batch and length are open: the shape is computed, only its channels are numbers.
TEST(RemoveChannels, TargetsThatAreComputedOfExtents) {
  TestGraph g;
  const std::string h = g.relu(g.linear(g.input("x", {-1, 6}), 6, 12));
  const std::string apart = g.node("Reshape", {h, shape_with(g, h, {0}, {12, 1})});
  const std::string wide = g.node("Expand", {apart, shape_with(g, h, {0}, {12, 5})});
  const std::string scaled = g.node("Mul", {wide, g.random({1, 1, 5})});
  const std::string flat = g.node("Reshape", {scaled, shape_with(g, h, {0}, {-1})});
  const auto outcome = expect_removed_equals_masked(g.finish(g.linear(flat, 60, 4)));
  EXPECT_EQ(outcome.groups, 1);
  EXPECT_EQ(outcome.removable, 12);
}

TEST(RemoveChannels, ATargetWhoseChannelsDependOnTheSizeStays) {
  TestGraph g;
  const std::string conv = g.relu(g.conv(g.input("x", {-1, 3, 8, -1}), 3, 4));
  const auto extent = [&](int64_t i) { return g.node("Gather", {g.node("Shape", {conv}), g.integers({i})}); };
  const std::string all = g.node("Mul", {g.integers({32}), extent(3)});
  const std::string shape = g.node("Concat", {extent(0), all}, {{"axis", int64_t{0}}});
  const Graph graph = g.finish(g.node("Relu", {g.node("Reshape", {conv, shape})}));
  EXPECT_NE(reason_of(graph, "Conv0").find("depends on sizes"), std::string::npos) << reason_of(graph, "Conv0");
}

TEST(RemoveChannels, Residual) {
  TestGraph g;
  auto stem = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 8));
  auto a = g.batch_norm(g.conv(g.relu(g.batch_norm(g.conv(stem, 8, 5), 5)), 5, 8), 8);
  auto stream = g.relu(g.node("Add", {a, stem}));
  auto b = g.conv(g.relu(g.conv(stream, 8, 7)), 7, 8);
  stream = g.relu(g.node("Add", {stream, b}));
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(stream, 8, 2)));
  EXPECT_EQ(outcome.groups, 3);  // the stream and two inner layers
  EXPECT_EQ(outcome.removable, 20);
}

TEST(RemoveChannels, PaddedShortcut) {  // option A of the CIFAR ResNets
  TestGraph g;
  auto stem = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  auto half = g.node(
      "Slice", {stem, g.integers({0, 0}), g.integers({INT64_MAX, INT64_MAX}), g.integers({2, 3}), g.integers({2, 2})});
  auto padded = g.node("Pad", {half, g.integers({0, 2, 0, 0, 0, 2, 0, 0})});
  auto main = g.node("Conv", {stem, g.random({8, 4, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
  auto sum = g.relu(g.node("Add", {padded, g.batch_norm(main, 8)}));
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(sum, 8, 2)));
  EXPECT_EQ(outcome.groups, 1);
  EXPECT_EQ(outcome.removable, 8);
}

TEST(RemoveChannels, CascadedDenseConcat) {
  TestGraph g;
  auto x0 = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 4));
  auto x1 = g.relu(g.conv(g.relu(g.batch_norm(x0, 4)), 4, 3));
  auto c1 = g.node("Concat", {x0, x1}, {{"axis", int64_t{1}}});
  auto x2 = g.relu(g.conv(g.relu(g.batch_norm(c1, 7)), 7, 5));
  auto c2 = g.node("Concat", {c1, x2}, {{"axis", int64_t{1}}});
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(g.batch_norm(c2, 12), 12, 2)));
  EXPECT_EQ(outcome.groups, 3);
  EXPECT_EQ(outcome.removable, 12);
}

TEST(RemoveChannels, Depthwise) {
  TestGraph g;
  auto x = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 6, 1), 6));
  x = g.relu(g.batch_norm(g.conv(x, 6, 6, 3, 6), 6));
  x = g.node("Conv", {x, g.random({12, 1, 3, 3}), g.random({12})}, {{"group", int64_t{6}}, {"pads", Ints{1, 1, 1, 1}}});
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(g.relu(x), 12, 4, 1)));
  EXPECT_EQ(outcome.groups, 1);
  EXPECT_EQ(outcome.removable, 6);
}

TEST(RemoveChannels, Grouped) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 8));
  x = g.relu(g.batch_norm(g.conv(x, 8, 12, 3, 2), 12));
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(x, 12, 2)));
  EXPECT_EQ(outcome.removable, 4 + 6);
}

// A gate over channels that each come from four: the gate stays, and so must they.
TEST(RemoveChannels, GateAfterDepthToSpace) {
  TestGraph g;
  const auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 12));
  const auto wide = g.node("DepthToSpace", {x}, {{"blocksize", int64_t{2}}});
  const auto gate = g.node("Sigmoid", {g.conv(g.node("GlobalAveragePool", {wide}), 3, 3, 1)});
  const auto gated = g.conv(g.node("Mul", {wide, gate}), 3, 3, 3, /*groups=*/3);
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(g.relu(g.conv(gated, 3, 4)), 4, 2)));
  EXPECT_EQ(outcome.removable, 4);  // those of the last but one
}

TEST(RemoveChannels, APartOfASplitMayNotGo) {
  TestGraph g;
  const auto x = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 4));
  const auto parts = g.node("Split", {x, g.integers({3, 1})}, {{"axis", int64_t{1}}}, 2);
  const auto both = g.node("Concat", {g.relu(parts[1]), parts[0]}, {{"axis", int64_t{1}}});
  const Graph graph = g.finish(g.conv(both, 4, 2));
  const ChannelMap map = analyze_channels(graph);
  const auto& channels = map.groups.at(0).channels;
  EXPECT_NO_THROW(remove_channels(graph, map, {channels.at(0), channels.at(2)}));
  EXPECT_THROW(remove_channels(graph, map, {channels.at(3)}), Error);
  EXPECT_THROW(remove_channels(graph, map, {channels.at(0), channels.at(1), channels.at(2)}), Error);
}

TEST(RemoveChannels, SplitAndSlice) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 9));
  auto parts = g.node("Split", {x, g.integers({2, 4, 3})}, {{"axis", int64_t{1}}}, 3);
  auto a = g.conv(parts[0], 2, 3);
  auto b = g.conv(parts[1], 4, 3);
  auto halves = g.node("Split", {g.relu(g.conv(parts[2], 3, 6))}, {{"axis", int64_t{1}}}, 2);
  auto c = g.node("Mul", {halves[0], g.node("Sigmoid", {halves[1]})});  // a gated unit: halves are tied pairwise
  auto s = g.node("Slice", {x, g.integers({1}), g.integers({-2}), g.integers({1})});
  auto d = g.conv(s, 6, 3);
  auto sum = g.node("Sum", {a, b, c, d});
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(g.relu(sum), 3, 2)));
  EXPECT_GE(outcome.removable, 9 + 3);
}

TEST(RemoveChannels, ChannelShuffle) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 12));
  auto r = g.node("Reshape", {x, g.integers({0, 3, 4, 4, 4})});
  auto t = g.node("Transpose", {r}, {{"perm", Ints{0, 2, 1, 3, 4}}});
  auto back = g.node("Reshape", {t, g.integers({0, 12, 4, 4})});
  auto y = g.relu(g.conv(back, 12, 6, 3, 3));
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(y, 6, 2)));
  EXPECT_GE(outcome.groups, 1);
}

TEST(RemoveChannels, ShuffleBlocksWithTwoBranches) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 8));
  for (int block = 0; block < 2; ++block) {
    auto halves = g.node("Split", {x}, {{"axis", int64_t{1}}}, 2);
    auto branch = g.relu(g.conv(g.conv(g.relu(g.conv(halves[1], 4, 4, 1)), 4, 4, 3, 4), 4, 4, 1));
    auto joined = g.node("Concat", {halves[0], branch}, {{"axis", int64_t{1}}});
    auto r = g.node("Reshape", {joined, g.integers({0, 2, 4, 4, 4})});
    x = g.node("Reshape", {g.node("Transpose", {r}, {{"perm", Ints{0, 2, 1, 3, 4}}}), g.integers({0, -1, 4, 4})});
  }
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(x, 8, 2)));
  EXPECT_GE(outcome.groups, 2);
}

TEST(RemoveChannels, FlattenToLinear) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 5));
  x = g.node("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  x = g.relu(g.linear(g.node("Flatten", {x}), 20, 7));
  const auto outcome = expect_removed_equals_masked(g.finish(g.linear(x, 7, 3)));
  EXPECT_EQ(outcome.removable, 12);
}

TEST(RemoveChannels, ReshapeToLinearWithFixedExtents) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 5));
  x = g.node("Reshape", {x, g.integers({-1, 80})});
  const auto outcome = expect_removed_equals_masked(g.finish(g.linear(x, 80, 3)));
  EXPECT_EQ(outcome.removable, 5);
}

TEST(RemoveChannels, SqueezeExcite) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 8));
  auto s = g.node("GlobalAveragePool", {x});
  s = g.node("Sigmoid", {g.conv(g.relu(g.conv(s, 8, 4, 1)), 4, 8, 1)});
  auto y = g.node("Mul", {x, s});
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(y, 8, 2)));
  EXPECT_EQ(outcome.groups, 2);
  EXPECT_EQ(outcome.removable, 12);
}

TEST(RemoveChannels, SpatialGateStays) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 8));
  auto gate = g.node("Sigmoid", {g.conv(x, 8, 1, 1)});
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(g.node("Mul", {gate, x}), 8, 2)));
  EXPECT_EQ(outcome.removable, 8);  // not the one channel of the gate
}

TEST(RemoveChannels, GlobalPoolingAndSqueeze) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 8));
  auto a = g.node("Squeeze", {g.node("GlobalAveragePool", {x}), g.integers({2, 3})});
  auto b = g.node("ReduceMean", {x, g.integers({2, 3})}, {{"keepdims", int64_t{0}}});
  const auto outcome = expect_removed_equals_masked(g.finish(g.linear(g.node("Add", {a, b}), 8, 3)));
  EXPECT_EQ(outcome.removable, 8);
}

TEST(RemoveChannels, DecoderWithTransposedConvolutionAndResize) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {2, 3, 4, 4}), 3, 6));  // sizes state the batch too
  auto up = g.node("ConvTranspose", {x, g.random({6, 5, 2, 2}), g.random({5})}, {{"strides", Ints{2, 2}}});
  auto big =
      g.node("Resize", {g.relu(g.conv(x, 6, 4)), "", "", g.integers({2, 4, 8, 8})}, {{"mode", std::string("nearest")}});
  auto joined = g.node("Concat", {g.relu(up), big}, {{"axis", int64_t{1}}});
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(joined, 9, 2)));
  EXPECT_EQ(outcome.removable, 6 + 5 + 4);
}

TEST(RemoveChannels, PixelShuffle) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 12));
  auto up = g.node("DepthToSpace", {x}, {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}});
  const auto outcome = expect_removed_equals_masked(g.finish(g.conv(up, 3, 2)));
  EXPECT_EQ(outcome.removable, 3);  // twelve channels in sets of four
}

// Multi-head attention with one matrix for query, key and value: a head lives or dies as a whole.
TEST(RemoveChannels, AttentionHeadsWithMergedQkv) {
  TestGraph g;
  const int64_t tokens = 5, width = 12, heads = 4, depth = 3;
  auto x = g.input("x", {-1, tokens, width});
  auto qkv = g.node("Add", {g.node("MatMul", {x, g.random({width, 3 * width})}), g.random({3 * width})});
  qkv = g.node("Reshape", {qkv, g.integers({-1, tokens, 3, heads, depth})});
  qkv = g.node("Transpose", {qkv}, {{"perm", Ints{2, 0, 3, 1, 4}}});
  std::vector<std::string> part;
  for (int64_t i = 0; i < 3; ++i)
    part.push_back(g.node("Gather", {qkv, g.tensor(at::scalar_tensor(i, at::kLong))}, {{"axis", int64_t{0}}}));
  auto scores = g.node("MatMul", {part[0], g.node("Transpose", {part[1]}, {{"perm", Ints{0, 1, 3, 2}}})});
  scores = g.node("Mul", {scores, g.tensor(at::scalar_tensor(0.577, at::kDouble))});
  scores = g.node("Add", {scores, g.random({1, heads, tokens, tokens})});  // a bias for each head
  auto mixed = g.node("MatMul", {g.node("Softmax", {scores}, {{"axis", int64_t{-1}}}), part[2]});
  mixed =
      g.node("Reshape", {g.node("Transpose", {mixed}, {{"perm", Ints{0, 2, 1, 3}}}), g.integers({-1, tokens, width})});
  auto y = g.node("MatMul", {mixed, g.random({width, 7})});
  const auto outcome = expect_removed_equals_masked(g.finish(y));
  EXPECT_EQ(outcome.removable, 4);
}

TEST(RemoveChannels, LayerNormFreezesItsAxis) {
  TestGraph g;
  auto x = g.node("MatMul", {g.input("x", {-1, 5, 6}), g.random({6, 8})});
  x = g.node("LayerNormalization", {x, g.positive({8}), g.random({8})}, {{"axis", int64_t{-1}}});
  auto hidden = g.node("Gelu", {g.node("MatMul", {x, g.random({8, 16})})});
  const Graph graph = g.finish(g.node("Add", {x, g.node("MatMul", {hidden, g.random({16, 8})})}));
  EXPECT_NE(reason_of(graph, "MatMul0").find("mixes all channels"), std::string::npos);
  const auto outcome = expect_removed_equals_masked(graph);
  EXPECT_EQ(outcome.removable, 16);
}

TEST(RemoveChannels, SharedWeightsAreSlicedOnce) {
  TestGraph g;
  auto a = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 6));
  auto b = g.relu(g.conv("x", 3, 6));
  const auto shared = g.random({5, 6, 3, 3});
  auto ya = g.node("Conv", {a, shared}, {{"pads", Ints{1, 1, 1, 1}}});
  auto yb = g.node("Conv", {b, shared}, {{"pads", Ints{1, 1, 1, 1}}});
  const Graph graph = g.finish(g.conv(g.node("Concat", {g.relu(ya), g.relu(yb)}, {{"axis", int64_t{1}}}), 10, 2));
  const auto outcome = expect_removed_equals_masked(graph);
  EXPECT_EQ(outcome.removable, 6 + 5);
}

TEST(RemoveChannels, AliasedVectorsAreCopied) {  // exporters alias equal batch-norm parameters of unrelated layers
  TestGraph g;
  const auto ones = g.positive({6});
  const auto zeros = g.random({6});
  auto x = g.conv(g.input("x", {-1, 3, 4, 4}), 3, 6);
  x = g.relu(g.node("BatchNormalization", {x, ones, zeros, zeros, ones}));
  x = g.conv(x, 6, 6);
  x = g.relu(g.node("BatchNormalization", {x, ones, zeros, zeros, ones}));
  const Graph graph = g.finish(g.conv(x, 6, 2));
  const ChannelMap map = analyze_channels(graph);
  // Different channels of the two layers.
  std::set<ChannelId> removed = {map.groups[0].channels[1], map.groups[1].channels[4]};
  const auto inputs = random_inputs(graph, 2, 3);
  const auto found = forward(remove_channels(graph, map, removed), inputs).outputs[0];
  EXPECT_TRUE(at::allclose(found, masked_outputs(graph, map, removed, inputs)[0], 1e-12, 1e-12));
}

TEST(RemoveChannels, UnknownOperatorFreezesWhatItReads) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 6));
  auto odd = g.node("FancyNewOperator", {x});
  auto y = g.conv(g.relu(g.conv(odd, 6, 4)), 4, 2);
  const Graph graph = g.finish(y);
  EXPECT_NE(reason_of(graph, "Conv0").find("FancyNewOperator"), std::string::npos);
  try {
    Program program(graph);
    FAIL() << "an unknown operator was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(error.where().find("FancyNewOperator"), std::string::npos);
  }
}

TEST(RemoveChannels, RefusesFrozenChannelsAndEmptyLayers) {
  TestGraph g;
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 3));
  const Graph graph = g.finish(g.conv(x, 3, 2));
  const ChannelMap map = analyze_channels(graph);
  EXPECT_THROW(remove_channels(graph, map, {map.groups[1].channels[0]}), Error);
  const auto& all = map.groups[0].channels;
  EXPECT_THROW(remove_channels(graph, map, {all.begin(), all.end()}), Error);
}

class Zoo : public testing::TestWithParam<std::string> {};

TEST_P(Zoo, RemovedEqualsMasked) {
  Graph graph = simplify(build(GetParam(), {.width = 0.25}, 3));
  // The default initialisation shrinks the variance sixfold a layer; keep signals alive through deep nets.
  for (auto& [name, tensor] : graph.tensors)
    if (name.ends_with("running_var")) tensor = at::full_like(tensor, 0.17);
  const auto outcome = expect_removed_equals_masked(graph);
  EXPECT_GT(outcome.groups, 0);
  EXPECT_LT(outcome.after, outcome.before);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const auto& info : architectures()) list.push_back(info.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Architectures, Zoo, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace pare
