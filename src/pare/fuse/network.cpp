#include "pare/fuse/network.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "pare/error.h"
#include "pare/ops/op.h"

namespace pare {

namespace {

bool is_vector(const at::Tensor& tensor) {
  const auto dims = tensor.sizes();
  return tensor.dim() > 0 && tensor.is_floating_point() &&
         tensor.numel() == *std::max_element(dims.begin(), dims.end());
}

// Exporters let equal vectors share one tensor. Their readers may need different maps, so each gets its own.
Graph with_own_vectors(Graph graph) {
  std::set<std::string> taken;
  for (Node& node : graph.nodes)
    for (std::string& input : node.inputs) {
      const auto found = graph.tensors.find(input);
      if (found == graph.tensors.end() || !is_vector(found->second)) continue;
      if (taken.insert(input).second) continue;
      const std::string name = fresh_name(graph, input);
      graph.tensors[name] = found->second;
      input = name;
      taken.insert(name);
    }
  return graph;
}

void check_finite(const Graph& graph) {
  for (const Node& node : graph.nodes)
    for (const std::string& input : node.inputs) {
      const auto found = graph.tensors.find(input);
      if (found == graph.tensors.end() || !found->second.is_floating_point()) continue;
      if (!found->second.isfinite().all().item<bool>())
        throw Error(ErrorKind::usage, describe(node), "its parameter '{}' has entries that are not finite", input);
    }
}

// Gives every channel its class, and every entry of every slot its place.
class Classifier {
 public:
  Classifier(Network& network, const ExchangeMap* exchange)
      : network_(network), map_(network.map), exchange_(exchange) {}

  void run() {
    find_keys();
    make_classes();
    std::map<std::pair<size_t, size_t>, size_t> uses;
    for (const Slot& slot : map_.slots) {
      const auto [found, is_new] = uses.try_emplace({slot.node, slot.input}, network_.uses.size());
      if (is_new) network_.uses.push_back({.node = slot.node, .input = slot.input});
      network_.uses[found->second].slots.push_back(placed(slot));
    }
  }

 private:
  // "slot:count" for every slot that a channel lies in, with the first layer that makes it.
  void find_keys() {
    for (size_t s = 0; s < map_.slots.size(); ++s) {
      const Slot& slot = map_.slots[s];
      std::map<int64_t, int64_t> count;
      std::map<int64_t, std::map<int64_t, int64_t>> ranks;
      for (size_t p = 0; p < slot.ids.size(); ++p) {
        if (slot.ids[p] == kUnlabelled) continue;
        ++count[slot.ids[p]];
        if (const int64_t rank = rank_at(slot, p); rank > 0) ++ranks[slot.ids[p]][rank];
      }
      for (const auto& [id, times] : count) {
        keys_[id] += fmt::format("{}:{} ", s, times);
        for (const auto& [rank, often] : ranks[id]) keys_[id] += fmt::format("({}:{}) ", rank, often);
        const auto [first, is_new] = first_node_.try_emplace(id, slot.node);
        if (!is_new) first->second = std::min(first->second, slot.node);
      }
    }
  }

  // Of an entry's id among those that it is united with.
  int64_t rank_at(const Slot& slot, size_t place) const {
    return exchange_ == nullptr ? 0 : exchange_->rank_of(slot.made[place]);
  }

  // For a removal: what may not go does not move either.
  ExchangeRule rule_of(int64_t id) const {
    if (exchange_ != nullptr) return exchange_->rules.at(id);
    return {.role = "", .fixed = map_.sets.reason(id)};
  }

  static std::string kind_of_class(const ExchangeRule& rule) {
    if (!rule.fixed.empty()) return "fixed ";
    const std::string block = rule.kind < 0 ? "" : fmt::format("block {} ", rule.kind);
    return fmt::format("{}{}{}", rule.kept ? "kept " : "", block, rule.role);
  }

  void make_classes() {
    std::map<std::pair<size_t, std::string>, std::vector<int64_t>> members;  // in the order of layers
    for (const ChannelGroup& group : map_.groups)
      for (const ChannelId channel : group.channels) {
        const auto id = static_cast<int64_t>(channel);
        if (!keys_.contains(id)) continue;
        members[{first_node_[id], kind_of_class(rule_of(id)) + keys_[id]}].push_back(id);
      }
    for (const auto& [where, ids] : members) {
      const ExchangeRule rule = rule_of(ids.front());
      ChannelClass made{.name = network_.graph.nodes[where.first].name,
                        .key = where.second,
                        .node = where.first,
                        .size = static_cast<int64_t>(ids.size()),
                        .fixed = !rule.fixed.empty(),
                        .kept = rule.kept,
                        .reason = rule.fixed.empty() ? map_.sets.reason(ids.front()) : rule.fixed};
      if (!made.fixed && rule.kind >= 0) {
        made.kind = rule.kind;
        made.blocks = exchange_->blocks_of_kind.at(rule.kind);
        for (const int64_t id : ids) made.block.push_back(rule_of(id).block);
      }
      for (size_t i = 0; i < ids.size(); ++i)
        network_.places[ids[i]] = {static_cast<int64_t>(network_.classes.size()), static_cast<int64_t>(i)};
      network_.classes.push_back(std::move(made));
    }
  }

  // The entries of one channel count by the rank of their ids first: what was united in the same way corresponds.
  PlacedSlot placed(const Slot& slot) const {
    PlacedSlot result{.axis = slot.axis, .role = slot.role, .parts = slot.parts};
    std::map<int64_t, std::vector<std::pair<int64_t, size_t>>> entries;
    for (size_t p = 0; p < slot.ids.size(); ++p) {
      const int64_t id = slot.ids[p];
      result.places.push_back(id == kUnlabelled ? Place{} : network_.places.at(id));
      entries[id].emplace_back(id == kUnlabelled ? 0 : rank_at(slot, p), p);
    }
    for (auto& [id, list] : entries) {
      std::sort(list.begin(), list.end());
      for (size_t k = 0; k < list.size(); ++k) result.places[list[k].second].occurrence = static_cast<int64_t>(k);
    }
    return result;
  }

  Network& network_;
  const ChannelMap& map_;
  const ExchangeMap* exchange_;
  std::map<int64_t, std::string> keys_;
  std::map<int64_t, size_t> first_node_;
};

// Where a value comes from, in words that are equal for equal places of two graphs.
std::string origin_of(const Graph& graph, const Usage& usage, const std::string& value) {
  if (value.empty()) return "nothing";
  if (graph.is_constant(value)) return "a constant";
  if (const auto found = usage.producer.find(value); found != usage.producer.end()) {
    const auto& outputs = graph.nodes[found->second].outputs;
    const auto place = std::find(outputs.begin(), outputs.end(), value) - outputs.begin();
    return fmt::format("output {} of node {}", place, found->second);
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].name == value) return fmt::format("input {}", i);
  return "nowhere";
}

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* tensor = std::get_if<at::Tensor>(&a)) return at::equal(*tensor, std::get<at::Tensor>(b));
  return std::visit(
      [&](const auto& value) {
        using Type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, at::Tensor>)
          return true;
        else
          return value == std::get<Type>(b);
      },
      a);
}

// The number of groups of a depthwise convolution is its width.
bool same_attributes(const Node& a, const Node& b) {
  for (const auto& [name, value] : a.attributes) {
    if (name == "group") continue;
    const auto found = b.attributes.find(name);
    if (found == b.attributes.end() || !same_attribute(value, found->second)) return false;
  }
  return a.attributes.size() == b.attributes.size();
}

void check_same_topology(const Graph& reference, const Graph& other) {
  const auto refuse = [&](size_t index, const std::string& what) {
    throw Error(ErrorKind::shape, describe(reference.nodes[index]), "the models differ here: {}", what);
  };
  if (reference.inputs.size() != other.inputs.size())
    throw Error(ErrorKind::shape, "models", "one has {} inputs, another {}", reference.inputs.size(),
                other.inputs.size());
  const Usage usage_a = usage_of(reference);
  const Usage usage_b = usage_of(other);
  const size_t common = std::min(reference.nodes.size(), other.nodes.size());
  for (size_t i = 0; i < common; ++i) {
    const Node& a = reference.nodes[i];
    const Node& b = other.nodes[i];
    if (a.op != b.op || a.domain != b.domain) refuse(i, fmt::format("in another model it is {}", describe(b)));
    if (a.inputs.size() != b.inputs.size())
      refuse(i, fmt::format("it reads {} values, in another model {}", a.inputs.size(), b.inputs.size()));
    for (size_t k = 0; k < a.inputs.size(); ++k) {
      const std::string from_a = origin_of(reference, usage_a, a.inputs[k]);
      const std::string from_b = origin_of(other, usage_b, b.inputs[k]);
      if (from_a != from_b) refuse(i, fmt::format("its input {} is {}, in another model {}", k, from_a, from_b));
    }
    if (!same_attributes(a, b)) refuse(i, "its attributes are not the same");
  }
  if (reference.nodes.size() > common) refuse(common, fmt::format("another model ends after {} nodes", common));
  if (other.nodes.size() > common)
    throw Error(ErrorKind::shape, describe(other.nodes[common]),
                "the models differ here: another model ends after {} nodes", common);
}

void check_same_inputs(const Graph& reference, const Graph& other) {
  const auto text = [](const ValueInfo& info) {
    std::string result;
    for (size_t k = 0; info.dims && k < info.dims->size(); ++k)
      result += (k == 0 ? "" : "x") + ((*info.dims)[k].fixed() ? std::to_string((*info.dims)[k].size) : "?");
    return result;
  };
  for (size_t i = 0; i < reference.inputs.size(); ++i) {
    if (text(reference.inputs[i]) == text(other.inputs[i])) continue;
    std::string first = "the graph";
    for (const Node& node : reference.nodes)
      if (std::count(node.inputs.begin(), node.inputs.end(), reference.inputs[i].name) > 0) {
        first = describe(node);
        break;
      }
    throw Error(ErrorKind::shape, first, "the models differ here: its input '{}' is {}, in another model {}",
                reference.inputs[i].name, text(reference.inputs[i]), text(other.inputs[i]));
  }
}

void check_same_size(const Network& reference, const ChannelClass& own, const ChannelClass& other) {
  const auto where = [&] { return describe(reference.graph.nodes[own.node]); };
  if (own.fixed && own.size != other.size)
    throw Error(ErrorKind::shape, where(), "the models differ here: it makes {} outputs, in another model {}", own.size,
                other.size);
  if (own.kept && own.size != other.size)
    throw Error(ErrorKind::shape, where(),
                "the models differ here: it makes {} channels, in another model {}, which cannot be carried over as {}",
                own.size, other.size, own.reason);
  if (own.kind >= 0 && other.size > 0 && own.blocks != other.blocks)
    throw Error(ErrorKind::shape, where(), "the models differ here: its channels form {} groups, in another model {}",
                own.blocks, other.blocks);
}

bool is_nonlinear(const Node& node) {
  const OpKind kind = kind_of(node);
  return kind == OpKind::activation || kind == OpKind::function;
}

// Entries by (index, occurrence) of their channels.
using KeyedEntries = std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>>;

std::vector<int64_t> sorted_entries(KeyedEntries found) {
  std::sort(found.begin(), found.end());
  std::vector<int64_t> entries;
  for (const auto& [key, entry] : found) entries.push_back(entry);
  return entries;
}

// Where the class lies in a value, if it lies there whole.
std::optional<ClassView> view_in(const Network& network, size_t channel_class, const std::string& value) {
  const auto found_ids = network.map.values.find(value);
  if (found_ids == network.map.values.end()) return std::nullopt;
  const at::Tensor& ids = found_ids->second;
  for (int64_t axis = 0; axis < ids.dim(); ++axis) {
    if (ids.size(axis) == 1 && ids.numel() > 1) continue;
    const at::Tensor along = ids.movedim(axis, 0).reshape({ids.size(axis), -1}).select(1, 0).contiguous();
    KeyedEntries found;
    std::map<int64_t, int64_t> seen;
    for (int64_t p = 0; p < along.numel(); ++p) {
      const int64_t id = along.data_ptr<int64_t>()[p];
      const auto known = network.places.find(id);
      if (known != network.places.end() && known->second.channel_class == static_cast<int64_t>(channel_class))
        found.push_back({{known->second.index, seen[id]++}, p});
    }
    if (!found.empty() && found.size() % static_cast<size_t>(network.classes[channel_class].size) == 0)
      return ClassView{.value = value, .axis = axis, .entries = sorted_entries(std::move(found))};
  }
  return std::nullopt;
}

}  // namespace

Network analyze_network(const Graph& graph, ChannelUse use) {
  check_finite(graph);
  Network network;
  network.graph = with_own_vectors(graph);
  if (use == ChannelUse::removal) {
    network.map = analyze_channels(network.graph);
    Classifier(network, nullptr).run();
    return network;
  }
  ExchangeMap exchange = analyze_exchange(network.graph);
  network.map = std::move(exchange.map);
  Classifier(network, &exchange).run();
  return network;
}

std::vector<int64_t> entries_of(const PlacedSlot& slot, size_t channel_class) {
  KeyedEntries found;
  for (size_t p = 0; p < slot.places.size(); ++p) {
    const Place& place = slot.places[p];
    if (place.channel_class == static_cast<int64_t>(channel_class))
      found.push_back({{place.index, place.occurrence}, static_cast<int64_t>(p)});
  }
  return sorted_entries(std::move(found));
}

Network matched_to(const Network& reference, Network other) {
  check_same_topology(reference.graph, other.graph);
  check_same_inputs(reference.graph, other.graph);
  if (reference.uses.size() != other.uses.size())
    throw Error(ErrorKind::shape, "models", "their channels are used in different ways");
  // Corresponding classes lie in the same slots; where one is missing in `other` it has no channels there.
  std::map<std::string, size_t> place;
  for (size_t c = 0; c < reference.classes.size(); ++c) place[reference.classes[c].key] = c;
  std::vector<ChannelClass> classes = reference.classes;
  for (ChannelClass& of_reference : classes) of_reference.size = 0;
  std::vector<int64_t> renumbered(other.classes.size());
  for (size_t c = 0; c < other.classes.size(); ++c) {
    const auto found = place.find(other.classes[c].key);
    if (found == place.end()) {  // channels that the reference has none of: nothing of them arrives
      renumbered[c] = static_cast<int64_t>(classes.size());
      classes.push_back(other.classes[c]);
      continue;
    }
    renumbered[c] = static_cast<int64_t>(found->second);
    classes[found->second] = other.classes[c];
  }
  for (size_t c = 0; c < reference.classes.size(); ++c) check_same_size(reference, reference.classes[c], classes[c]);
  for (size_t k = 0; k < other.uses.size(); ++k) {
    ParameterUse& use = other.uses[k];
    for (PlacedSlot& slot : use.slots)
      for (Place& place : slot.places)
        if (place.channel_class >= 0) place.channel_class = renumbered[static_cast<size_t>(place.channel_class)];
    const at::Tensor& a = reference.parameter(reference.uses[k]);
    const at::Tensor& b = other.parameter(use);
    for (int64_t axis = 0; axis < std::max(a.dim(), b.dim()); ++axis) {
      const auto is_along = [&](const PlacedSlot& slot) { return slot.axis == axis; };
      const bool by_channels = std::any_of(use.slots.begin(), use.slots.end(), is_along);
      if (a.dim() == b.dim() && (by_channels || a.size(axis) == b.size(axis))) continue;
      throw Error(ErrorKind::shape, describe(reference.graph.nodes[use.node]),
                  "the models differ here: its parameter is {}, in another model {}", fmt::join(a.sizes(), "x"),
                  fmt::join(b.sizes(), "x"));
    }
  }
  for (auto& [id, place] : other.places) place.channel_class = renumbered[static_cast<size_t>(place.channel_class)];
  other.classes = std::move(classes);
  return other;
}

std::vector<ClassView> views_of(const Network& network, size_t channel_class) {
  const Usage usage = usage_of(network.graph);
  std::vector<ClassView> views;
  const auto look_at = [&](const std::string& value) {
    if (auto view = view_in(network, channel_class, value)) views.push_back(std::move(*view));
  };
  for (const Node& node : network.graph.nodes)
    for (const std::string& input : node.inputs)
      if (is_nonlinear(node) && usage.producer.contains(input)) look_at(input);
  if (!views.empty()) return views;
  for (const ParameterUse& use : network.uses)
    for (const PlacedSlot& slot : use.slots)
      if (slot.role == SlotRole::producer && network.parameter(use).dim() >= 2 &&
          !entries_of(slot, channel_class).empty())
        look_at(network.graph.nodes[use.node].outputs[0]);
  return views;
}

}  // namespace pare
