// What must hold for any graph: removed channels are masked ones, and a file says what was written into it.
//   PARE_RANDOM_GRAPHS   how many (200)
//   PARE_RANDOM_SEED     the first seed (1)
//   PARE_RANDOM_OUT      a directory for each graph with its input and outputs, which ONNX Runtime is to compute, too
//                        (tests/peers/random_graphs.sh)
#include "random/random_graph.h"
#include "random/outputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "pare/analysis/channels.h"
#include "pare/data/random.h"
#include "pare/error.h"
#include "pare/io/npy.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/write.h"
#include "pare/passes/remove_channels.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"

namespace pare {
namespace {

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// How far rounding of the input alone moves the outputs: where that is much, no two programs need agree.
bool well_conditioned(const Graph& graph, const Outputs& inputs, const Outputs& outputs) {
  const Graph exact = cast(graph, at::kDouble);
  const at::Tensor x = inputs[0].to(at::kDouble);
  const Outputs near = forward(exact, {{x}}).outputs, moved = forward(exact, {{x * (1 + 3e-7)}}).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const double scale = std::max(1e-30, near[i].abs().max().item<double>());
    const double apart = std::max((moved[i] - near[i]).abs().max().item<double>(),
                                  (outputs[i].to(at::kDouble) - near[i]).abs().max().item<double>());
    if (apart > 1e-5 * scale) return false;
  }
  return true;
}

// Some channels of every group, never all of them.
std::set<ChannelId> some_channels(const ChannelMap& map, Random& random) {
  std::set<ChannelId> removed;
  for (const auto& group : map.groups) {
    std::vector<ChannelId> free;
    for (const ChannelId id : group.channels)
      if (!map.sets.frozen(static_cast<int64_t>(id))) free.push_back(id);
    for (size_t i = group.frozen > 0 ? 0 : 1; i < free.size(); ++i)
      if (random.below(3) == 0) removed.insert(free[i]);
  }
  return removed;
}

// Returns whether there was anything to remove.
bool check_removed_is_masked(const Graph& original, uint64_t seed, ChannelUse use = ChannelUse::removal) {
  const Graph graph = cast(original, at::kDouble);
  const ChannelMap map = analyze_channels(graph, {}, use);
  Random random(seed);
  const auto removed = some_channels(map, random);
  if (removed.empty()) return false;
  Graph slim;
  try {
    slim = remove_channels(graph, map, removed);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::shape) return false;  // nothing would be left of a part of the channels
    throw;
  }
  verify(slim);
  const auto inputs = random_inputs(graph, 2, seed);
  RunOptions masking;
  masking.transform = [&](const std::string& value, const at::Tensor& x) {
    const at::Tensor keep = keep_mask(map, value, removed);
    return keep.defined() ? x * keep.to(x.scalar_type()) : x;
  };
  expect_near(forward(slim, inputs).outputs, forward(graph, inputs, masking).outputs, 1e-10, "removed, masked");
  return true;
}

void store(const std::string& directory, uint64_t seed, const Graph& graph, const Outputs& inputs,
           const Outputs& outputs, int64_t opset) {
  const std::string base = directory + "/" + std::to_string(seed);
  write_onnx(graph, base + ".onnx", {.opset = opset});
  write_npy(base + ".in.npy", inputs[0]);
  for (size_t i = 0; i < outputs.size(); ++i) write_npy(base + ".out" + std::to_string(i) + ".npy", outputs[i]);
}

TEST(RandomGraphs, HoldWhatMustHold) {
  const at::NoGradGuard no_grad;
  const uint64_t first = number("PARE_RANDOM_SEED", 1), count = number("PARE_RANDOM_GRAPHS", 200);
  const char* directory = std::getenv("PARE_RANDOM_OUT");
  uint64_t pruned = 0, nodes = 0, unstable = 0;
  std::map<std::string, int> operators;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      const Graph graph = random_graph(seed);
      const auto inputs = random_inputs(graph, 2, seed);
      const Outputs outputs = forward(graph, inputs).outputs;
      const int64_t opset = 11 + static_cast<int64_t>(seed % 11);
      const bool stable = well_conditioned(graph, inputs, outputs);
      unstable += stable ? 0 : 1;
      if (directory != nullptr && stable) store(directory, seed, graph, inputs, outputs, opset);
      const std::string bytes = to_onnx_bytes(graph, {.opset = opset});
      const Graph again = read_onnx_bytes(std::as_bytes(std::span(bytes)), "random");
      expect_near(forward(again, inputs).outputs, outputs, 1e-6, "read back");
      expect_near(forward(simplify(graph), inputs).outputs, outputs, 1e-5, "simplified");
      pruned += check_removed_is_masked(graph, seed) ? 1 : 0;
      check_removed_is_masked(graph, seed, ChannelUse::dimensions);
      nodes += graph.nodes.size();
      for (const auto& node : graph.nodes) ++operators[node.op];
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  std::cout << count << " graphs, " << nodes << " nodes of " << operators.size() << " operators, " << pruned
            << " pruned, " << unstable << " too sensitive to rounding to be compared\n";
  EXPECT_GE(pruned, count / 4);
}

}  // namespace
}  // namespace pare
