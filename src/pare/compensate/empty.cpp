#include "pare/compensate/empty.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <set>

#include "pare/compensate/merge.h"
#include "pare/prune/filters.h"
#include "pare/run.h"

namespace pare {

namespace {

struct Empty {
  std::set<ChannelId> removed;
  std::map<size_t, Merge> merges;
  int64_t unread = 0;
  int64_t constant = 0;
};

// True for the channels of the group that no reader gives any weight.
at::Tensor unread_channels(const Graph& graph, const ChannelMap& map, const ChannelGroup& group) {
  const auto channels = static_cast<int64_t>(group.channels.size());
  if (group.consumers.empty()) return at::zeros({channels}, at::kBool);
  at::Tensor weight = at::zeros({channels}, at::kDouble);
  for (const size_t s : group.consumers) weight += rows_by_channel(graph, group, map.slots[s]).norm(1, {1});
  return weight == 0;
}

// What channels give whose filter is zero; not a number for the others.
at::Tensor constant_values(const Graph& graph, const ChannelMap& map, const ChannelGroup& group) {
  const auto channels = static_cast<int64_t>(group.channels.size());
  at::Tensor none = at::full({channels}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  const GroupFilters filters = group_filters(graph, map, group);
  if (!filters.single() || filters.depthwise.defined()) return none;
  at::Tensor value = filters.folded().select(1, -1);  // the bias, as a batch norm leaves it
  if (filters.activation) value = filters.activation(value);
  return at::where(filters.weight.norm(1, {1}) == 0, value, none);
}

Empty empty_channels(const Graph& graph, const ChannelMap& map, bool with_constants) {
  Empty empty;
  for (size_t g = 0; g < map.groups.size(); ++g) {
    const ChannelGroup& group = map.groups[g];
    if (group.frozen > 0) continue;
    const at::Tensor unread = unread_channels(graph, map, group);
    const at::Tensor values = with_constants ? constant_values(graph, map, group)
                                             : at::full_like(unread, NAN, at::TensorOptions(at::kDouble));
    auto left = static_cast<int64_t>(group.channels.size());
    at::Tensor c = at::zeros_like(values);
    for (int64_t i = 0; i < unread.numel() && left > 1; ++i) {
      const bool is_unread = unread[i].item<bool>();
      const double value = values[i].item<double>();
      if (!is_unread && std::isnan(value)) continue;
      empty.removed.insert(group.channels[static_cast<size_t>(i)]);
      --left;
      ++(is_unread ? empty.unread : empty.constant);
      if (!is_unread) c[i] = value;
    }
    if (!c.any().item<bool>()) continue;
    const MergeProblem problem = merge_problem(graph, map, group, empty.removed);
    empty.merges[g] = {.Z = identity_merge(problem), .c = c, .filters = {}, .reason = {}};
  }
  return empty;
}

bool same_outputs(const Graph& a, const Graph& b) {
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(a, 2, 0);
  const auto before = forward(a, inputs).outputs;
  const auto after = forward(b, inputs).outputs;
  for (size_t i = 0; i < before.size(); ++i) {
    const at::Tensor x = before[i].to(at::kDouble);
    if (!((after[i].to(at::kDouble) - x).norm().item<double>() <= 1e-5 * (x.norm().item<double>() + 1e-12)))
      return false;
  }
  return true;
}

}  // namespace

EmptyRemoved remove_empty_channels(const Graph& graph, const ShapeOptions& shapes) {
  EmptyRemoved result{.graph = graph};
  bool with_constants = true;
  while (true) {
    const ChannelMap map = analyze_channels(result.graph, shapes);
    const Empty empty = empty_channels(result.graph, map, with_constants);
    if (empty.removed.empty()) return result;
    Graph smaller = remove_and_merge(result.graph, map, empty.removed, empty.merges);
    // A constant may not survive its way to the readers as it is: a padded border, a gate. Then only what nobody reads
    // goes.
    if (empty.constant > 0 && !same_outputs(result.graph, smaller)) {
      with_constants = false;
      continue;
    }
    result.graph = std::move(smaller);
    result.unread += empty.unread;
    result.constant += empty.constant;
  }
}

}  // namespace pare
