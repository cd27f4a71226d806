#include "pare/analysis/channels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "pare/analysis/layer_norms.h"
#include "pare/core/memory.h"
#include "pare/error.h"
#include "pare/io/onnx/subgraph.h"
#include "pare/ops/traits.h"

namespace pare {

namespace {

// A tensor shaped like the ids with `function` of each.
template <typename Result, typename Function>
at::Tensor map_ids(const at::Tensor& ids, Function function) {
  const at::Tensor flat = ids.contiguous();
  at::Tensor result = at::empty(ids.sizes(), c10::CppTypeToScalarType<Result>::value);
  const int64_t* from = flat.data_ptr<int64_t>();
  Result* to = result.data_ptr<Result>();
  for (int64_t i = 0; i < flat.numel(); ++i) to[i] = function(from[i]);
  return result;
}

class ChannelAnalysis {
 public:
  ChannelAnalysis(const Graph& graph, const ShapeOptions& options, ChannelUse use) : graph_(graph) {
    map_.sets = ChannelSets(use);
    map_.shapes = analysis_shapes(graph, options);
    for (const LayerNorm& norm : find_layer_norms(graph)) norms_.emplace(norm.mean, norm);
  }

  ChannelMap run() {
    const bool exchange = map_.sets.for_exchange();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      map_.sets.enter(i);
      label_node(i);
    }
    map_.sets.enter(graph_.nodes.size());
    for (const auto& output : graph_.outputs) freeze_value(output.name, "it is the graph output '" + output.name + "'");
    unite_shared_weights();
    if (exchange)
      freeze_weights_read_elsewhere();
    else
      unite_to_one_axis();
    if (exchange) map_.made = map_.values;
    for (auto& [name, ids] : map_.values) ids = representatives(ids);
    for (auto& slot : map_.slots) {
      if (exchange) slot.made = slot.ids;
      for (auto& id : slot.ids) id = map_.sets.find(id);
    }
    collect_groups();
    return std::move(map_);
  }

 private:
  at::Tensor representatives(const at::Tensor& ids) const {
    return map_ids<int64_t>(ids, [&](int64_t id) { return map_.sets.find(id); });
  }

  void freeze_value(const std::string& value, const std::string& reason) {
    const auto found = map_.values.find(value);
    if (found == map_.values.end()) return;
    const at::Tensor ids = found->second.contiguous();
    for (int64_t i = 0; i < ids.numel(); ++i) map_.sets.freeze(ids.data_ptr<int64_t>()[i], reason);
  }

  void freeze_inputs(const Node& node, const std::string& reason) {
    for (const auto& input : node.inputs) freeze_value(input, reason);
    for (const auto& capture : node.captures) freeze_value(capture, reason);
  }

  void label_node(size_t index) {
    const Node& node = graph_.nodes[index];
    const OpDef* op = find_op(node);
    if (op == nullptr) return freeze_inputs(node, fmt::format("pare has no rule for {}", describe(node)));
    if (node.inputs.size() < op->min_inputs || node.inputs.size() > op->max_inputs || node.outputs.empty())
      return freeze_inputs(node, fmt::format("{} has too few or too many inputs", describe(node)));
    std::vector<TensorType> inputs(node.inputs.size());
    std::vector<TensorType> outputs(node.outputs.size());
    std::vector<at::Tensor> ids(node.inputs.size());
    std::vector<at::Tensor> values(node.inputs.size());
    const auto parameter = std::make_unique<bool[]>(node.inputs.size());
    const auto typed = [&](const std::string& value, TensorType& type) {
      const TensorType* found = value.empty() ? nullptr : map_.shapes.find(value);
      if (found != nullptr) type = *found;
      return value.empty() || found != nullptr;
    };
    bool complete = true;
    for (size_t i = 0; i < outputs.size(); ++i) complete = typed(node.outputs[i], outputs[i]) && complete;
    for (size_t i = 0; i < inputs.size(); ++i) {
      complete = typed(node.inputs[i], inputs[i]) && complete;
      parameter[i] = graph_.is_constant(node.inputs[i]);
      if (const auto found = map_.values.find(node.inputs[i]); found != map_.values.end()) ids[i] = found->second;
      if (parameter[i])
        values[i] = graph_.tensor(node.inputs[i]);
      else if (const auto found = map_.shapes.values.find(node.inputs[i]); found != map_.shapes.values.end())
        values[i] = found->second;
    }
    if (!complete) return freeze_inputs(node, fmt::format("the shapes of {} are not known", describe(node)));
    // A target shape that is computed, but of extents alone: its entries are known, and those that count channels are
    // given anew where these are removed (passes/remove_channels).
    const size_t target = traits_of(node).target_shape;
    const bool computed_target =
        target > 0 && target < inputs.size() && !parameter[target] && values[target].defined() && ids[0].defined();
    if (computed_target) parameter[target] = true;
    LabelContext context(node, index, inputs, outputs, ids, values, {parameter.get(), inputs.size()}, map_.sets,
                         map_.slots);
    if (const auto norm = norms_.find(index); norm != norms_.end() && ids[0].defined())
      keep_normalized(norm->second, node, ids[0]);
    const size_t slots = map_.slots.size();
    const int64_t made = map_.sets.size();
    const auto give_up = [&](const std::string& reason) {
      map_.slots.resize(slots);
      for (int64_t id = made; id < map_.sets.size(); ++id) map_.sets.freeze(id, reason);
      freeze_inputs(node, reason);
    };
    for (const auto& capture : node.captures)
      freeze_value(capture, fmt::format("the subgraph of {} reads it", describe(node)));
    try {
      const MemoryScope scope(kRuleBytes);
      op->labels(context);
      if (computed_target) check_target(node, context.out_ids.at(0));
      keep_ids(node, context.out_ids);
    } catch (const OutOfMemory&) {
      give_up(fmt::format("{} makes more of it than is followed", describe(node)));
    } catch (const Error& error) {
      give_up(error.what());
    } catch (const std::exception&) {
      give_up(fmt::format("{} has inputs that do not fit it", describe(node)));
    }
  }

  // Over which axis it reduces decides; the rule of ReduceMean would only speak of itself.
  void keep_normalized(const LayerNorm& norm, const Node& mean, const at::Tensor& ids) {
    if (!mean.has_input(1) || !graph_.is_constant(mean.inputs[1]) || graph_.tensor(mean.inputs[1]).numel() != 1) return;
    const int64_t axis = graph_.tensor(mean.inputs[1]).item<int64_t>(), from_front = axis < 0 ? axis + ids.dim() : axis;
    if (from_front < 0 || from_front >= ids.dim() || ids.size(from_front) != ids.numel()) return;
    const std::string reason = fmt::format("the layer norm from {} to {} mixes all channels", describe(mean),
                                           describe(graph_.nodes[norm.last]));
    const at::Tensor flat = ids.contiguous();
    for (int64_t i = 0; i < flat.numel(); ++i) map_.sets.keep(flat.data_ptr<int64_t>()[i], reason);
  }

  // Channels may lie only along axes of a computed target that are as long for any batch and any size.
  void check_target(const Node& node, const at::Tensor& ids) {
    if (!ids.defined()) return;
    const at::Tensor here = map_.shapes.values.at(node.inputs[1]), there = other_value(node.inputs[1]);
    const int64_t offset = ids.dim() - here.numel();  // Expand's shape may have fewer axes
    for (int64_t axis = 0; axis < ids.dim(); ++axis) {
      if (ids.size(axis) == 1 || axis < offset) continue;
      const bool fixed = there.defined() && there.numel() == here.numel() &&
                         here[axis - offset].item<int64_t>() == there[axis - offset].item<int64_t>();
      if (!fixed)
        throw Error(ErrorKind::unsupported, describe(node),
                    "lays channels along an axis whose extent depends on sizes");
    }
  }

  // What a value that shapes fix is for two samples of another size; undefined where that is not known.
  at::Tensor other_value(const std::string& name) {
    if (!other_) {
      ShapeOptions options{.batch = 2};
      for (const auto& input : graph_.inputs) {
        const TensorType* type = map_.shapes.find(input.name);
        if (type == nullptr || !input.dims) continue;
        Shape& shape = options.inputs[input.name] = type->dims;
        for (size_t i = 0; i < shape.size(); ++i) {
          const Dim& dim = (*input.dims)[i];
          const bool of_batch = i == 0 || (!dim.fixed() && !map_.shapes.assumed.contains(input.name));
          if (!dim.fixed() || dim.assumed) shape[i] = of_batch ? 2 * shape[i] : shape[i] + 32;
        }
      }
      other_ = infer_shapes(graph_, options);
    }
    const auto found = other_->values.find(name);
    return found == other_->values.end() ? at::Tensor() : found->second;
  }

  // Ids that vary along one axis are few, whatever the extents of a value. Where they vary along many and there are too
  // many to hold, the value carries none.
  void keep_ids(const Node& node, const std::vector<at::Tensor>& ids) {
    int64_t count = held_;
    for (const auto& of_output : ids)
      if (of_output.defined()) count += of_output.numel();
    if (count > kMostIds)
      throw OutOfMemory(8 * static_cast<uint64_t>(count), 8 * static_cast<uint64_t>(held_), 8 * kMostIds);
    held_ = count;
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i].defined() && !node.outputs[i].empty()) map_.values[node.outputs[i]] = ids[i];
  }

  // A weight that several layers share is sliced once for all of them. Vectors (biases, batch-norm parameters, which
  // exporters alias when they are equal) are copied instead when their readers disagree.
  void unite_shared_weights() {
    std::map<std::pair<std::string, int64_t>, const Slot*> first;
    for (const auto& slot : map_.slots) {
      if (slot.role == SlotRole::pass || graph_.tensor(slot.tensor).dim() < 2) continue;
      const auto [found, is_new] = first.emplace(std::pair{slot.tensor, slot.axis}, &slot);
      if (is_new) continue;
      for (size_t i = 0; i < slot.ids.size(); ++i)
        map_.sets.unite(found->second->ids[i], slot.ids[i],
                        fmt::format("the weight '{}' is shared with a layer whose channels stay", slot.tensor));
    }
  }

  // An exchange moves the entries of a tensor for all of its readers: those that do not know of its channels would be
  // deceived.
  void freeze_weights_read_elsewhere() {
    std::map<std::string, std::set<std::pair<size_t, size_t>>> readers;
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      for (size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i)
        if (graph_.is_constant(graph_.nodes[n].inputs[i])) readers[graph_.nodes[n].inputs[i]].insert({n, i});
    std::map<std::pair<std::string, int64_t>, std::set<std::pair<size_t, size_t>>> known;
    for (const Slot& slot : map_.slots) known[{slot.tensor, slot.axis}].insert({slot.node, slot.input});
    for (const Slot& slot : map_.slots)
      if (known[{slot.tensor, slot.axis}].size() < readers[slot.tensor].size())
        for (const int64_t id : slot.ids)
          map_.sets.freeze(id, fmt::format("'{}' is read by a node that knows no channels in it", slot.tensor));
  }

  // A value whose channels vary along several axes (a channel shuffle between its two reshapes) can only lose whole
  // slices along one of them. Take the axis that leaves the most freedom and unite along the others.
  void unite_to_one_axis() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [name, raw] : map_.values) {
        const at::Tensor ids = compress_ids(representatives(raw));
        int64_t axes = 0;
        for (int64_t a = 0; a < ids.dim(); ++a) axes += ids.size(a) > 1 ? 1 : 0;
        if (axes < 2) continue;
        int64_t best = -1;
        size_t most = 0;
        for (int64_t a = 0; a < ids.dim(); ++a) {
          if (ids.size(a) == 1) continue;
          const size_t free = sets_along(ids, a);
          if (best < 0 || free > most) best = a, most = free;
        }
        const at::Tensor rows = ids.movedim(best, 0).reshape({ids.size(best), -1}).contiguous();
        for (int64_t r = 0; r < rows.size(0); ++r)
          for (int64_t k = 1; k < rows.size(1); ++k)
            changed |= map_.sets.unite(rows.data_ptr<int64_t>()[r * rows.size(1)],
                                       rows.data_ptr<int64_t>()[r * rows.size(1) + k],
                                       "it is tied to a part that is not a channel");
      }
    }
  }

  // How many sets remain when everything at one place of `axis` is united.
  static size_t sets_along(const at::Tensor& ids, int64_t axis) {
    const at::Tensor rows = ids.movedim(axis, 0).reshape({ids.size(axis), -1}).contiguous();
    std::unordered_map<int64_t, int64_t> parent;
    const auto find = [&](int64_t id) {
      parent.try_emplace(id, id);
      while (parent[id] != id) id = parent[id] = parent[parent[id]];
      return id;
    };
    for (int64_t r = 0; r < rows.size(0); ++r)
      for (int64_t k = 0; k < rows.size(1); ++k)
        parent[find(rows.data_ptr<int64_t>()[r * rows.size(1) + k])] = find(rows.data_ptr<int64_t>()[r * rows.size(1)]);
    std::set<int64_t> roots;
    for (const auto& [id, up] : parent) roots.insert(find(id));
    return roots.size();
  }

  // Layers whose channels were united form one group.
  void collect_groups() {
    std::map<size_t, size_t> leader;  // origin node -> origin node that leads its group
    const auto find = [&](size_t node) {
      leader.try_emplace(node, node);
      while (leader[node] != node) node = leader[node] = leader[leader[node]];
      return node;
    };
    for (int64_t id = 0; id < map_.sets.size(); ++id) {
      size_t a = find(map_.sets.origin(id));
      size_t b = find(map_.sets.origin(map_.sets.find(id)));
      if (a != b) leader[std::max(a, b)] = std::min(a, b);
    }
    std::map<size_t, ChannelGroup> groups;
    std::set<int64_t> listed;
    for (int64_t id = 0; id < map_.sets.size(); ++id) {
      const int64_t root = map_.sets.find(id);
      if (!listed.insert(root).second) continue;
      const size_t node = find(map_.sets.origin(root));
      ChannelGroup& group = groups[node];
      group.name = graph_.nodes[node].name;
      group.channels.push_back(ChannelId{root});
      if (!map_.sets.frozen(root)) continue;
      ++group.frozen;
      if (group.reason.empty()) group.reason = map_.sets.reason(root);
    }
    for (size_t s = 0; s < map_.slots.size(); ++s) {
      std::set<size_t> nodes;
      for (const int64_t id : map_.slots[s].ids)
        if (id != kUnlabelled) nodes.insert(find(map_.sets.origin(id)));
      for (const size_t node : nodes) {
        ChannelGroup& group = groups[node];
        auto& list = map_.slots[s].role == SlotRole::producer   ? group.producers
                     : map_.slots[s].role == SlotRole::consumer ? group.consumers
                                                                : group.passes;
        list.push_back(s);
      }
    }
    for (auto& [node, group] : groups) map_.groups.push_back(std::move(group));
  }

  static constexpr uint64_t kRuleBytes = 1ull << 30;  // that one rule may use
  static constexpr int64_t kMostIds = 1 << 23;        // that all values may hold

  const Graph& graph_;
  ChannelMap map_;
  int64_t held_ = 0;
  std::optional<Shapes> other_;        // of another batch and size
  std::map<size_t, LayerNorm> norms_;  // written out, by the node that they begin with
};

}  // namespace

ChannelMap analyze_channels(const Graph& graph, const ShapeOptions& options, ChannelUse use) {
  return ChannelAnalysis(graph, options, use).run();
}

std::string why_no_channels(const Graph& graph, const ChannelMap& map) {
  std::map<std::string, int> unknown;  // nodes by operator
  std::vector<std::string> bodies;
  for (const auto& node : graph.nodes) {
    if (find_op(node) == nullptr) ++unknown[node.op];
    if (has_subgraph(node)) bodies.push_back(describe(node));
  }
  if (unknown.empty() && !bodies.empty())
    return fmt::format(
        "no layer outside the subgraphs of {} makes channels, and those inside stay as they are; where an input "
        "decides "
        "which of them runs, convert with `bind` makes it a constant",
        fmt::join(bodies, ", "));
  if (unknown.empty() && !map.shapes.unknown.empty())
    return "shapes are not known; say the inputs' by `input-shape` NAME=1x3xHxW";
  if (unknown.empty()) return "no layer makes channels";
  std::vector<std::string> list;
  for (const auto& [op, count] : unknown)
    list.push_back(fmt::format("{} ({} {})", op, count, count == 1 ? "node" : "nodes"));
  return fmt::format("no layer that is understood makes channels; there is no rule for {}", fmt::join(list, ", "));
}

at::Tensor keep_mask(const ChannelMap& map, const std::string& value, const std::set<ChannelId>& removed) {
  const auto found = map.values.find(value);
  if (found == map.values.end()) return {};
  return map_ids<bool>(found->second,
                       [&](int64_t id) { return id == kUnlabelled || !removed.contains(ChannelId{id}); });
}

}  // namespace pare
