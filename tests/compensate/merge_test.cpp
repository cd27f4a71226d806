// Folding Z and c into the readers: the pruned graph gives what the original gives when every channel a of a group is
// replaced by Z a_kept + c where its readers read it.
#include "pare/compensate/merge.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;

// `value` is what the readers read, its channels on axis 1 with `places` entries each (1, or H·W after Flatten).
void expect_folded(const Graph& graph, const std::string& value, int64_t places, bool offset) {
  const at::NoGradGuard no_grad;
  const ChannelMap map = analyze_channels(graph);
  const ChannelGroup& group = map.groups[0];
  std::set<ChannelId> removed;
  for (size_t i = 0; i < group.channels.size(); i += 2) removed.insert(group.channels[i]);
  const MergeProblem problem = merge_problem(graph, map, group, removed);
  const int64_t n = static_cast<int64_t>(group.channels.size());
  Merge merge{.Z = identity_merge(problem)};
  merge.Z += at::randn_like(merge.Z) * 0.3;
  if (offset) merge.c = at::randn({n}, at::kDouble);
  const Graph pruned = remove_and_merge(graph, map, removed, {{0, merge}});
  verify(pruned);
  const auto inputs = random_inputs(graph, 3, 11);
  RunOptions options;
  options.transform = [&](const std::string& name, const at::Tensor& x) {
    if (name != value) return x;
    const at::Tensor a = x.dim() == 2 ? x.reshape({x.size(0), -1, places}) : x;
    // A channel may lie in several parts of the axis (groups): each part is replaced alike.
    std::vector<at::Tensor> parts;
    for (const auto& part : a.split(n, 1)) {
      const at::Tensor kept = part.index_select(1, at::tensor(problem.kept, at::kLong));
      at::Tensor replaced = at::tensordot(kept, merge.Z, {1}, {1}).movedim(-1, 1);
      if (offset) {
        Ints dims(static_cast<size_t>(replaced.dim()), 1);
        dims[1] = n;
        replaced = replaced + merge.c.reshape(dims);
      }
      parts.push_back(replaced);
    }
    return at::cat(parts, 1).reshape_as(x);
  };
  const at::Tensor expected = forward(graph, inputs, options).outputs[0];
  const at::Tensor found = forward(pruned, inputs).outputs[0];
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-9);
  EXPECT_GT((forward(graph, inputs).outputs[0] - expected).abs().max().item<double>(), 1e-3);
}

TEST(RemoveAndMerge, Linear) {
  TestGraph g(1);
  const auto a = g.relu(g.linear(g.input("x", {-1, 5}), 5, 6));
  const Graph graph = g.finish(g.linear(a, 6, 3));
  expect_folded(graph, a, 1, true);
}

TEST(RemoveAndMerge, ConvolutionWithPadding) {
  TestGraph g(2);
  const auto a = g.relu(g.batch_norm(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 6), 6));
  const Graph graph = g.finish(g.conv(a, 6, 4));
  expect_folded(graph, a, 1, false);  // an offset is exact only away from the zeros of the border
}

TEST(RemoveAndMerge, OffsetWithoutPaddingGoesIntoTheBatchNorm) {
  TestGraph g(3);
  const auto a = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 6));
  const auto y = g.node("Conv", {a, g.random({4, 6, 3, 3})});  // no bias
  const Graph graph = g.finish(g.batch_norm(y, 4));
  expect_folded(graph, a, 1, true);
  TestGraph h(3);
  const auto b = h.relu(h.conv(h.input("x", {-1, 3, 6, 6}), 3, 6));
  const Graph bare = h.finish(h.node("Conv", {b, h.random({4, 6, 3, 3})}));  // neither bias nor batch norm
  expect_folded(bare, b, 1, true);
}

TEST(RemoveAndMerge, FlattenedChannels) {
  TestGraph g(4);
  const auto a = g.relu(g.conv(g.input("x", {-1, 3, 4, 4}), 3, 6));
  const auto flat = g.node("Flatten", {a}, {{"axis", int64_t{1}}});
  const Graph graph = g.finish(g.linear(flat, 6 * 16, 5));
  expect_folded(graph, flat, 16, true);
}

TEST(RemoveAndMerge, GroupedReader) {
  TestGraph g(5);
  const auto a = g.relu(g.conv(g.input("x", {-1, 3, 6, 6}), 3, 12));
  const Graph graph = g.finish(g.conv(a, 12, 4, 3, 2));
  expect_folded(graph, a, 1, false);
}

TEST(RemoveAndMerge, MatrixProductWithoutBias) {
  TestGraph g(6);
  const auto a = g.relu(g.node("MatMul", {g.input("x", {-1, 4, 5}), g.random({5, 6})}));
  const Graph graph = g.finish(g.relu(g.node("MatMul", {a, g.random({6, 3})})));
  const at::NoGradGuard no_grad;
  const ChannelMap map = analyze_channels(graph);
  ASSERT_TRUE(map.groups[0].prunable());
  const std::set<ChannelId> removed = {map.groups[0].channels[1]};
  const MergeProblem problem = merge_problem(graph, map, map.groups[0], removed);
  Merge merge{.Z = identity_merge(problem), .c = at::ones({6}, at::kDouble)};
  const auto inputs = random_inputs(graph, 2, 1);
  const at::Tensor found = forward(remove_and_merge(graph, map, removed, {{0, merge}}), inputs).outputs[0];
  RunOptions options;
  options.transform = [&](const std::string& name, const at::Tensor& x) {
    return name == a ? x * keep_mask(map, a, removed) + 1 : x;
  };
  EXPECT_LE((found - forward(graph, inputs, options).outputs[0]).abs().max().item<double>(), 1e-9);
}

}  // namespace
}  // namespace pare
