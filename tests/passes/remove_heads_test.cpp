// Removed is masked, in networks of operators that came with transformers and of those that runtimes fuse.
#include "passes/removed_is_masked.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

std::string projected(TestGraph& g, const std::string& x, int64_t in, int64_t out) {
  return g.node("MatMul", {x, g.random({in, out})});
}

// Queries, keys and values of three axes, heads beside each other.
Graph attention(int64_t heads, int64_t kv_heads, bool rotary) {
  TestGraph g;
  const int64_t size = 4, tokens = 5;
  const auto x = g.input("x", {-1, tokens, 6});
  auto q = projected(g, x, 6, heads * size), k = projected(g, x, 6, kv_heads * size);
  const auto v = projected(g, x, 6, kv_heads * size);
  if (rotary) {
    const auto cos = g.random({1, tokens, size / 2}), sin = g.random({1, tokens, size / 2});
    q = g.node("RotaryEmbedding", {q, cos, sin}, {{"num_heads", heads}});
    k = g.node("RotaryEmbedding", {k, cos, sin}, {{"num_heads", kv_heads}});
  }
  const auto y =
      g.node("Attention", {q, k, v}, {{"q_num_heads", heads}, {"kv_num_heads", kv_heads}, {"is_causal", int64_t{1}}});
  return g.finish(projected(g, y, heads * size, 3));
}

TEST(RemoveHeads, OfAttention) {
  const auto outcome = expect_removed_equals_masked(attention(4, 4, false));
  EXPECT_EQ(outcome.removable, 4);
  EXPECT_LT(outcome.after, outcome.before);
}

TEST(RemoveHeads, OfKeysWithTheQueriesThatTheyServe) {
  const auto outcome = expect_removed_equals_masked(attention(6, 3, false));
  EXPECT_EQ(outcome.removable, 3);
}

TEST(RemoveHeads, ThatTurn) { EXPECT_EQ(expect_removed_equals_masked(attention(4, 2, true)).removable, 2); }

TEST(RemoveHeads, SayHowManyAreLeft) {
  const Graph graph = attention(6, 3, true);
  const ChannelMap map = analyze_channels(graph);
  for (const auto& node : remove_channels(graph, map, choose(map, 3)).nodes) {
    if (node.op == "Attention") EXPECT_EQ(node.integer("q_num_heads", 0), 4);
    if (node.op == "Attention") EXPECT_EQ(node.integer("kv_num_heads", 0), 2);
  }
}

TEST(RemoveHeads, OnAnAxisOfTheirOwn) {
  TestGraph g;
  const int64_t heads = 3, size = 4, tokens = 5;
  const auto x = g.input("x", {-1, tokens, 6});
  std::vector<std::string> parts;
  for (int i = 0; i < 3; ++i) {
    const auto split = g.node("Reshape", {projected(g, x, 6, heads * size), g.integers({-1, tokens, heads, size})});
    parts.push_back(g.node("Transpose", {split}, {{"perm", Ints{0, 2, 1, 3}}}));
  }
  auto y = g.node("Transpose", {g.node("Attention", parts)}, {{"perm", Ints{0, 2, 1, 3}}});
  y = g.node("Reshape", {y, g.integers({-1, tokens, heads * size})});
  EXPECT_EQ(expect_removed_equals_masked(g.finish(projected(g, y, heads * size, 3))).removable, 3);
}

TEST(RemoveHeads, StayWhereTheyAreCachedOrMaskedOneByOne) {
  for (const bool cached : {true, false}) {
    TestGraph g;
    const auto x = g.input("x", {-1, 5, 6});
    const auto q = projected(g, x, 6, 8), k = projected(g, x, 6, 8), v = projected(g, x, 6, 8);
    const std::map<std::string, Attribute> heads = {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}};
    std::vector<std::string> inputs = {q, k, v};
    if (!cached) inputs.push_back(g.random({1, 2, 5, 5}));
    const auto y = g.node("Attention", inputs, heads, cached ? 3 : 1)[0];
    const Graph graph = g.finish(projected(g, y, 8, 3));
    const std::string reason = reason_of(graph, "MatMul0");
    EXPECT_NE(reason.find("Attention"), std::string::npos) << reason;
    expect_removed_equals_masked(graph);
  }
}

TEST(RemoveFused, MultiHeadAttentionAndGroupQueries) {
  TestGraph g;
  const auto x = g.input("x", {-1, 5, 6});
  auto y = g.node("com.microsoft.MultiHeadAttention",
                  {projected(g, x, 6, 8), projected(g, x, 6, 8), projected(g, x, 6, 8)}, {{"num_heads", int64_t{4}}});
  y = projected(g, y, 8, 6);
  const auto lengths = g.tensor(at::full({2}, 4, at::kInt)), longest = g.tensor(at::full({1}, 5, at::kInt));
  y = g.node("com.microsoft.GroupQueryAttention",
             {projected(g, y, 6, 12), projected(g, y, 6, 6), projected(g, y, 6, 6), "", "", lengths, longest},
             {{"num_heads", int64_t{6}}, {"kv_num_heads", int64_t{3}}});
  // four heads, the six channels between the two, three heads of keys
  EXPECT_EQ(expect_removed_equals_masked(g.finish(projected(g, y, 12, 3))).removable, 4 + 6 + 3);
}

TEST(RemoveFused, GatedMlp) {
  TestGraph g;
  const auto x = g.input("x", {-1, 5, 6});
  auto y = g.node("SwiGLU", {projected(g, x, 6, 10), projected(g, x, 6, 10)});
  y = g.node("com.microsoft.FusedMatMul", {y, g.random({7, 10})}, {{"transB", int64_t{1}}, {"alpha", 0.5}});
  y = g.node("com.microsoft.FastGelu", {y, g.random({7})});
  EXPECT_EQ(expect_removed_equals_masked(g.finish(projected(g, y, 7, 3))).removable, 10 + 7);
}

TEST(RemoveFused, ConvolutionWithASumAndAnActivation) {
  TestGraph g;
  const auto a = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 6));
  const std::map<std::string, Attribute> form = {{"activation", std::string("Relu")}, {"pads", Ints{1, 1, 1, 1}}};
  const auto y = g.node("com.microsoft.FusedConv", {a, g.random({6, 6, 3, 3}), g.random({6}), a}, form);
  EXPECT_EQ(expect_removed_equals_masked(g.finish(g.conv(y, 6, 2))).removable, 6);
}

TEST(RemoveFused, CausalConvolution) {
  TestGraph g;
  const auto x = g.node("Conv", {g.input("x", {-1, 3, 9}), g.random({6, 3, 1})});
  const auto y =
      g.node("CausalConvWithState", {x, g.random({6, 1, 4}), g.random({6})}, {{"activation", std::string("silu")}});
  EXPECT_EQ(expect_removed_equals_masked(g.finish(g.node("Conv", {y, g.random({2, 6, 1})}))).removable, 6);
}

TEST(RemoveFused, WhatARecurrentLayerReads) {
  TestGraph g;
  auto x = projected(g, g.input("x", {5, 2, 4}), 4, 6);
  const auto y =
      g.node("LSTM", {x, g.random({1, 12, 6}), g.random({1, 12, 3}), g.random({1, 24})}, {{"hidden_size", int64_t{3}}});
  EXPECT_EQ(expect_removed_equals_masked(g.finish(y)).removable, 6);
}

TEST(RemoveFused, RegionsOfPictures) {
  TestGraph g;
  const auto x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 6));
  const auto boxes = g.tensor(at::tensor({0.0, 0.0, 5.0, 6.0, 1.0, 2.0, 7.0, 7.0}, at::kDouble).reshape({2, 4}));
  const auto y =
      g.node("RoiAlign", {x, boxes, g.integers({0, 1})}, {{"output_height", int64_t{3}}, {"output_width", int64_t{3}}});
  EXPECT_EQ(expect_removed_equals_masked(g.finish(g.conv(y, 6, 2))).removable, 6);
}

// Scales of a channel go with it; one scale for all stays.
TEST(RemoveQuantized, ThroughScalesOfTensorsAndOfAxes) {
  for (const bool per_axis : {false, true}) {
    TestGraph g;
    auto x = g.conv(g.input("x", {-1, 3, 6, 6}), 3, 6);
    const auto scale = per_axis ? g.positive({6}) : g.tensor(at::scalar_tensor(0.05, at::kDouble));
    const auto zero = g.tensor(per_axis ? at::zeros({6}, at::kChar) : at::zeros({}, at::kChar));
    x = g.node("QuantizeLinear", {x, scale, zero}, {{"axis", int64_t{1}}});
    x = g.node("DequantizeLinear", {x, scale, zero}, {{"axis", int64_t{1}}});
    const auto outcome = expect_removed_equals_masked(g.finish(g.conv(x, 6, 2)));
    EXPECT_EQ(outcome.removable, 6) << per_axis;
  }
}

// The file says what an unknown operator makes: everything after it can be seen, and cut.
TEST(RemoveAround, AnUnknownOperatorOfAStatedType) {
  TestGraph g;
  const auto odd = g.node("FancyNewOperator", {g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 6))});
  Graph graph = g.finish(g.conv(g.relu(g.conv(odd, 6, 4)), 4, 2));
  EXPECT_NE(reason_of(graph, "Conv3"), "prunable");
  graph.stated[odd] = {.name = odd, .dtype = at::kDouble, .dims = std::vector<Dim>{{-1, "N"}, {6}, {4}, {4}}};
  EXPECT_EQ(reason_of(graph, "Conv3"), "prunable");
  EXPECT_NE(reason_of(graph, "Conv0").find("FancyNewOperator"), std::string::npos);
}

}  // namespace
}  // namespace pare
