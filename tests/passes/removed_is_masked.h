// The oracle of channel labels: a graph with channels removed equals the same graph with those channels masked to zero
// in every value, to rounding error in double precision.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/analysis/cost.h"
#include "pare/passes/remove_channels.h"
#include "pare/run.h"

namespace pare {

// Every second, then every third removable channel of each group, but never all of them.
inline std::set<ChannelId> choose(const ChannelMap& map, size_t step) {
  std::set<ChannelId> removed;
  for (const auto& group : map.groups) {
    std::vector<ChannelId> free;
    for (const ChannelId id : group.channels)
      if (!map.sets.frozen(static_cast<int64_t>(id))) free.push_back(id);
    for (size_t i = step - 1; i < free.size(); i += step)
      if (group.frozen > 0 || i != 0 || free.size() > 1) removed.insert(free[i]);
  }
  return removed;
}

inline std::vector<at::Tensor> masked_outputs(const Graph& graph, const ChannelMap& map,
                                              const std::set<ChannelId>& removed,
                                              const std::vector<at::Tensor>& inputs) {
  RunOptions options;
  options.transform = [&](const std::string& value, const at::Tensor& x) {
    const at::Tensor keep = keep_mask(map, value, removed);
    return keep.defined() ? x * keep.to(x.scalar_type()) : x;
  };
  return forward(graph, inputs, options).outputs;
}

struct Outcome {
  size_t groups = 0;
  size_t removable = 0;  // channels
  int64_t before = 0;    // parameters
  int64_t after = 0;
};

inline Outcome expect_removed_equals_masked(const Graph& original, ChannelUse use = ChannelUse::removal) {
  const at::NoGradGuard no_grad;
  const Graph graph = cast(original, at::kDouble);
  const ChannelMap map = analyze_channels(graph, {}, use);
  const auto inputs = random_inputs(graph, 2, 7);
  Outcome outcome;
  for (const auto& group : map.groups) {
    outcome.groups += group.prunable() ? 1 : 0;
    outcome.removable += group.channels.size() - group.frozen;
  }
  outcome.before = cost_of(graph).parameters;
  for (const size_t step : {2, 3}) {
    const auto removed = choose(map, step);
    const Graph slim = remove_channels(graph, map, removed);
    verify(slim);
    const auto expected = masked_outputs(graph, map, removed, inputs);
    const auto found = forward(slim, inputs).outputs;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].sizes(), expected[i].sizes());
      const double scale = expected[i].abs().max().item<double>();
      EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), 1e-12 * std::max(1.0, scale));
      EXPECT_GT(scale, 0);
    }
    if (step == 2) outcome.after = cost_of(slim).parameters;
    // Masking must matter, or the comparison above says nothing.
    if (!removed.empty()) {
      EXPECT_GT((forward(graph, inputs).outputs[0] - expected[0]).abs().max().item<double>(), 1e-6);
    }
  }
  return outcome;
}

inline std::string reason_of(const Graph& graph, const std::string& node) {
  for (const auto& group : analyze_channels(graph).groups)
    if (group.name == node) return group.prunable() ? "prunable" : group.reason;
  return "no such group";
}

}  // namespace pare
