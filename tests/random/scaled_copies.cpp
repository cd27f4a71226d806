#include "random/scaled_copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

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

// In every value there are as many places of the one as of the other: no Split, Slice or Gather parts them.
bool go_together(const ChannelMap& map, ChannelId a, ChannelId b) {
  return std::all_of(map.values.begin(), map.values.end(),
                     [&](const auto& value) { return count_in(value.second, a) == count_in(value.second, b); });
}

class Copying {
 public:
  Copying(const Graph& graph, const ChannelMap& map, uint64_t seed)
      : map_(map), random_(seed), usage_(usage_of(graph)), result_{.graph = graph, .copies = {}} {}

  ScaledCopies run() {
    for (const ChannelGroup& group : map_.groups) copy_one(group);
    return std::move(result_);
  }

 private:
  double some_scale() { return 0.2 + 2.3 * random_.uniform(); }

  void copy_one(const ChannelGroup& group) {
    std::vector<ChannelId> free;
    for (const ChannelId id : group.channels)
      if (!map_.sets.frozen(static_cast<int64_t>(id))) free.push_back(id);
    if (free.size() < 2) return;
    const auto first = static_cast<size_t>(random_.below(static_cast<int64_t>(free.size())));
    for (size_t step = 1; step < free.size(); ++step) {
      const ChannelId copy = free[first], original = free[(first + step) % free.size()];
      if (!go_together(map_, copy, original)) continue;
      const double s = is_homogeneous(copy) && random_.below(4) > 0 ? some_scale() : 1;
      make_copy(group, copy, original, s);
      result_.copies.insert(copy);
      result_.scaled += s != 1 ? 1 : 0;
      return;
    }
  }

  bool carries(const std::string& value, ChannelId channel) const {
    const auto found = map_.values.find(value);
    return found != map_.values.end() && count_in(found->second, channel) > 0;
  }

  // Does s times the channel come out wherever s times it goes in?
  bool is_homogeneous(ChannelId channel) const {
    static const std::set<std::string> kAlways = {"Conv",
                                                  "ConvTranspose",
                                                  "Gemm",
                                                  "MatMul",
                                                  "BatchNormalization",
                                                  "Relu",
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
    for (const Node& node : result_.graph.nodes) {
      const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](const std::string& input) { return carries(input, channel); });
      if (!reads || kAlways.contains(node.op)) continue;
      const bool by_constant = std::any_of(node.inputs.begin(), node.inputs.end(),
                                           [&](const std::string& i) { return result_.graph.is_constant(i); });
      const bool sums = node.op == "Add" || node.op == "Sub";
      const bool multiplies = node.op == "Mul" || node.op == "Div";
      if (!(sums && (!by_constant || has_slot(node, channel))) && !(multiplies && by_constant)) return false;
    }
    return true;
  }

  bool has_slot(const Node& node, ChannelId channel) const {
    return std::any_of(map_.slots.begin(), map_.slots.end(), [&](const Slot& slot) {
      return &result_.graph.nodes[slot.node] == &node && !places_of(slot.ids, channel).empty();
    });
  }

  void make_copy(const ChannelGroup& group, ChannelId copy, ChannelId original, double s) {
    std::map<size_t, double> arriving;  // at batch norms: what comes from a layer with a scale of its own
    std::map<size_t, double> leaving;   // of layers
    for (const size_t slot : group.producers) {
      const size_t n = map_.slots[slot].node;
      const auto reader = only_reader(result_.graph, usage_, n);
      const bool own = reader && result_.graph.nodes[*reader].op == "BatchNormalization" && !leaving.contains(n);
      if (own) arriving[*reader] = leaving[n] = some_scale();
      leaving.try_emplace(n, s);
    }
    for (const size_t slot : group.producers) write(map_.slots[slot], copy, original, leaving[map_.slots[slot].node]);
    for (const size_t slot : group.passes) {
      const Slot& at = map_.slots[slot];
      const auto found = arriving.find(at.node);
      write(at, copy, original, factor(at, s, found == arriving.end() ? s : found->second));
    }
  }

  // By what a constant of the original is multiplied: `in` arrives, s leaves.
  double factor(const Slot& slot, double s, double in) const {
    const Node& node = result_.graph.nodes[slot.node];
    if (node.op == "BatchNormalization") return std::array{1.0, s / in, s, in, 1.0}[slot.input];
    if (node.op == "Conv" || node.op == "ConvTranspose") return slot.input == 1 ? 1 : s;
    if (node.op == "Add" || node.op == "Sub" || node.op == "Concat" || node.op == "Max" || node.op == "Min") return s;
    return 1;
  }

  void write(const Slot& slot, ChannelId copy, ChannelId original, double scale) {
    const auto to = places_of(slot.ids, copy), from = places_of(slot.ids, original);
    const at::Tensor old = result_.graph.tensor(result_.graph.nodes[slot.node].inputs[slot.input]);
    const at::Tensor rows = old.index_select(slot.axis, at::tensor(from, at::kLong)) * scale;
    replace_constant(result_.graph, slot.node, slot.input, old.index_copy(slot.axis, at::tensor(to, at::kLong), rows));
  }

  const ChannelMap& map_;
  Random random_;
  Usage usage_;
  ScaledCopies result_;
};

}  // namespace

ScaledCopies with_scaled_copies(const Graph& graph, const ChannelMap& map, uint64_t seed) {
  return Copying(graph, map, seed).run();
}

}  // namespace pare
