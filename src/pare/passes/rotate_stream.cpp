#include "pare/passes/rotate_stream.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "pare/error.h"
#include "pare/ops/traits.h"

namespace pare {

namespace {

at::Tensor index_of(const std::vector<int64_t>& places) { return at::tensor(places, at::kLong); }

class Rotation {
 public:
  Rotation(const Graph& graph, const Streams& streams, const Stream& stream, const at::Tensor& basis)
      : graph_(graph), map_(streams.map), stream_(stream), basis_(basis.to(at::kDouble)), result_(graph) {
    for (const Node& node : graph.nodes)
      for (const auto& input : node.inputs)
        if (graph.is_constant(input)) ++readers_[input];
  }

  Graph run() {
    find_normed();
    for (const size_t s : stream_.readers) fold_norm(map_.slots[s]);
    for (const size_t n : stream_.norms) plain_norm(n);
    for (const size_t s : stream_.writers) write(map_.slots[s]);
    for (const size_t s : stream_.readers) rotate(map_.slots[s], basis_);
    insert_shifts();
    return remove_unused(sort_topologically(std::move(result_)));
  }

 private:
  // Which norm a value comes from, moved or not.
  void find_normed() {
    for (const size_t n : stream_.norms) normed_.emplace(graph_.nodes[n].outputs[0], n);
    for (const Node& node : graph_.nodes)
      for (const auto& input : node.inputs) {
        const auto from = normed_.find(input);
        if (from == normed_.end() || reads_with_slot(node)) continue;
        for (const auto& output : node.outputs)
          if (map_.values.contains(output)) normed_.emplace(output, from->second);
      }
  }

  bool reads_with_slot(const Node& node) const {
    return std::any_of(stream_.readers.begin(), stream_.readers.end(),
                       [&](size_t s) { return &graph_.nodes[map_.slots[s].node] == &node; });
  }

  const at::Tensor& tensor_of(const Slot& slot) const {
    return result_.tensor(result_.nodes[slot.node].inputs[slot.input]);
  }

  // Gives the node a tensor of its own, under the old name where nobody else reads that.
  void replace(size_t node, size_t input, const at::Tensor& value) {
    std::string& name = result_.nodes[node].inputs[input];
    const auto type = result_.tensor(name).scalar_type();
    if (const auto found = readers_.find(name); found != readers_.end() && found->second > 1) {
      --found->second;
      name = fresh_name(result_, name + "_rotated");
    }
    result_.tensors[name] = value.to(type).contiguous();
  }

  // T along the slot's axis: [.., i] becomes Σ_i T[.., i] M[i, j].
  void rotate(const Slot& slot, const at::Tensor& matrix) {
    const at::Tensor last = tensor_of(slot).to(at::kDouble).movedim(slot.axis, -1);
    at::Tensor turned = last.clone();
    for (const auto& places : places_of(slot.ids, stream_.ids)) {
      const at::Tensor index = index_of(places);
      turned.index_copy_(turned.dim() - 1, index, at::matmul(last.index_select(-1, index), matrix));
    }
    replace(slot.node, slot.input, turned.movedim(-1, slot.axis));
  }

  void write(const Slot& slot) {
    const auto width = static_cast<double>(stream_.width());
    rotate(slot, stream_.centred ? basis_ - basis_.sum(0, /*keepdim=*/true) / width : basis_);
  }

  // The norm's parameter along the entries of the slot: by place where the slot lists what the norm does, else by
  // channel.
  at::Tensor parameter_along(const Slot& slot, const Node& norm, size_t input) const {
    const at::Tensor ids = map_.values.at(norm.inputs[0]).flatten().contiguous();
    const std::vector<int64_t> listed(ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel());
    const at::Tensor values = graph_.tensor(norm.inputs[input]).to(at::kDouble).expand({ids.numel()});
    if (listed == slot.ids) return values;
    std::map<int64_t, int64_t> place;
    for (size_t i = 0; i < listed.size(); ++i)
      if (!place.emplace(listed[i], static_cast<int64_t>(i)).second)
        throw Error(ErrorKind::unsupported, describe(graph_.nodes[slot.node]),
                    "reads what {} gives in another order than it lies there", describe(norm));
    std::vector<int64_t> index;
    for (const int64_t id : slot.ids) {
      const auto found = place.find(id);
      index.push_back(found == place.end() ? -1 : found->second);
    }
    const at::Tensor at = index_of(index);
    return at::where(at >= 0, values.index_select(0, at.clamp_min(0)),
                     at::full({}, input == 1 ? 1.0 : 0.0, at::kDouble));
  }

  void fold_norm(const Slot& slot) {
    const Node& reader = graph_.nodes[slot.node];
    const std::string& value = reader.inputs.at(1 - std::min<size_t>(slot.input, 1));
    const auto from = normed_.find(value);
    if (from == normed_.end()) return;
    const Node& norm = graph_.nodes[from->second];
    const at::Tensor weight = tensor_of(slot).to(at::kDouble);
    if (norm.has_input(2) && graph_.tensor(norm.inputs[2]).ne(0).any().item<bool>())
      shift(slot, weight, parameter_along(slot, norm, 2));
    Shape dims(static_cast<size_t>(weight.dim()), 1);
    dims[static_cast<size_t>(slot.axis)] = weight.size(slot.axis);
    replace(slot.node, slot.input, weight * parameter_along(slot, norm, 1).reshape(dims));
  }

  // What the reader makes of the norm's shift is added to what it gives.
  void shift(const Slot& slot, const at::Tensor& weight, const at::Tensor& shift) {
    const Node& reader = graph_.nodes[slot.node];
    const auto layer = linear_layer(reader, slot.input, weight.dim());
    if (!layer || layer->transposed)
      throw Error(ErrorKind::unsupported, describe(reader), "can't take over the shift of a norm");
    if (layer->is_convolution()) {
      for (const int64_t pad : reader.integers("pads"))
        if (pad != 0)
          throw Error(ErrorKind::unsupported, describe(reader), "pads what the shift of a norm has been added to");
    }
    at::Tensor sums = at::matmul(weight.movedim(slot.axis, -1), shift) * layer->alpha;  // the in axis is gone
    if (layer->is_convolution()) {
      while (sums.dim() > 1) sums = sums.sum(-1);
      sums = sums.reshape({-1, 1, 1});
    } else if (layer->value_axis == -2) {
      sums = sums.unsqueeze(-1);
    } else if (sums.dim() > 1) {
      sums = sums.unsqueeze(-2);
    }
    shifts_[slot.node] = sums.to(graph_.tensor(reader.inputs[slot.input]).scalar_type());
  }

  void plain_norm(size_t n) {
    Node& node = result_.nodes[n];
    const at::Tensor& scale = graph_.tensor(node.inputs.at(1));
    const int64_t width = map_.values.at(node.inputs[0]).numel();
    node.op = "RMSNormalization";
    node.inputs.resize(2);
    node.inputs[1] = fresh_name(result_, node.name + ".ones");
    result_.tensors[node.inputs[1]] = at::ones({width}, scale.options());
    std::erase_if(node.attributes, [](const auto& entry) { return entry.first != "axis" && entry.first != "epsilon"; });
  }

  // Into the sum with a constant that follows, or a sum of its own.
  void insert_shifts() {
    const Usage usage = usage_of(graph_);
    for (const auto& [n, shift] : shifts_) {
      const std::string value = graph_.nodes[n].outputs[0];
      const auto consumers = usage.consumers.find(value);
      if (consumers != usage.consumers.end() && consumers->second.size() == 1) {
        const size_t next = consumers->second[0];
        const Node& sum = result_.nodes[next];
        const size_t constant = sum.inputs[0] == value ? 1 : 0;
        if (sum.op == "Add" && sum.domain.empty() && result_.is_constant(sum.inputs[constant])) {
          const at::Tensor before = result_.tensor(sum.inputs[constant]);
          if (before.numel() == shift.numel() && before.numel() == before.size(-1) && shift.numel() == shift.size(-1)) {
            replace(next, constant,
                    (before.to(at::kDouble).flatten() + shift.to(at::kDouble).flatten()).reshape(before.sizes()));
            continue;
          }
        }
      }
      Node add{.name = fresh_name(result_, graph_.nodes[n].name + "_shift"), .op = "Add"};
      const std::string before = fresh_name(result_, value + "_unshifted"),
                        constant = fresh_name(result_, graph_.nodes[n].name + "_shift_by");
      result_.tensors[constant] = shift;
      result_.nodes[n].outputs[0] = before;
      add.inputs = {before, constant};
      add.outputs = {value};
      result_.nodes.push_back(std::move(add));
    }
  }

  const Graph& graph_;
  const ChannelMap& map_;
  const Stream& stream_;
  const at::Tensor basis_;
  Graph result_;
  std::map<std::string, size_t> readers_;  // of constants: how many nodes read them
  std::map<std::string, size_t> normed_;   // values, and the norm that they come from
  std::map<size_t, at::Tensor> shifts_;    // what is added to the output of a node
};

// The node before the moves that lead to a value, if each has no other reader.
const Node* made_before_moves(const Graph& graph, const Usage& usage, std::string value) {
  while (true) {
    const auto made = usage.producer.find(value);
    if (made == usage.producer.end()) return nullptr;
    const Node& node = graph.nodes[made->second];
    const bool bias = kind_of(node) == OpKind::sum && node.inputs.size() == 2 &&
                      (graph.is_constant(node.inputs[0]) || graph.is_constant(node.inputs[1]));
    if (!bias && !moves_elements(kind_of(node)) && kind_of(node) != OpKind::same) return &node;
    value = bias && graph.is_constant(node.inputs[0]) ? node.inputs[1] : node.inputs[0];
  }
}

}  // namespace

Graph rotate_stream(const Graph& graph, const Streams& streams, const Stream& stream, const at::Tensor& basis) {
  if (!stream.reason.empty()) throw Error(ErrorKind::unsupported, stream.name, "can't be rotated: {}", stream.reason);
  if (basis.dim() != 2 || basis.size(0) != stream.width() || basis.size(1) != stream.width())
    throw Error(ErrorKind::shape, stream.name, "a stream of {} channels takes a basis as wide", stream.width());
  return Rotation(graph, streams, stream, basis).run();
}

Graph part_first_norms(const Graph& graph) {
  const Usage usage = usage_of(graph);
  Graph result = graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_stream_norm(node) || !graph.is_constant(node.inputs.at(1))) continue;
    const Node* before = made_before_moves(graph, usage, node.inputs[0]);
    const auto readers = usage.consumers.find(node.outputs[0]);
    if (before == nullptr || kind_of(*before) != OpKind::linear || readers == usage.consumers.end()) continue;
    const bool summed = std::any_of(readers->second.begin(), readers->second.end(),
                                    [&](size_t reader) { return kind_of(graph.nodes[reader]) == OpKind::sum; });
    const at::Tensor scale = graph.tensor(node.inputs[1]);
    if (!summed || scale.dim() != 1) continue;
    const std::string value = node.outputs[0];
    Node layer{.name = fresh_name(result, node.name + "_scale"), .op = "MatMul"};
    layer.inputs = {fresh_name(result, value + "_plain"), fresh_name(result, node.name + "_diagonal")};
    result.tensors[layer.inputs[1]] = at::diag(scale).contiguous();
    result.nodes[n].outputs[0] = layer.inputs[0];
    result.nodes[n].inputs[1] = fresh_name(result, node.name + "_ones");
    result.tensors[result.nodes[n].inputs[1]] = at::ones_like(scale);
    if (!node.has_input(2)) {
      layer.outputs = {value};
      result.nodes.push_back(std::move(layer));
      continue;
    }
    Node add{.name = fresh_name(result, node.name + "_shift"), .op = "Add"};
    layer.outputs = {fresh_name(result, value + "_scaled")};
    add.inputs = {layer.outputs[0], node.inputs[2]};
    add.outputs = {value};
    result.nodes[n].inputs.resize(2);
    result.nodes.push_back(std::move(layer));
    result.nodes.push_back(std::move(add));
  }
  return sort_topologically(std::move(result));
}

}  // namespace pare
