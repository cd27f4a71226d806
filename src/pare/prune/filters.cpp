#include "pare/prune/filters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "pare/ops/op.h"

namespace pare {

at::Tensor rows_by_channel(const Graph& graph, const ChannelGroup& group, const Slot& slot, at::ScalarType type) {
  std::map<int64_t, std::vector<int64_t>> places;
  for (size_t i = 0; i < slot.ids.size(); ++i) places[slot.ids[i]].push_back(static_cast<int64_t>(i));
  size_t most = 0;
  for (const ChannelId id : group.channels)
    if (const auto found = places.find(static_cast<int64_t>(id)); found != places.end())
      most = std::max(most, found->second.size());
  const at::Tensor tensor = graph.tensor(slot.tensor).to(type).movedim(slot.axis, 0);
  at::Tensor flat = tensor.reshape({tensor.size(0), -1});
  std::vector<int64_t> index;
  for (const ChannelId id : group.channels) {
    const auto found = places.find(static_cast<int64_t>(id));
    for (size_t j = 0; j < most; ++j)
      index.push_back(found != places.end() && j < found->second.size() ? found->second[j] : flat.size(0));
  }
  bool as_stored = static_cast<int64_t>(index.size()) == flat.size(0) && most == 1;
  for (size_t i = 0; i < index.size(); ++i) as_stored = as_stored && index[i] == static_cast<int64_t>(i);
  if (as_stored) return flat;
  // A row of zeros after the last stands for places that a channel does not have.
  const at::Tensor padded = at::cat({flat, at::zeros({1, flat.size(1)}, type)});
  return padded.index_select(0, at::tensor(index, at::kLong))
      .reshape({static_cast<int64_t>(group.channels.size()), -1});
}

ChannelFunction activation_function(const Graph& graph, const Node& node) {
  std::vector<at::Tensor> constants;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.has_input(i) && !graph.is_constant(node.inputs[i])) return {};
    constants.push_back(node.has_input(i) ? graph.tensor(node.inputs[i]) : at::Tensor());
  }
  return [node, constants, op = &require_op(node)](const at::Tensor& x) {
    std::vector<at::Tensor> inputs = {x};
    for (const auto& constant : constants)
      inputs.push_back(constant.defined() ? constant.to(x.scalar_type()) : constant);
    return op->evaluate({.node = node, .inputs = inputs})[0];
  };
}

namespace {

// The same function of every channel.
bool is_activation(const Node& node) {
  const OpTraits& traits = traits_of(node);
  return traits.kind == OpKind::activation && !traits.learned.contains(1);
}

// Follows one layer's output to its first reader that mixes channels.
class Path {
 public:
  Path(const Graph& graph, const ChannelGroup& group, const Usage& usage, GroupFilters& filters)
      : graph_(graph), group_(group), usage_(usage), filters_(filters) {}

  void follow(size_t node) {
    for (auto next = step(node); next; next = step(*next)) continue;
  }

 private:
  // x·f(x), as exporters write SiLU: both readers of x, and one of them reads the other.
  std::optional<size_t> gated(size_t node) {
    const std::string& value = graph_.nodes[node].outputs.front();
    const auto readers = usage_.consumers.find(value);
    if (readers == usage_.consumers.end() || readers->second.size() != 2) return {};
    for (const auto& [gate, product] :
         {std::pair{readers->second[0], readers->second[1]}, std::pair{readers->second[1], readers->second[0]}}) {
      const Node& g = graph_.nodes[gate];
      const Node& p = graph_.nodes[product];
      if (!is_activation(g) || p.op != "Mul" || only_reader(graph_, usage_, gate) != product) continue;
      const ChannelFunction inner = activation_function(graph_, g);
      if (!inner) return {};
      filters_.activation = [inner](const at::Tensor& x) { return x * inner(x); };
      return product;
    }
    return {};
  }

  std::optional<size_t> step(size_t node) {
    const auto reader = only_reader(graph_, usage_, node);
    if (!reader) return gated(node);
    const Node& next = graph_.nodes[*reader];
    if (const auto norm = norm_parameters(graph_, *reader); norm && !filters_.activation && !filters_.norm) {
      filters_.norm = norm;
      return reader;
    }
    if (is_activation(next) && !filters_.activation) {
      filters_.activation = activation_function(graph_, next);
      return filters_.activation ? reader : std::nullopt;
    }
    if (next.op == "Conv" && !filters_.depthwise.defined() && take_depthwise(next)) return reader;
    return {};
  }

  // The pointwise layer and the depthwise one after it count as one convolution: the batch norm between them scales
  // the pointwise filters, what follows the depthwise layer takes its place.
  bool take_depthwise(const Node& node) {
    const auto channels = static_cast<int64_t>(group_.channels.size());
    if (!graph_.is_constant(node.inputs[1]) || node.integer("group", 1) != channels) return false;
    const at::Tensor& kernel = graph_.tensor(node.inputs[1]);
    if (kernel.size(0) != channels) return false;
    filters_.depthwise = kernel.to(at::kDouble).reshape({channels, -1});
    if (filters_.norm) filters_.weight = filters_.weight * (filters_.norm->gamma / filters_.norm->sigma).unsqueeze(1);
    filters_.bias = node.has_input(2) && graph_.is_constant(node.inputs[2])
                        ? graph_.tensor(node.inputs[2]).to(at::kDouble)
                        : at::zeros({channels}, at::kDouble);
    filters_.norm.reset();
    filters_.activation = nullptr;
    return true;
  }

  const Graph& graph_;
  const ChannelGroup& group_;
  const Usage& usage_;
  GroupFilters& filters_;
};

// Weight and bias slots of one producing node.
struct Maker {
  const Slot* weight = nullptr;
  const Slot* bias = nullptr;
};

std::map<size_t, Maker> makers_of(const Graph& graph, const ChannelMap& map, const ChannelGroup& group) {
  std::map<size_t, Maker> makers;
  for (const size_t s : group.producers) {
    const Slot& slot = map.slots[s];
    (graph.tensor(slot.tensor).dim() >= 2 && slot.input == 1 ? makers[slot.node].weight : makers[slot.node].bias) =
        &slot;
  }
  std::erase_if(makers, [](const auto& entry) { return entry.second.weight == nullptr; });
  return makers;
}

// The rows of one of several producing layers, folded with the batch norm after it.
at::Tensor folded_rows(const Graph& graph, const ChannelGroup& group, const Usage& usage, size_t node,
                       const Maker& maker) {
  const Slot& slot = *maker.weight;
  Graph folded;  // just the two tensors, scaled
  at::Tensor weight = graph.tensor(slot.tensor).to(at::kDouble);
  at::Tensor bias = maker.bias != nullptr ? graph.tensor(maker.bias->tensor).to(at::kDouble) : at::Tensor();
  const auto reader = only_reader(graph, usage, node);
  const auto norm = reader ? norm_parameters(graph, *reader) : std::nullopt;
  std::optional<Slot> shift;
  if (maker.bias != nullptr) shift = *maker.bias;
  if (norm && norm->gamma.numel() == weight.size(slot.axis)) {
    const at::Tensor scale = norm->gamma / norm->sigma;
    std::vector<int64_t> dims(static_cast<size_t>(weight.dim()), 1);
    dims[static_cast<size_t>(slot.axis)] = -1;
    weight = weight * scale.reshape(dims);
    const at::Tensor old = bias.defined() && bias.numel() == scale.numel() ? bias.reshape({-1}) : at::zeros_like(scale);
    bias = norm->beta + scale * (old - norm->mean);
    shift = Slot{.tensor = "", .axis = 0, .ids = slot.ids};
  }
  folded.tensors["weight"] = weight;
  Slot rows = slot;
  rows.tensor = "weight";
  at::Tensor result = rows_by_channel(folded, group, rows);
  if (!shift) return result;
  folded.tensors["bias"] = bias;
  shift->tensor = "bias";
  return at::cat({result, rows_by_channel(folded, group, *shift)}, 1);
}

}  // namespace

at::Tensor GroupFilters::rows() const {
  return depthwise.defined() ? (weight.unsqueeze(2) * depthwise.unsqueeze(1)).flatten(1) : weight;
}

at::Tensor GroupFilters::vectors() const { return depthwise.defined() || norm ? rows() : folded(); }

at::Tensor GroupFilters::folded() const {
  if (!single() && !norm && !bias.any().item<bool>()) return rows();
  if (!norm) return at::cat({rows(), bias.unsqueeze(1)}, 1);
  const at::Tensor scale = norm->gamma / norm->sigma;
  const at::Tensor shift = scale * (bias - norm->mean) + norm->beta;
  return at::cat({rows() * scale.unsqueeze(1), shift.unsqueeze(1)}, 1);
}

GroupFilters group_filters(const Graph& graph, const ChannelMap& map, const ChannelGroup& group, at::ScalarType type) {
  GroupFilters filters;
  const Usage usage = usage_of(graph);
  const auto makers = makers_of(graph, map, group);
  const auto channels = static_cast<int64_t>(group.channels.size());
  const bool one = makers.size() == 1 && static_cast<int64_t>(makers.begin()->second.weight->ids.size()) == channels;
  if (!one) {
    std::vector<at::Tensor> parts = {at::zeros({channels, 0}, at::kDouble)};
    for (const auto& [node, maker] : makers) parts.push_back(folded_rows(graph, group, usage, node, maker));
    filters.weight = at::cat(parts, 1);
    filters.bias = at::zeros({channels}, at::kDouble);
    return filters;
  }
  const auto& [node, maker] = *makers.begin();
  const std::string& name = graph.nodes[node].name;
  filters.layer = name.empty() ? graph.nodes[node].outputs.front() : name;
  filters.weight = rows_by_channel(graph, group, *maker.weight, type);
  filters.bias = maker.bias != nullptr ? rows_by_channel(graph, group, *maker.bias).reshape({channels})
                                       : at::zeros({channels}, at::kDouble);
  Path(graph, group, usage, filters).follow(node);
  if (filters.norm) {  // a bias before a batch norm only moves its mean
    filters.norm->mean = filters.norm->mean - filters.bias;
    filters.bias = at::zeros_like(filters.bias);
  }
  return filters;
}

}  // namespace pare
