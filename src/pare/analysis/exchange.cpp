#include "pare/analysis/exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "pare/ops/op.h"

namespace pare {

namespace {

bool picks(OpKind kind) { return kind == OpKind::selection || kind == OpKind::padding; }

class ExchangeAnalysis {
 public:
  ExchangeAnalysis(const Graph& graph, const ShapeOptions& options) : graph_(graph) {
    result_.map = analyze_channels(graph, options, ChannelUse::exchange);
  }

  ExchangeMap run() {
    find_roles();
    list_values();
    fix_picked_copies();
    join_blocks();
    for (const auto& [root, component] : components_) settle(component);
    return std::move(result_);
  }

 private:
  // Channels connected by blocks, and the blocks.
  struct Component {
    std::vector<int64_t> ids;  // representatives, ascending
    std::vector<size_t> blocks;
  };

  const ChannelSets& sets() const { return result_.map.sets; }

  // Of a set of several ids: who made each, and which node united which of them.
  void find_roles() {
    std::map<int64_t, std::vector<int64_t>> members;
    for (int64_t id = 0; id < sets().size(); ++id) members[sets().find(id)].push_back(id);
    for (const auto& [root, ids] : members) {
      ExchangeRule& rule = result_.rules[root];
      rule.kept = sets().frozen(root);
      if (sets().fixed(root)) rule.fixed = sets().reason(root);
      if (ids.size() == 1) continue;
      for (size_t i = 0; i < ids.size(); ++i) {
        result_.rank[ids[i]] = static_cast<int64_t>(i);
        rule.role += fmt::format("{} ", sets().origin(ids[i]));
      }
    }
    std::set<std::tuple<int64_t, size_t, int64_t, int64_t>> links;
    for (const ChannelLink& link : sets().links())
      links.insert({sets().find(link.a), link.node, result_.rank_of(link.a), result_.rank_of(link.b)});
    for (const auto& [root, node, a, b] : links) result_.rules[root].role += fmt::format("{}:{}-{} ", node, a, b);
  }

  std::map<int64_t, int64_t> count_in(const std::string& value) const {
    std::map<int64_t, int64_t> count;
    const auto found = result_.map.made.find(value);
    if (found == result_.map.made.end()) return count;
    const at::Tensor ids = found->second.contiguous();
    for (int64_t i = 0; i < ids.numel(); ++i) ++count[ids.data_ptr<int64_t>()[i]];
    count.erase(kUnlabelled);
    return count;
  }

  // Of a channel that lies in a value several times, each time another function of it, a node may pick the first of one
  // and the second of another.
  void fix_picked_copies() {
    for (const Node& node : graph_.nodes) {
      if (!picks(kind_of(node)) || node.inputs.empty()) continue;
      for (const auto& [id, times] : count_in(node.inputs[0]))
        if (times > 1 && moves(sets().find(id)))
          result_.rules[sets().find(id)].fixed = fmt::format("{} picks from several of it", describe(node));
    }
  }

  // Values by the places of their nodes, which are the same in networks of one topology, and how often the id is there.
  void list_values() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      for (size_t k = 0; k < graph_.nodes[n].outputs.size(); ++k) {
        for (const auto& [id, times] : count_in(graph_.nodes[n].outputs[k]))
          result_.rules[sets().find(id)].role += fmt::format("{}.{}:{}x{} ", n, k, result_.rank_of(id), times);
      }
  }

  int64_t leader(int64_t id) {
    leader_.try_emplace(id, id);
    while (leader_[id] != id) id = leader_[id] = leader_[leader_[id]];
    return id;
  }

  bool moves(int64_t id) const { return id != kUnlabelled && result_.rules.at(id).fixed.empty(); }

  // One block of a node is no constraint, and one channel neither. What is fixed connects nothing, but holds its blocks
  // where they are.
  void join_blocks() {
    const auto& blocks = sets().blocks();
    std::map<size_t, int64_t> of_node;
    for (const ChannelBlock& block : blocks) ++of_node[block.node];
    for (size_t b = 0; b < blocks.size(); ++b) {
      std::set<int64_t> ids;
      for (const int64_t id : blocks[b].ids) ids.insert(sets().find(id));
      if (of_node[blocks[b].node] == 1 || ids.size() == 1) ids.clear();
      members_.push_back(std::move(ids));
      int64_t first = -1;
      for (const int64_t id : members_[b]) {
        if (!moves(id)) continue;
        if (first >= 0) leader_[std::max(leader(first), leader(id))] = std::min(leader(first), leader(id));
        first = leader(id);
      }
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      std::set<int64_t> seen;
      for (const int64_t id : members_[b]) {
        if (!moves(id)) continue;
        result_.rules[id].role += fmt::format("in {} ", blocks[b].node);
        if (seen.insert(leader(id)).second) components_[leader(id)].blocks.push_back(b);
      }
    }
    for (const auto& [id, up] : leader_) components_[leader(id)].ids.push_back(id);
  }

  void settle(const Component& component) {
    std::set<size_t> nodes;
    bool held = false;
    for (const size_t b : component.blocks) {
      if (!nodes.insert(sets().blocks()[b].node).second) return fix(component);
      held = held || std::any_of(members_[b].begin(), members_[b].end(), [&](int64_t id) { return !moves(id); });
    }
    const std::string text = held ? fmt::format("held {}", component.ids.front()) : kind_text(component);
    const auto [found, is_new] = kinds_.try_emplace(text, static_cast<int64_t>(kinds_.size()));
    const int64_t block = result_.blocks_of_kind[found->second]++;
    for (const int64_t id : component.ids) {
      result_.rules[id].kind = found->second;
      result_.rules[id].block = block;
    }
  }

  void fix(const Component& component) {
    for (const int64_t id : component.ids)
      result_.rules[id].fixed = "groups of one layer share channels with several groups of another";
  }

  // The channels of a component by role and slots, with their numbers.
  std::string kind_text(const Component& component) {
    if (slots_.empty()) list_slots();
    std::map<std::string, int64_t> count;
    for (const int64_t id : component.ids)
      ++count[fmt::format("{}| {}|{}", result_.rules[id].role, slots_[id], result_.rules[id].kept)];
    std::string text;
    for (const auto& [key, n] : count) text += fmt::format("{} x {};", n, key);
    return text;
  }

  void list_slots() {
    const auto& slots = result_.map.slots;
    for (size_t s = 0; s < slots.size(); ++s)
      for (const int64_t id : slots[s].ids)
        if (id != kUnlabelled) slots_[id] += fmt::format("{} ", s);
    slots_[kUnlabelled];
  }

  const Graph& graph_;
  ExchangeMap result_;
  std::map<int64_t, int64_t> leader_;
  std::vector<std::set<int64_t>> members_;  // of each block, as representatives
  std::map<int64_t, Component> components_;
  std::map<std::string, int64_t> kinds_;
  std::map<int64_t, std::string> slots_;
};

}  // namespace

GroupExchange exchange_in(const ExchangeMap& exchange, const ChannelMap& removal, const ChannelGroup& group) {
  std::set<std::tuple<size_t, size_t, int64_t>> made;  // (node, input, axis)
  for (const size_t s : group.producers)
    made.insert({removal.slots[s].node, removal.slots[s].input, removal.slots[s].axis});
  std::set<int64_t> ids;
  for (const Slot& slot : exchange.map.slots)
    if (made.contains({slot.node, slot.input, slot.axis}))
      for (const int64_t id : slot.ids)
        if (id != kUnlabelled) ids.insert(id);
  GroupExchange result;
  std::set<std::pair<int64_t, int64_t>> blocks;
  for (const int64_t id : ids) {
    const ExchangeRule& rule = exchange.rules.at(id);
    if (rule.fixed.empty() && rule.kind >= 0) blocks.insert({rule.kind, rule.block});
    ++(rule.fixed.empty() ? result.permutable : result.fixed);
    if (result.reason.empty()) result.reason = rule.fixed;
  }
  result.blocks = static_cast<int64_t>(blocks.size());
  return result;
}

ExchangeMap analyze_exchange(const Graph& graph, const ShapeOptions& options) {
  return ExchangeAnalysis(graph, options).run();
}

}  // namespace pare
