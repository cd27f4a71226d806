#include "random/scaled_copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "pare/analysis/layers.h"
#include "pare/data/random.h"

namespace pare {

namespace {

std::vector<int64_t> places_of(const std::vector<int64_t>& ids, ChannelId channel) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == static_cast<int64_t>(channel)) places.push_back(static_cast<int64_t>(i));
  return places;
}

int64_t count_in(const at::Tensor& ids, ChannelId channel) {
  return ids.eq(static_cast<int64_t>(channel)).sum().item<int64_t>();
}

// Does a node pick some of the places that a channel has in what it reads? A Slice of a Concat may then take the one
// channel from its first operand and the other from its second: they arrive by different paths.
bool picks_places(const Graph& graph, const ChannelMap& map, ChannelId channel) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const auto read = node.inputs.empty() ? map.values.end() : map.values.find(node.inputs[0]);
    if (read == map.values.end() || (node.op != "Slice" && node.op != "Split" && node.op != "Gather")) return false;
    const int64_t places = count_in(read->second, channel);
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& output) {
      const auto made = map.values.find(output);
      const int64_t left = made == map.values.end() ? 0 : count_in(made->second, channel);
      return left > 0 && left < places;
    });
  });
}

// In every value there are as many places of the one as of the other, and all that a layer makes where it makes several
// for one channel: no Split, Slice or Gather parts them.
bool go_together(const Graph& graph, const ChannelMap& map, const ChannelGroup& group, ChannelId a, ChannelId b) {
  int64_t together = 1;
  for (const size_t s : group.producers) {
    const auto made = map.values.find(graph.nodes[map.slots[s].node].outputs[0]);
    if (made != map.values.end()) together = std::max(together, count_in(made->second, a));
  }
  if (picks_places(graph, map, a)) return false;
  return std::all_of(map.values.begin(), map.values.end(), [&](const auto& value) {
    const int64_t places = count_in(value.second, a);
    return places == count_in(value.second, b) && places % together == 0;
  });
}

bool carries(const ChannelMap& map, const std::string& value, ChannelId channel) {
  const auto found = map.values.find(value);
  return found != map.values.end() && count_in(found->second, channel) > 0;
}

bool has_slot(const ChannelMap& map, size_t node, ChannelId channel, SlotRole role) {
  return std::any_of(map.slots.begin(), map.slots.end(), [&](const Slot& slot) {
    return slot.node == node && slot.role == role && !places_of(slot.ids, channel).empty();
  });
}

// The factor of a channel in every value: values that a step ties together have the same, and 1 where it must be.
class Factors {
 public:
  Factors(const Graph& graph, const ChannelMap& map, ChannelId channel) : map_(map), channel_(channel) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) visit(graph, n);
  }

  template <typename Draw>
  int64_t draw(Draw draw) {
    int64_t drawn = 0;
    for (const auto& [value, up] : parent_) {
      const std::string root = find(value);
      if (!fixed_.contains(root) && factor_.try_emplace(root, 1).second) {
        factor_[root] = draw();
        ++drawn;
      }
    }
    return drawn;
  }

  double of(const std::string& value) {
    const auto found = factor_.find(find(value));
    return found == factor_.end() ? 1 : found->second;
  }

 private:
  std::string find(const std::string& value) {
    parent_.try_emplace(value, value);
    return parent_[value] == value ? value : parent_[value] = find(parent_[value]);
  }

  void unite(const std::vector<std::string>& values) {
    for (const auto& value : values) {
      const std::string a = find(values[0]), b = find(value);
      if (a == b) continue;
      parent_[b] = a;
      if (fixed_.contains(b)) fixed_.insert(a);
    }
  }

  void visit(const Graph& graph, size_t n) {
    const Node& node = graph.nodes[n];
    std::vector<std::string> in, out;
    for (const auto& value : node.inputs)
      if (carries(map_, value, channel_)) in.push_back(value);
    for (const auto& value : node.outputs)
      if (carries(map_, value, channel_)) out.push_back(value);
    for (const auto& value : out) find(value);
    if (in.empty() || has_slot(map_, n, channel_, SlotRole::consumer)) return;
    if (node.op == "InstanceNormalization") {
      fixed_.insert(find(in[0]));
      return;
    }
    const bool own = has_slot(map_, n, channel_, SlotRole::pass);  // has a constant that takes part
    if (own && (node.op == "BatchNormalization" || node.op == "Conv" || node.op == "ConvTranspose" ||
                ((node.op == "Mul" || node.op == "Div") && in.size() == 1 && in[0] == node.inputs[0])))
      return;
    std::vector<std::string> all = in;
    all.insert(all.end(), out.begin(), out.end());
    unite(all);
    if (!is_homogeneous(graph, node, in.size(), own)) fixed_.insert(find(in[0]));
  }

  static bool is_homogeneous(const Graph& graph, const Node& node, size_t operands, bool own) {
    static const std::set<std::string> kAlways = {"Relu",
                                                  "LeakyRelu",
                                                  "PRelu",
                                                  "Abs",
                                                  "Neg",
                                                  "Identity",
                                                  "Dropout",
                                                  "MaxPool",
                                                  "AveragePool",
                                                  "GlobalMaxPool",
                                                  "GlobalAveragePool",
                                                  "Concat",
                                                  "Split",
                                                  "Slice",
                                                  "Gather",
                                                  "Reshape",
                                                  "Transpose",
                                                  "Flatten",
                                                  "Squeeze",
                                                  "Unsqueeze",
                                                  "DepthToSpace",
                                                  "SpaceToDepth",
                                                  "Resize",
                                                  "Pad",
                                                  "ReduceMean",
                                                  "Sum",
                                                  "Mean",
                                                  "Max",
                                                  "Min"};
    if (kAlways.contains(node.op)) return true;
    const bool by_constant =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& i) { return graph.is_constant(i); });
    if (node.op == "Add" || node.op == "Sub") return own || (operands == 2 && !by_constant);
    return (node.op == "Mul" || node.op == "Div") && by_constant && !graph.is_constant(node.inputs[0]);
  }

  const ChannelMap& map_;
  const ChannelId channel_;
  std::map<std::string, std::string> parent_;
  std::set<std::string> fixed_;
  std::map<std::string, double> factor_;
};

class Copying {
 public:
  Copying(const Graph& graph, const ChannelMap& map, uint64_t seed)
      : map_(map), random_(seed), result_{.graph = graph, .copies = {}} {}

  ScaledCopies run() {
    for (const ChannelGroup& group : map_.groups) copy_one(group);
    return std::move(result_);
  }

 private:
  void copy_one(const ChannelGroup& group) {
    std::vector<ChannelId> free;
    for (const ChannelId id : group.channels)
      if (!map_.sets.frozen(static_cast<int64_t>(id))) free.push_back(id);
    if (free.size() < 2) return;
    const auto first = static_cast<size_t>(random_.below(static_cast<int64_t>(free.size())));
    for (size_t step = 1; step < free.size(); ++step) {
      const ChannelId copy = free[first], original = free[(first + step) % free.size()];
      if (!go_together(result_.graph, map_, group, copy, original)) continue;
      make_copy(group, copy, original);
      result_.copies.insert(copy);
      return;
    }
  }

  void make_copy(const ChannelGroup& group, ChannelId copy, ChannelId original) {
    Factors factors(result_.graph, map_, copy);
    result_.factors += factors.draw([&] { return 0.3 + 1.7 * random_.uniform(); });
    for (const auto* slots : {&group.producers, &group.passes})
      for (const size_t s : *slots) {
        const Slot& slot = map_.slots[s];
        const Node& node = result_.graph.nodes[slot.node];
        const double out = factors.of(node.outputs[0]);
        const double in = slot.role == SlotRole::producer ? 1 : factors.of(node.inputs[0]);
        write(slot, copy, original, constant_factor(node, slot, in, out));
      }
  }

  // By what a constant of the original is multiplied where `in` arrives and `out` leaves.
  static double constant_factor(const Node& node, const Slot& slot, double in, double out) {
    if (slot.role == SlotRole::producer) return out;
    if (node.op == "BatchNormalization") return std::array{1.0, out / in, out, in, 1.0}[slot.input];
    if (node.op == "InstanceNormalization") return out;
    if (node.op == "Conv" || node.op == "ConvTranspose") return slot.input == 1 ? out / in : out;
    if (node.op == "Mul") return out / in;
    if (node.op == "Div") return in / out;
    return node.op == "PRelu" ? 1 : out;
  }

  void write(const Slot& slot, ChannelId copy, ChannelId original, double scale) {
    const auto to = places_of(slot.ids, copy), from = places_of(slot.ids, original);
    const at::Tensor old = result_.graph.tensor(result_.graph.nodes[slot.node].inputs[slot.input]);
    const at::Tensor rows = old.index_select(slot.axis, at::tensor(from, at::kLong)) * scale;
    replace_constant(result_.graph, slot.node, slot.input, old.index_copy(slot.axis, at::tensor(to, at::kLong), rows));
  }

  const ChannelMap& map_;
  Random random_;
  ScaledCopies result_;
};

}  // namespace

ScaledCopies with_scaled_copies(const Graph& graph, const ChannelMap& map, uint64_t seed) {
  return Copying(graph, map, seed).run();
}

}  // namespace pare
