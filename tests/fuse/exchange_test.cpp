// Copies whose channels were put into another order by hand: under norms of layers and groups, in the groups of
// convolutions, and in the heads of attention.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "pare/fuse/fuse.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

at::Tensor order(const Ints& from) { return at::tensor(from, at::kLong); }

// The tensor with entry i along the axis taken from from[i].
void reorder(Graph& graph, const std::string& name, int64_t axis, const Ints& from) {
  graph.tensors[name] = graph.tensor(name).index_select(axis, order(from));
}

double difference(const Graph& a, const Graph& b) {
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(a, 2, 9);
  return (forward(a, inputs).outputs[0] - forward(b, inputs).outputs[0]).abs().max().item<double>();
}

// The copy computes the same with other weights; fused, the graph comes back to the last bit.
void expect_fuses(const Graph& graph, const Graph& copy, const std::vector<std::string>& moved) {
  EXPECT_LE(difference(graph, copy), 1e-10);
  for (const std::string& name : moved) EXPECT_FALSE(at::equal(graph.tensor(name), copy.tensor(name))) << name;
  for (const std::string method : {"ot", "rebasin", "hungarian", "greedy"}) {
    FuseOptions options;
    options.method = method;
    const Graph fused = fuse({graph, copy}, options).fused;
    for (const auto& [name, tensor] : graph.tensors)
      EXPECT_TRUE(at::equal(fused.tensor(name), tensor)) << method << " " << name;
  }
}

TEST(Exchange, AStreamUnderALayerNorm) {
  TestGraph g;
  const auto x = g.input("x", {-1, 5, 4});
  const auto stream = g.node("MatMul", {x, g.random({4, 6})});                               // t0
  const auto norm = g.node("LayerNormalization", {stream, g.positive({6}), g.random({6})});  // t1, t2
  const auto inner = g.relu(g.node("MatMul", {norm, g.random({6, 7})}));                     // t3
  const auto sum = g.node("Add", {stream, g.node("MatMul", {inner, g.random({7, 6})})});     // t4
  const auto last = g.node("LayerNormalization", {sum, g.positive({6}), g.random({6})});     // t5, t6
  const Graph graph = g.finish(g.node("MatMul", {last, g.random({6, 3})}));                  // t7
  Graph copy = graph;
  const Ints p = {4, 0, 5, 2, 1, 3};
  for (const std::string name : {"t1", "t2", "t3", "t5", "t6", "t7"}) reorder(copy, name, 0, p);
  for (const std::string name : {"t0", "t4"}) reorder(copy, name, 1, p);
  expect_fuses(graph, copy, {"t0", "t1", "t3", "t4", "t7"});
}

TEST(Exchange, GroupsOfAGroupNormAndChannelsInThem) {
  TestGraph g;
  const auto x = g.input("x", {-1, 2, 5, 5});
  const auto a = g.conv(x, 2, 6);  // t0, t1
  const auto norm = g.node("GroupNormalization", {a, g.positive({6}), g.random({6})}, {{"num_groups", int64_t{3}}});
  const Graph graph = g.finish(g.conv(g.relu(norm), 6, 3));  // t4, t5
  Graph copy = graph;
  const Ints p = {5, 4, 0, 1, 3, 2};  // groups 2, 0, 1, turned round or not
  for (const std::string name : {"t0", "t1", "t2", "t3"}) reorder(copy, name, 0, p);
  reorder(copy, "t4", 1, p);
  expect_fuses(graph, copy, {"t0", "t1", "t2", "t3", "t4"});
}

TEST(Exchange, GroupsOfAConvolutionAndChannelsInThem) {
  TestGraph g;
  const auto x = g.input("x", {-1, 2, 5, 5});
  const auto a = g.relu(g.conv(x, 2, 6, 1));            // t0, t1
  const auto grouped = g.relu(g.conv(a, 6, 4, 3, 2));   // t2 [4, 3, 3, 3], t3
  const Graph graph = g.finish(g.conv(grouped, 4, 3));  // t4, t5
  Graph copy = graph;
  const Ints in = {4, 3, 5, 1, 2, 0};  // groups change places, and each has an order of its own
  const Ints out = {3, 2, 0, 1};
  for (const std::string name : {"t0", "t1"}) reorder(copy, name, 0, in);
  reorder(copy, "t2", 0, out);
  const at::Tensor w = copy.tensor("t2");
  copy.tensors["t2"] = at::cat(
      {w.narrow(0, 0, 2).index_select(1, order({1, 0, 2})), w.narrow(0, 2, 2).index_select(1, order({1, 2, 0}))});
  reorder(copy, "t3", 0, out);
  reorder(copy, "t4", 1, out);
  expect_fuses(graph, copy, {"t0", "t2", "t3", "t4"});
}

TEST(Exchange, GroupsThatReadTheInputStayAndTheirChannelsMove) {
  TestGraph g;
  const auto x = g.input("x", {-1, 4, 5, 5});
  const auto grouped = g.relu(g.conv(x, 4, 6, 3, 2));   // t0, t1
  const Graph graph = g.finish(g.conv(grouped, 6, 3));  // t2, t3
  Graph copy = graph;
  const Ints p = {2, 0, 1, 3, 5, 4};
  for (const std::string name : {"t0", "t1"}) reorder(copy, name, 0, p);
  reorder(copy, "t2", 1, p);
  expect_fuses(graph, copy, {"t0", "t1", "t2"});
}

// Heads change places, and inside each queries and keys have one order, values another.
TEST(Exchange, HeadsAndTheOrderInThem) {
  constexpr int64_t kHeads = 3, kEach = 2, kWidth = kHeads * kEach;
  TestGraph g;
  const auto x = g.input("x", {-1, 5, 4});
  const auto heads = [&](const std::string& value, const Ints& perm) {
    return g.node("Transpose", {g.node("Reshape", {value, g.integers({0, 5, kHeads, kEach})})}, {{"perm", perm}});
  };
  const auto q = g.node("Add", {g.node("MatMul", {x, g.random({4, kWidth})}), g.random({kWidth})});  // t0, t1
  const auto k = g.node("MatMul", {x, g.random({4, kWidth})});                                       // t2
  const auto v = g.node("MatMul", {x, g.random({4, kWidth})});                                       // t3
  const auto scores = g.node("MatMul", {heads(q, {0, 2, 1, 3}), heads(k, {0, 2, 3, 1})});
  const auto mixed = g.node("MatMul", {g.node("Softmax", {scores}), heads(v, {0, 2, 1, 3})});
  const auto back =
      g.node("Reshape", {g.node("Transpose", {mixed}, {{"perm", Ints{0, 2, 1, 3}}}), g.integers({0, 5, kWidth})});
  const std::string out = g.random({kWidth, 3});
  const Graph graph = g.finish(g.node("MatMul", {back, out}));
  Graph copy = graph;
  const Ints queries = {4, 5, 1, 0, 3, 2};
  const Ints values = {5, 4, 0, 1, 3, 2};
  for (const std::string name : {"t0", "t2"}) reorder(copy, name, 1, queries);
  reorder(copy, "t1", 0, queries);
  reorder(copy, "t3", 1, values);
  reorder(copy, out, 0, values);
  expect_fuses(graph, copy, {"t0", "t1", "t2", "t3", out});
}

// A stream under a layer norm may be moved, but with another width it is another function.
TEST(Exchange, KeptChannelsNeedTheirNumber) {
  const auto net = [](int64_t width) {
    TestGraph g;
    const auto a = g.node("MatMul", {g.input("x", {-1, 4}), g.random({4, width})});
    const auto norm = g.node("LayerNormalization", {a, g.positive({width}), g.random({width})});
    return g.finish(g.node("MatMul", {norm, g.random({width, 3})}));
  };
  try {
    fuse({net(6), net(5)}, {});
    FAIL() << "fused streams of 6 and 5 channels";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::shape);
    EXPECT_NE(std::string(error.what()).find("mixes all channels"), std::string::npos) << error.what();
  }
}

// Groups as wide as the widths let them be; the number of groups has to be the same.
TEST(Exchange, GroupsOfOtherWidthsFuse) {
  const auto net = [](int64_t width, int64_t groups) {
    TestGraph g(static_cast<uint64_t>(width));
    const auto a = g.relu(g.conv(g.input("x", {-1, 2, 5, 5}), 2, width, 1));
    return g.finish(g.conv(g.relu(g.conv(a, width, width, 3, groups)), width, 3));
  };
  for (const std::string method : {"ot", "rebasin", "hungarian", "average"}) {
    FuseOptions options;
    options.method = method;
    const Graph fused = fuse({net(8, 2), net(4, 2)}, options).fused;
    EXPECT_TRUE(forward(fused, random_inputs(fused, 2, 1)).outputs[0].isfinite().all().item<bool>()) << method;
  }
  // Sent to twice the width and back, nothing is lost.
  FuseOptions options;
  options.reference = 1;
  options.weights = {1, 0};
  const Graph widened = fuse({net(4, 2), net(8, 2)}, options).fused;
  EXPECT_LE(difference(net(4, 2), widened), 1e-10);
  EXPECT_THROW(fuse({net(8, 2), net(8, 4)}, {}), Error);
}

}  // namespace
}  // namespace pare
