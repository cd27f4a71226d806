#include "pare/prune/pruned_cost.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <string>

#include "pare/analysis/cost.h"
#include "pare/ops/op.h"

namespace pare {

PrunedCost::PrunedCost(const Graph& graph, const ChannelMap& map, Budget budget) {
  std::map<std::pair<size_t, size_t>, std::vector<const Slot*>> slots;
  for (const auto& slot : map.slots) {
    slots[{slot.node, slot.input}].push_back(&slot);
    for (const int64_t id : slot.ids) channels_ = std::max(channels_, static_cast<size_t>(id + 1));
  }
  const ModelCost cost = cost_of(graph, map.shapes);
  std::set<std::string> counted;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (budget == Budget::macs) {
      const auto weight = slots.find({n, 1});
      terms_.push_back({static_cast<double>(cost.nodes[n].macs), n,
                        weight == slots.end() ? std::vector<const Slot*>{} : weight->second});
      continue;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = graph.tensors.find(node.inputs[i]);
      if (found == graph.tensors.end() || !counted.insert(found->first).second) continue;
      const at::Tensor& tensor = found->second;
      const bool statistic = traits_of(node).statistics.contains(i);
      const bool parameter = tensor.is_floating_point() && tensor.dim() > 0 && !statistic;
      if (budget == Budget::bytes)
        terms_.push_back({static_cast<double>(tensor.nbytes()), n, slots[{n, i}]});
      else if (parameter)
        terms_.push_back({static_cast<double>(tensor.numel()), n, slots[{n, i}]});
    }
  }
}

double PrunedCost::Term::left(const std::vector<char>& gone) const {
  double left = 1;
  for (const Slot* slot : slots) {
    const auto count = std::ranges::count_if(
        slot->ids, [&](int64_t id) { return id != kUnlabelled && gone[static_cast<size_t>(id)] != 0; });
    left *= 1 - static_cast<double>(count) / static_cast<double>(slot->ids.size());
  }
  return left;
}

std::vector<char> PrunedCost::gone(const std::set<ChannelId>& removed) const {
  std::vector<char> gone(channels_, 0);
  for (const ChannelId id : removed)
    if (static_cast<size_t>(id) < channels_) gone[static_cast<size_t>(id)] = 1;
  return gone;
}

double PrunedCost::operator()(const std::set<ChannelId>& removed) const {
  const std::vector<char> absent = gone(removed);
  double sum = 0;
  for (const auto& term : terms_) sum += term.size * term.left(absent);
  return sum;
}

std::map<size_t, double> PrunedCost::parts_left(const std::set<ChannelId>& removed) const {
  const std::vector<char> absent = gone(removed);
  std::map<size_t, double> parts;
  for (const auto& term : terms_)
    if (!term.slots.empty() && term.size > 0) parts[term.node] = term.left(absent);
  return parts;
}

}  // namespace pare
