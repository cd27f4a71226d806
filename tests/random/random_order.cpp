#include "random/random_order.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "pare/data/random.h"

namespace pare {

namespace {

// Which channel stands where another stood.
using Order = std::map<int64_t, int64_t>;

// Channels that may stand in each other's place, by all that the rules say of them but which block they are in.
std::map<int64_t, std::string> looks_of(const ExchangeMap& exchange) {
  std::map<int64_t, std::string> looks;
  for (size_t s = 0; s < exchange.map.slots.size(); ++s) {
    const Slot& slot = exchange.map.slots[s];
    std::map<int64_t, std::multiset<int64_t>> ranks;
    for (size_t p = 0; p < slot.ids.size(); ++p)
      if (slot.ids[p] != kUnlabelled) ranks[slot.ids[p]].insert(exchange.rank_of(slot.made[p]));
    for (const auto& [id, list] : ranks) {
      looks[id] += fmt::format("{}(", s);
      for (const int64_t rank : list) looks[id] += fmt::format("{} ", rank);
      looks[id] += ")";
    }
  }
  for (auto& [id, text] : looks) {
    const ExchangeRule& rule = exchange.rules.at(id);
    text += fmt::format("|{}|{}|{}", rule.role, rule.kind, rule.kept);
  }
  return looks;
}

// Blocks in a random order first, then channels that look alike inside.
Order random_order(const ExchangeMap& exchange, const std::map<int64_t, std::string>& looks, Random& random) {
  std::map<int64_t, std::vector<int64_t>> block_order;
  for (const auto& [kind, count] : exchange.blocks_of_kind) block_order[kind] = random_permutation(count, random);
  std::map<std::pair<std::string, int64_t>, std::vector<int64_t>> alike;  // by look and block
  for (const auto& [id, text] : looks)
    if (exchange.rules.at(id).fixed.empty()) alike[{text, exchange.rules.at(id).block}].push_back(id);
  Order order;
  for (const auto& [where, ids] : alike) {
    const int64_t kind = exchange.rules.at(ids.front()).kind;
    const int64_t from = kind < 0 ? where.second : block_order[kind][static_cast<size_t>(where.second)];
    const auto& others = alike.at({where.first, from});
    const auto shuffled = random_permutation(static_cast<int64_t>(ids.size()), random);
    for (size_t i = 0; i < ids.size(); ++i) order[ids[i]] = others.at(static_cast<size_t>(shuffled[i]));
  }
  return order;
}

// Where each entry of a list comes from.
std::vector<int64_t> sources(const ExchangeMap& exchange, const Slot& slot, const Order& order) {
  const auto listed = [&](int64_t id) {
    std::vector<std::pair<int64_t, int64_t>> entries;
    for (size_t p = 0; p < slot.ids.size(); ++p)
      if (slot.ids[p] == id) entries.emplace_back(exchange.rank_of(slot.made[p]), static_cast<int64_t>(p));
    std::sort(entries.begin(), entries.end());
    return entries;
  };
  std::vector<int64_t> from(slot.ids.size());
  for (size_t p = 0; p < from.size(); ++p) from[p] = static_cast<int64_t>(p);
  for (const int64_t id : std::set<int64_t>(slot.ids.begin(), slot.ids.end())) {
    const auto found = order.find(id);
    if (found == order.end()) continue;
    const auto to = listed(id);
    const auto places = listed(found->second);
    for (size_t k = 0; k < to.size(); ++k) from[static_cast<size_t>(to[k].second)] = places.at(k).second;
  }
  return from;
}

at::Tensor reordered(const at::Tensor& x, const Slot& slot, const std::vector<int64_t>& from) {
  if (slot.parts == 1) return x.index_select(slot.axis, at::tensor(from, at::kLong));
  // Rows are in their new order already; the list of a group says which group it was and where its entries lay.
  const int64_t width = x.size(slot.axis);
  std::vector<at::Tensor> pieces;
  const auto groups = x.chunk(slot.parts, 0);
  for (int64_t g = 0; g < slot.parts; ++g) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < width; ++i) places.push_back(from[static_cast<size_t>(g * width + i)] % width);
    pieces.push_back(groups[static_cast<size_t>(g)].index_select(slot.axis, at::tensor(places, at::kLong)));
  }
  return at::cat(pieces, 0);
}

}  // namespace

Reordered in_random_order(const Graph& graph, uint64_t seed) {
  const ExchangeMap exchange = analyze_exchange(graph);
  const auto looks = looks_of(exchange);
  Random random(seed);
  const Order order = random_order(exchange, looks, random);
  Reordered result{.graph = graph};
  std::map<std::pair<std::string, int64_t>, int64_t> alike;
  std::map<std::string, int64_t> of_look;
  for (const auto& [id, text] : looks) ++of_look[text];
  for (const auto& [id, text] : looks) {
    ++result.channels;
    const std::string& fixed = exchange.rules.at(id).fixed;
    if (!fixed.empty()) result.reasons.push_back(fixed);
    if (fixed.empty() && of_look[text] > 1) ++result.free;
    if (order.contains(id) && order.at(id) != id) ++result.moved;
  }
  // By node and input: what several nodes read is reordered for each of them.
  std::map<std::pair<size_t, size_t>, at::Tensor> uses;
  for (const bool in_parts : {false, true})
    for (const Slot& slot : exchange.map.slots) {
      if ((slot.parts > 1) != in_parts) continue;
      at::Tensor& tensor = uses.try_emplace({slot.node, slot.input}, graph.tensor(slot.tensor)).first->second;
      tensor = reordered(tensor, slot, sources(exchange, slot, order));
    }
  for (const auto& [use, tensor] : uses) {
    std::string& name = result.graph.nodes[use.first].inputs[use.second];
    name = fresh_name(result.graph, name);
    result.graph.tensors[name] = tensor;
  }
  result.graph = remove_unused(std::move(result.graph));
  return result;
}

}  // namespace pare
