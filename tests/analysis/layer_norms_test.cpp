#include "pare/analysis/layer_norms.h"

#include <gtest/gtest.h>

#include "pare/analysis/channels.h"
#include "support/builder.h"

namespace pare {
namespace {

struct Written {
  bool by_product = false;  // Mul(d, d) instead of Pow(d, 2)
  bool scaled = true;
  double power = 2;
};

// A linear layer of 6 channels, a layer norm of them, another layer.
Graph with_norm(const Written& how, int64_t axis = -1) {
  TestGraph g(1);
  const auto number = [&](double value) { return g.tensor(at::scalar_tensor(value, at::kDouble)); };
  const auto mean_of = [&](const std::string& v) { return g.node("ReduceMean", {v, g.integers({axis})}); };
  const std::string x = g.node("MatMul", {g.input("x", {-1, 5, 4}), g.random({4, 6})});
  const std::string d = g.node("Sub", {x, mean_of(x)});
  const std::string squares = how.by_product ? g.node("Mul", {d, d}) : g.node("Pow", {d, number(how.power)});
  const std::string deviation = g.node("Sqrt", {g.node("Add", {mean_of(squares), number(1e-5)})});
  std::string y = g.node("Div", {d, deviation});
  if (how.scaled) y = g.node("Add", {g.node("Mul", {y, g.positive({6})}), g.random({6})});
  return g.finish(g.node("MatMul", {y, g.random({6, 3})}));
}

TEST(LayerNorms, AreFoundAsExportersWriteThem) {
  for (const Written& how : {Written{}, Written{.by_product = true}, Written{.scaled = false}}) {
    const Graph graph = with_norm(how);
    const auto found = find_layer_norms(graph);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(graph.nodes[found[0].mean].name, "ReduceMean1");
    EXPECT_EQ(graph.nodes[found[0].variance].op, "ReduceMean");
    EXPECT_EQ(graph.nodes[found[0].last].op, how.scaled ? "Add" : "Div");
  }
  EXPECT_TRUE(find_layer_norms(with_norm({.power = 3})).empty());
}

// Channels under one are kept, in any order, as under LayerNormalization, and the reason names it as a whole.
TEST(LayerNorms, KeepTheirChannelsAsOneNode) {
  const Graph graph = with_norm({});
  const ChannelMap map = analyze_channels(graph);
  EXPECT_EQ(map.groups[0].reason,
            "the layer norm from node 'ReduceMean1' (ReduceMean) to node 'Add9' (Add) mixes all channels");
  const ChannelMap exchange = analyze_channels(graph, {}, ChannelUse::exchange);
  const auto channel = static_cast<int64_t>(exchange.groups[0].channels[0]);
  EXPECT_TRUE(exchange.sets.frozen(channel));
  EXPECT_FALSE(exchange.sets.fixed(channel));
  EXPECT_TRUE(analyze_channels(with_norm({}, 1)).groups[0].prunable()) << "over another axis";
}

}  // namespace
}  // namespace pare
