// A copy of a graph with its channels in another order fuses with the graph into the graph, by optimal transport on
// weights and by weight matching: over random graphs with residual streams, concatenations, groups, norms and heads.
//   PARE_FULL          2,000 graphs instead of 200
//   PARE_RANDOM_SEED   the first seed (1)
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "pare/error.h"
#include "pare/fuse/fuse.h"
#include "pare/run.h"
#include "random/outputs.h"
#include "random/random_graph.h"
#include "random/random_order.h"

namespace pare {
namespace {

// Why channels may not be exchanged. Anything else is a channel that nobody thought of.
bool is_known(const std::string& reason) {
  for (const std::string part :
       {"it is the graph output", "groups of one layer share channels with several groups of another",
        "mixes all channels", "joins it with what has no channels", "joins it with channels that stay",
        "one channel covers a whole axis", "spreads it over other channels", "crosses two kinds of channels",
        "it is tied to a part that is not a channel", "picks from it by indices", "picks it alone",
        "picks from several of it", "copies or drops channels", "resizes along it", "reduces over it",
        "multiplies it by what has no channels", "its blocks are not known"})
    if (reason.find(part) != std::string::npos) return true;
  return false;
}

struct Counts {
  int64_t channels = 0, free = 0, moved = 0, fixed_beside_outputs = 0;
  std::map<std::string, int64_t> reordered_with;  // operators of graphs whose channels moved
};

void check(const Graph& graph, uint64_t seed, Counts& counts) {
  const Graph exact = cast(graph, at::kDouble);
  const Reordered copy = in_random_order(graph, seed);
  const auto inputs = random_inputs(exact, 2, seed);
  const Outputs expected = forward(exact, inputs).outputs;
  expect_near(forward(cast(copy.graph, at::kDouble), inputs).outputs, expected, 1e-9, "in another order");
  for (const std::string& reason : copy.reasons) {
    EXPECT_TRUE(is_known(reason)) << reason;
    counts.fixed_beside_outputs += reason.find("it is the graph output") == std::string::npos ? 1 : 0;
  }
  counts.channels += copy.channels;
  counts.free += copy.free;
  counts.moved += copy.moved;
  if (copy.moved > 0)
    for (const Node& node : graph.nodes) ++counts.reordered_with[node.op];
  for (const std::string method : {"ot", "rebasin"}) {
    FuseOptions options;
    options.method = method;
    const Graph fused = fuse({graph, copy.graph}, options).fused;
    expect_near(forward(cast(fused, at::kDouble), inputs).outputs, expected, 1e-5, method);
  }
}

TEST(PermutedCopies, FuseExactly) {
  const at::NoGradGuard no_grad;
  const char* first_seed = std::getenv("PARE_RANDOM_SEED");
  const uint64_t first = first_seed != nullptr ? std::strtoull(first_seed, nullptr, 10) : 1;
  const uint64_t count = std::getenv("PARE_FULL") != nullptr ? 2000 : 200;
  Counts counts;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      check(random_graph(seed), seed, counts);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  std::cout << count << " graphs: of " << counts.channels << " channels " << counts.free << " may be exchanged, "
            << counts.moved << " were; " << counts.fixed_beside_outputs << " are fixed beside outputs\n";
  EXPECT_GE(counts.moved, counts.channels * 2 / 5);
  for (const std::string op : {"LayerNormalization", "GroupNormalization", "Softmax", "Split", "ConvTranspose"})
    EXPECT_GE(counts.reordered_with[op], 5) << op;
}

}  // namespace
}  // namespace pare
