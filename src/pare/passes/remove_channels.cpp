#include "pare/passes/remove_channels.h"

#include <ATen/ATen.h>

#include "pare/error.h"

namespace pare {

namespace {

class Removal {
 public:
  Removal(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed)
      : graph_(graph), map_(map), removed_(removed), result_(graph) {}

  Graph run() {
    for (const ChannelId id : removed_)
      if (map_.sets.find(static_cast<int64_t>(id)) != static_cast<int64_t>(id) ||
          map_.sets.frozen(static_cast<int64_t>(id)))
        throw Error(ErrorKind::usage, "remove_channels", "channel {} may not be removed: {}", static_cast<int64_t>(id),
                    map_.sets.reason(static_cast<int64_t>(id)));
    for (const auto& node : graph_.nodes)
      for (const auto& output : node.outputs) check_some_left(node, output);
    slice_parameters();
    for (auto& node : result_.nodes) rewrite(node);
    correct_targets();
    return remove_unused(std::move(result_));
  }

 private:
  bool is_kept(int64_t id) const { return id == kUnlabelled || !removed_.contains(ChannelId{id}); }

  // A part of a Split, or what a Slice takes, may be all of it removed while its producer keeps others.
  void check_some_left(const Node& node, const std::string& value) const {
    const at::Tensor keep = keep_mask(map_, value, removed_);
    if (keep.defined() && !keep.any().item<bool>())
      throw Error(ErrorKind::shape, describe(node), "no channel of its output '{}' would be left", value);
  }

  // Every use of a parameter is sliced as its slots say; equal slices of one tensor are made once. The first slice
  // keeps the tensor's name, others (readers that disagree) get names of their own.
  void slice_parameters() {
    std::map<std::pair<size_t, size_t>, std::vector<const Slot*>> uses;  // (node, input)
    for (const auto& slot : map_.slots) uses[{slot.node, slot.input}].push_back(&slot);
    std::map<std::pair<std::string, std::string>, std::string> made;  // (tensor, signature) -> new name
    std::set<std::string> taken;                                      // names whose tensor is sliced or must stay whole
    for (const auto& node : graph_.nodes) taken.insert(node.captures.begin(), node.captures.end());
    std::erase_if(uses, [&](const auto& use) { return !loses_channels(use.second); });
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      for (size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i)
        if (!uses.contains({n, i})) taken.insert(graph_.nodes[n].inputs[i]);
    for (const auto& [use, slots] : uses) {
      const std::string& name = graph_.nodes[use.first].inputs[use.second];
      std::string signature;
      at::Tensor tensor = graph_.tensor(name);
      for (const Slot* slot : slots) tensor = sliced(tensor, *slot, signature);
      const auto [found, is_new] = made.try_emplace({name, signature}, name);
      if (is_new) {
        if (!taken.insert(name).second) found->second = fresh_name(result_, name + "_sliced");
        result_.tensors[found->second] = tensor;
        if (const auto type = result_.carried.find(name); type != result_.carried.end())
          result_.carried[found->second] = int32_t{type->second};
      }
      result_.nodes[use.first].inputs[use.second] = found->second;
    }
  }

  bool loses_channels(const std::vector<const Slot*>& slots) const {
    for (const Slot* slot : slots)
      for (const int64_t id : slot->ids)
        if (!is_kept(id)) return true;
    return false;
  }

  at::Tensor sliced(const at::Tensor& tensor, const Slot& slot, std::string& signature) const {
    std::vector<int64_t> kept;
    signature += fmt::format("axis {}:", slot.axis);
    for (size_t i = 0; i < slot.ids.size(); ++i) {
      if (is_kept(slot.ids[i]))
        kept.push_back(static_cast<int64_t>(i));
      else
        signature += fmt::format(" {}", i);
    }
    if (kept.size() == slot.ids.size()) return tensor;
    if (kept.empty())
      throw Error(ErrorKind::shape, describe(graph_.nodes[slot.node]), "no channel of '{}' would be left", slot.tensor);
    return at::index_select(tensor, slot.axis, at::tensor(kept, at::kLong));
  }

  void rewrite(Node& node) {
    const OpDef* op = find_op(node);
    if (op == nullptr || op->rewrite == nullptr) return;
    std::vector<TensorType> inputs(node.inputs.size());
    std::vector<TensorType> outputs(node.outputs.size());
    std::vector<at::Tensor> input_keep(node.inputs.size());
    std::vector<at::Tensor> output_keep(node.outputs.size());
    bool any = false;
    const auto fill = [&](const std::string& value, TensorType& type, at::Tensor& keep) {
      if (value.empty()) return;
      if (const TensorType* found = map_.shapes.find(value)) type = *found;
      keep = keep_mask(map_, value, removed_);
      if (keep.defined() && keep.all().item<bool>()) keep = at::Tensor();
      any = any || keep.defined();
    };
    for (size_t i = 0; i < inputs.size(); ++i) fill(node.inputs[i], inputs[i], input_keep[i]);
    for (size_t i = 0; i < outputs.size(); ++i) fill(node.outputs[i], outputs[i], output_keep[i]);
    if (!any) return;
    if (const size_t target = op->traits.target_shape; target > 0 && !graph_.is_constant(node.inputs[target]))
      return note_target(node, outputs[0], output_keep[0]);
    RewriteContext context{node, result_, inputs, outputs, input_keep, output_keep};
    op->rewrite(context);
  }

  // The entries of a computed target shape that count what is left of channels.
  void note_target(const Node& node, const TensorType& output, const at::Tensor& keep) {
    if (!keep.defined()) return;
    const int64_t entries = map_.shapes.find(node.inputs[1])->count(), offset = output.rank() - entries;
    at::Tensor counts = at::zeros({entries}, at::kLong);
    const at::Tensor& asked = map_.shapes.values.at(node.inputs[1]);
    for (int64_t i = 0; i < entries; ++i)
      if (keep.size(i + offset) > 1 && asked[i].item<int64_t>() > 1)  // 0 and −1 follow by themselves
        counts[i] = static_cast<int64_t>(RewriteContext::kept(keep, output.dims, i + offset).size());
    if (counts.any().item<bool>()) targets_.emplace(node.name, counts);
  }

  // Before each such node: where an entry counts channels, what is left of them; else what was computed.
  void correct_targets() {
    if (targets_.empty()) return;
    std::vector<Node> nodes;
    nodes.swap(result_.nodes);
    for (auto& node : nodes) {
      if (const auto found = targets_.find(node.name); found != targets_.end()) {
        const std::string base = node.name + "_shape";
        Node where{.name = fresh_name(result_, base), .op = "Where"};
        where.inputs = {fresh_name(result_, base + "_counts"), fresh_name(result_, base + "_kept"), node.inputs[1]};
        where.outputs = {fresh_name(result_, base + "_left")};
        result_.tensors[where.inputs[0]] = found->second.gt(0);
        result_.tensors[where.inputs[1]] = found->second;
        node.inputs[1] = where.outputs[0];
        result_.nodes.push_back(std::move(where));
      }
      result_.nodes.push_back(std::move(node));
    }
  }

  const Graph& graph_;
  const ChannelMap& map_;
  const std::set<ChannelId>& removed_;
  Graph result_;
  std::map<std::string, at::Tensor> targets_;  // by node: what its target shape has to say, 0 where it is right
};

}  // namespace

Graph remove_channels(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed) {
  return Removal(graph, map, removed).run();
}

}  // namespace pare
