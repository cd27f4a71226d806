// Sequential reconstruction: exact where the removed channels are functions of the kept ones, least squares elsewhere,
// and the same in whatever pieces the samples come.
#include "pare/layerwise/refit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/offset_places.h"
#include "pare/passes/remove_channels.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  Graph graph;
  ChannelMap map;
  std::set<ChannelId> removed;
  Graph pruned;
};

Case cut(const Graph& given, const std::function<bool(const ChannelGroup&)>& which) {
  const Graph graph = with_offset_places(given);
  Case c{graph, analyze_channels(graph), {}, {}};
  for (const auto& group : c.map.groups)
    if (which(group))
      c.removed.insert(group.channels.begin() + static_cast<int64_t>(group.channels.size() / 2), group.channels.end());
  c.pruned = remove_channels(graph, c.map, c.removed);
  return c;
}

// Removes the second half of the channels of the first group.
Case halved(const Graph& graph) {
  bool first = true;
  return cut(graph, [&](const ChannelGroup&) { return std::exchange(first, false); });
}

Refitted refitted(const Case& c, const std::vector<at::Tensor>& inputs, const RefitOptions& options,
                  bool choose = false) {
  Observer nobody;
  auto cuts = cuts_of(c.map, c.removed);
  for (auto& cut : cuts) cut.choose = choose;
  Refitted result = refit(c.graph, c.map, cuts, samples_of(inputs), options, nobody);
  result.graph = without_zero_offsets(result.graph);
  verify(result.graph);
  return result;
}

double difference(const Graph& a, const Graph& b, const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_grad;
  return (forward(a, inputs).outputs[0] - forward(b, inputs).outputs[0]).abs().max().item<double>();
}

// In each of `parts` parts of the tensor the second half are copies of the first.
void repeat(Graph& graph, const std::string& name, int64_t parts) {
  at::Tensor t = graph.tensors[name].clone();
  for (const at::Tensor& part : t.chunk(parts)) {
    const int64_t half = part.size(0) / 2;
    part.narrow(0, half, half).copy_(part.narrow(0, 0, half).clone());
  }
  graph.tensors[name] = t;
}

// A first layer of 8 channels, then the layer under test.
struct Kind {
  std::string name;
  std::function<std::string(TestGraph&, const std::string&)> layer;
  int64_t groups = 1;
};

std::vector<Kind> kinds() {
  return {
      {"convolution",
       [](TestGraph& g, const std::string& a) {
         return g.node("Conv", {a, g.random({6, 8, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}});
       }},
      {"strided and dilated",
       [](TestGraph& g, const std::string& a) {
         return g.node("Conv", {a, g.random({6, 8, 2, 2})}, {{"strides", Ints{2, 1}}, {"dilations", Ints{1, 2}}});
       }},
      {"grouped",
       [](TestGraph& g, const std::string& a) {
         return g.node("Conv", {a, g.random({6, 4, 3, 3})}, {{"group", int64_t{2}}});
       },
       2},
      {"transposed",
       [](TestGraph& g, const std::string& a) {
         return g.node("ConvTranspose", {a, g.random({8, 5, 2, 2})}, {{"strides", Ints{2, 2}}});
       }},
      {"flattened",
       [](TestGraph& g, const std::string& a) {
         return g.linear(g.node("Flatten", {a}, {{"axis", int64_t{1}}}), 8 * 64, 4);
       }},
      {"averaged",
       [](TestGraph& g, const std::string& a) {
         return g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {a})}, {{"axis", int64_t{1}}}), 8, 4);
       }},
      {"matrix product",
       [](TestGraph& g, const std::string& a) {
         return g.node("MatMul", {g.node("Transpose", {a}, {{"perm", Ints{0, 2, 3, 1}}}), g.random({8, 5})});
       }},
  };
}

Graph with_first_layer(const Kind& kind) {
  TestGraph g(1);
  const auto x = g.input("x", {-1, 3, 8, 8});
  const auto a = g.relu(g.node("Conv", {x, g.random({8, 3, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}}));
  return g.finish(kind.layer(g, a));
}

RefitOptions exact(double ridge) { return {.solve = {.ridge = ridge, .choices = {}}, .read = {.places = 1 << 30}}; }

TEST(Refit, EveryKindOfLayerIsTheLeastSquaresSolution) {
  const at::NoGradGuard no_grad;
  for (const Kind& kind : kinds()) {
    const Case c = halved(with_first_layer(kind));
    const auto inputs = random_inputs(c.graph, 40, 3);
    const Refitted result = refitted(c, inputs, exact(1e-12));
    const Graph& graph = result.graph;
    ASSERT_EQ(result.solved.size(), 1u) << kind.name;
    // No other weights and bias give a smaller residual on these images: the residual is at right angles to the rows.
    RunOptions run;
    size_t node = 0;
    std::optional<LinearLayer> layer;
    for (size_t n = 1; n < graph.nodes.size(); ++n)
      if (const auto found = layer_of(graph, n)) layer = found, node = n;
    ASSERT_TRUE(layer) << kind.name;
    run.taps = {graph.nodes[node].inputs[0]};
    const RunResult own = forward(graph, inputs, run);
    const at::Tensor lost = forward(c.graph, inputs).outputs[0] - own.outputs[0];
    if (kind.name == "averaged") {  // solved on the places, so the means alone need not be best
      EXPECT_LT(lost.mean(0).abs().max().item<double>(), 1e-3);
      continue;
    }
    const at::Tensor places = sampled_places(places_of(*layer, lost), 1 << 30, 0, lost.size(0), 0);
    const at::Tensor h = input_rows(graph, *layer, own.tapped.begin()->second, places).to(at::kDouble);
    const at::Tensor r = output_rows(*layer, lost, places).to(at::kDouble);
    const auto rows = static_cast<double>(r.size(1));
    const at::Tensor product = at::bmm((h - h.mean(1, true)).transpose(1, 2), r) / rows;
    EXPECT_LT(product.abs().max().item<double>(), 2e-3 * h.abs().max().item<double>()) << kind.name;
    EXPECT_LT(r.mean(1).abs().max().item<double>(), 1e-3) << kind.name;
    EXPECT_LT(
        lost.square().sum().item<double>(),
        (forward(c.graph, inputs).outputs[0] - forward(c.pruned, inputs).outputs[0]).square().sum().item<double>())
        << kind.name;
  }
}

TEST(Refit, RepeatedChannelsCostNothing) {
  for (const Kind& kind : kinds()) {
    Graph graph = with_first_layer(kind);
    repeat(graph, graph.nodes[0].inputs[1], kind.groups);
    const Case c = halved(graph);
    const auto inputs = random_inputs(graph, 40, 3);
    EXPECT_LT(difference(graph, refitted(c, inputs, exact(1e-9)).graph, inputs), 2e-3) << kind.name;
  }
}

// Two blocks with shortcuts, all of whose inner channels are halved.
Graph residual_network() {
  TestGraph g(4);
  auto x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 8));
  for (int block = 0; block < 2; ++block) {
    const auto inner = g.relu(g.batch_norm(g.conv(x, 8, 12), 12));
    x = g.relu(g.node("Add", {g.batch_norm(g.conv(inner, 12, 8), 8), x}));
  }
  return g.finish(g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {x})}, {{"axis", int64_t{1}}}), 8, 4));
}

Case inner_halved(const Graph& graph) {
  return cut(graph, [](const ChannelGroup& group) { return group.channels.size() == 12; });
}

TEST(Refit, IsTheSameInPiecesAndWithLittleMemory) {
  const Case c = inner_halved(residual_network());
  ASSERT_EQ(c.removed.size(), 12u);
  const auto inputs = random_inputs(c.graph, 64, 3);
  RefitOptions options{.read = {.places = 20}};
  options.side_by_side.piece = 64;
  const Graph whole = refitted(c, inputs, options).graph;
  for (const int64_t piece : {1, 7, 64})
    for (const int64_t memory : {int64_t{0}, int64_t{20000}, int64_t{1} << 30}) {
      options.side_by_side = {.piece = piece, .memory = memory};
      EXPECT_LT(difference(whole, refitted(c, inputs, options).graph, inputs), 1e-4) << piece << " " << memory;
    }
}

TEST(Refit, LosesLessThanPlainRemoval) {
  const Case c = inner_halved(residual_network());
  const auto inputs = random_inputs(c.graph, 200, 3), others = random_inputs(c.graph, 100, 8);
  const auto lost = [&](const Graph& graph) {
    const at::NoGradGuard no_grad;
    return (forward(c.graph, others).outputs[0] - forward(graph, others).outputs[0]).square().mean().item<double>();
  };
  EXPECT_LT(lost(refitted(c, inputs, {}).graph), 0.5 * lost(c.pruned));
}

// Channels that are copies of others are the ones that go where the layer that reads them chooses.
TEST(Refit, TheReaderChoosesWhatCostsNothing) {
  const Kind kind = kinds()[0];
  Graph graph = with_first_layer(kind);
  repeat(graph, graph.nodes[0].inputs[1], 1);  // channel i + 4 is channel i
  const Case c = halved(graph);
  const auto inputs = random_inputs(graph, 40, 3);
  const Refitted chosen = refitted(c, inputs, exact(1e-9), /*choose=*/true);
  ASSERT_EQ(chosen.removed.size(), 4u);
  std::set<size_t> pairs;
  const auto& channels = c.map.groups[0].channels;
  for (size_t i = 0; i < channels.size(); ++i)
    if (chosen.removed.contains(channels[i])) pairs.insert(i % 4);
  EXPECT_EQ(pairs.size(), 4u);  // one of each pair
  EXPECT_LT(difference(graph, chosen.graph, inputs), 2e-3);
}

// Two layers read the same channels, each only one half of them: by either alone the other's half would go.
TEST(Refit, SeveralReadersChooseTogether) {
  TestGraph g(7);
  const auto x = g.input("x", {-1, 3, 8, 8});
  const auto first = g.random({8, 3, 3, 3}), small = g.random({5, 8, 1, 1}), large = g.random({6, 8, 3, 3});
  const auto a = g.relu(g.node("Conv", {x, first}, {{"pads", Ints{1, 1, 1, 1}}}));
  const auto b = g.relu(g.node("Conv", {a, small}));
  const auto c = g.relu(g.node("Conv", {a, large}, {{"pads", Ints{1, 1, 1, 1}}}));
  Graph graph = g.finish(g.node("Concat", {b, c}, {{"axis", int64_t{1}}}));
  graph.tensors[small].narrow(1, 4, 4).zero_();
  graph.tensors[large].narrow(1, 0, 4).zero_();
  const at::Tensor filters = graph.tensors[first].clone();
  for (int64_t i = 0; i < 8; i += 2) filters[i + 1].copy_(filters[i]);
  graph.tensors[first] = filters;
  const Case cut = halved(graph);  // the second half: not what costs nothing
  const auto inputs = random_inputs(graph, 40, 3);
  const Refitted chosen = refitted(cut, inputs, exact(1e-9), /*choose=*/true);
  ASSERT_EQ(chosen.removed.size(), 4u);
  std::set<size_t> pairs;
  const auto& channels = cut.map.groups[0].channels;
  for (size_t i = 0; i < channels.size(); ++i)
    if (chosen.removed.contains(channels[i])) pairs.insert(i / 2);
  EXPECT_EQ(pairs.size(), 4u);  // one of each pair
  EXPECT_LT(difference(graph, chosen.graph, inputs), 2e-3);
}

// What moves the mean of a layer without a bias loses the channels that its layer loses.
TEST(Refit, LayersWithoutABiasAreCutWithTheOneTheyGet) {
  TestGraph g(11);
  const auto conv = [&](const std::string& x, int64_t in, int64_t out) {
    return g.node("Conv", {x, g.random({out, in, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}});
  };
  const auto first = g.relu(conv(g.input("x", {-1, 2, 6, 6}), 2, 6));
  const auto second = g.relu(conv(first, 6, 8));
  const auto flat = g.node("Flatten", {g.node("GlobalAveragePool", {conv(second, 8, 4)})});
  const Graph graph = g.finish(g.node("Gemm", {flat, g.random({4, 3})}));
  const Case c = cut(graph, [](const ChannelGroup& group) { return group.reason.empty(); });
  const auto inputs = random_inputs(graph, 20, 5);
  const Refitted result = refitted(c, inputs, {});
  EXPECT_LT(difference(result.graph, graph, inputs), difference(c.pruned, graph, inputs));
  EXPECT_EQ(result.graph.tensor(result.graph.nodes[2].inputs.at(2)).numel(), 4);  // of the second layer's 8
}

// Two layers read one average, and others come between them.
// Of a layer that an activation follows, and of which there are many rows, no more than `activated_ridge` is asked
// whatever the choices are.
TEST(Refit, ActivatedLayersOfManyRowsHaveLittleRidge) {
  const auto largest_change = [](bool activated, int64_t samples) {
    TestGraph g(9);
    const auto a = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 8));
    const auto b = g.conv(a, 8, 6);
    const Case c = halved(g.finish(activated ? g.relu(b) : b));
    const std::vector<at::Tensor> inputs = {at::randn({samples, 3, 6, 6}, at::kDouble)};
    const auto with = [&](const SolveOptions& solve) { return refitted(c, inputs, {.solve = solve}).graph; };
    return difference(with({.choices = {1}}), with({.ridge = 1e-2, .choices = {}}), inputs);
  };
  EXPECT_EQ(largest_change(true, 60), 0);
  EXPECT_GT(largest_change(false, 60), 1e-3);
  EXPECT_GT(largest_change(true, 5), 1e-3);
}

TEST(Refit, AnAverageIsReadAgainLongAfter) {
  TestGraph g;
  const auto flat =
      g.node("Flatten", {g.node("GlobalAveragePool", {g.relu(g.conv(g.input("x", {-1, 2, 6, 6}), 2, 8))})});
  const auto deep = g.linear(g.relu(g.linear(flat, 8, 6)), 6, 3);
  const Graph graph = g.finish(g.node("Add", {deep, g.linear(flat, 8, 3)}));
  const auto inputs = random_inputs(graph, 40, 5);
  const Case c = halved(graph);
  for (const bool choose : {false, true}) {
    const Refitted result = refitted(c, inputs, {}, choose);
    EXPECT_EQ(result.solved.size(), 3u);
    EXPECT_LT(difference(result.graph, graph, inputs), 0.7 * difference(c.pruned, graph, inputs));
  }
}

// A layer whose moments take more memory than there is loses its channels all the same, and it is said.
TEST(Refit, WhatIsTooLargeIsOnlyCut) {
  const Case c = halved(with_first_layer(kinds()[0]));
  const auto inputs = random_inputs(c.graph, 8, 3);
  RefitOptions options;
  options.moments = 800;  // bytes: of ten unknowns
  const Refitted result = refitted(c, inputs, options);
  EXPECT_TRUE(result.solved.empty());
  ASSERT_EQ(result.left.size(), 1u);
  EXPECT_LT(difference(c.pruned, result.graph, inputs), 1e-6);
}

}  // namespace
}  // namespace pare
