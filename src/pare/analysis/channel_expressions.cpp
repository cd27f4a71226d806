#include "pare/analysis/channel_expressions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>

#include "pare/analysis/expression_laws.h"
#include "pare/analysis/expression_moves.h"
#include "pare/analysis/expression_state.h"
#include "pare/analysis/layers.h"
#include "pare/ops/op.h"
#include "pare/ops/traits.h"

namespace pare {

namespace {

using Kind = ExpressionKind;

// How a node that makes channels of a weight does so: a linear layer, or one that looks rows up (Gather). Nothing of
// others (Einsum, attention that holds its own projections), whose channels are no rows.
std::optional<LinearLayer> maker_of(const Graph& graph, size_t n) {
  const Node& node = graph.nodes[n];
  for (const size_t weight : {size_t{0}, size_t{1}})
    if (node.has_input(weight) && graph.is_constant(node.inputs[weight]))
      if (auto layer = linear_layer(node, weight, graph.tensor(node.inputs[weight]).dim())) return layer;
  if (node.inputs.empty() || !graph.is_constant(node.inputs[0])) return {};
  return LinearLayer{.weight = 0, .out_axis = 1, .in_axis = 0, .value_axis = -1, .takes_bias = false};
}

class Propagation : private ExpressionState {
 public:
  Propagation(const Graph& graph, const ChannelMap& map) : ExpressionState(graph, map) {
    for (const Slot& slot : map.slots) {
      if (slot.role != SlotRole::pass) layers_.insert(slot.node);
      if (slot.role == SlotRole::producer && graph.tensor(slot.tensor).dim() >= 2 && maker_of(graph, slot.node))
        makers_.insert(slot.node);
    }
  }

  ChannelExpressions run() {
    for (size_t n = 0; n < graph.nodes.size(); ++n) visit(n);
    return std::move(result);
  }

 private:
  void visit(size_t n) {
    const Node& node = graph.nodes[n];
    for (const auto& output : node.outputs)
      if (!output.empty() && type(output) == nullptr) return;
    std::vector<Ids> outputs = made(n);
    if (outputs.empty()) outputs = passed(n);
    if (outputs.empty()) return note_unfolded(n);
    for (size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) result.values[node.outputs[i]] = compress_ids(outputs[i]);
  }

  // Channels that no rule follows through this node: nobody can fold them into a weight there.
  void note_unfolded(size_t n) {
    if (layers_.contains(n)) return;
    for (const auto& input : graph.nodes[n].inputs) {
      const auto found = map.values.find(input);
      if (found == map.values.end()) continue;
      const Ids labels = found->second.contiguous();
      for (int64_t i = 0; i < labels.numel(); ++i)
        result.unfolded.try_emplace(labels.data_ptr<int64_t>()[i], describe(graph.nodes[n]));
    }
  }

  // --- layers

  std::vector<Ids> made(size_t n) {
    if (!makers_.contains(n)) return {};
    const Node& node = graph.nodes[n];
    const Shape& dims = type(node.outputs[0])->dims;
    const auto rank = static_cast<int64_t>(dims.size());
    const LinearLayer layer = *maker_of(graph, n);
    const int64_t axis = (layer.value_axis + rank) % rank;
    const int64_t count = dims[static_cast<size_t>(axis)];
    const auto bias = biases(layer, node, count);
    if (!bias) return {};
    const int64_t groups = layer.groups;
    Ids made_ids = at::empty({count}, at::kLong);
    for (int64_t o = 0; o < count; ++o) {
      const int64_t part = o / (count / groups);
      const int64_t place = layer.transposed ? o % (count / groups) : o;
      made_ids.data_ptr<int64_t>()[o] =
          add({.kind = Kind::row, .node = n, .shift = (*bias)[static_cast<size_t>(o)], .place = place, .part = part});
    }
    Shape shape(dims.size(), 1);
    shape[static_cast<size_t>(axis)] = count;
    return {made_ids.reshape(shape)};
  }

  // One number per output; nothing where the bias is computed or no vector.
  std::optional<std::vector<double>> biases(const LinearLayer& layer, const Node& node, int64_t count) const {
    std::vector<double> bias(static_cast<size_t>(count), 0);
    if (!layer.takes_bias || !node.has_input(2)) return bias;
    if (!graph.is_constant(node.inputs[2])) return {};
    const at::Tensor b = graph.tensor(node.inputs[2]).to(at::kDouble).contiguous();
    if (b.numel() != 1 && (b.numel() != count || b.size(-1) != count)) return {};
    for (int64_t o = 0; o < count; ++o)
      bias[static_cast<size_t>(o)] = layer.beta * b.data_ptr<double>()[b.numel() == 1 ? 0 : o];
    return bias;
  }

  // --- what passes channels on

  std::vector<Ids> passed(size_t n) {
    const Node& node = graph.nodes[n];
    const OpKind kind = kind_of(node);
    if (!node.domain.empty() || node.inputs.empty()) return {};
    if (kind == OpKind::sum || kind == OpKind::product || kind == OpKind::choice) return combined(*this, n);
    if (node.op == "PRelu" && graph.is_constant(node.inputs[1])) return combined(*this, n);
    if (node.op == "Neg") return {mapped(ids(node.inputs[0]), [&](ExpressionId x) { return affine(n, x, -1, 0); })};
    if (is_batch_norm(node)) return normalized(n);
    if (kind == OpKind::join) return {joined(n)};
    if (moves_data(node)) return moved(n);
    if (const auto law = elementwise_law(graph, node)) return {applied(n, ids(node.inputs[0]), *law, true)};
    if (is_depthwise(n)) return filtered(n);
    if (node.op == "MatMul") return multiplied(*this, n);
    if (const auto law = window_law(graph, node)) return windowed(*this, n, *law);
    return {};
  }

  std::vector<Ids> normalized(size_t n) {
    const Node& node = graph.nodes[n];
    const auto norm = norm_parameters(graph, n);
    auto list = along_channels(node.inputs[0]);
    if (!norm || !list) return {};
    const auto number = [](const at::Tensor& t, size_t i) { return t.contiguous().data_ptr<double>()[i]; };
    for (size_t i = 0; i < list->size(); ++i)
      (*list)[i] =
          add({.kind = Kind::norm,
               .node = n,
               .operands = {(*list)[i]},
               .norm = {number(norm->gamma, i), number(norm->beta, i), number(norm->mean, i), number(norm->sigma, i)}});
    return {channel_ids(*list, type(node.inputs[0])->dims.size())};
  }

  bool is_depthwise(size_t n) const {
    const Node& node = graph.nodes[n];
    if (kind_of(node) != OpKind::linear || layers_.contains(n) || !graph.is_constant(node.inputs[1])) return false;
    const auto layer = maker_of(graph, n);
    return layer && layer->is_convolution();
  }

  std::vector<Ids> filtered(size_t n) {
    const Node& node = graph.nodes[n];
    const int64_t count = type(node.outputs[0])->dims[1];
    const auto list = along_channels(node.inputs[0]);
    const auto bias = biases(*maker_of(graph, n), node, count);
    if (!list || !bias) return {};
    const int64_t multiplier = count / static_cast<int64_t>(list->size());
    std::vector<ExpressionId> out;
    for (int64_t o = 0; o < count; ++o)
      out.push_back(add({.kind = Kind::depthwise,
                         .node = n,
                         .operands = {(*list)[static_cast<size_t>(o / multiplier)]},
                         .shift = (*bias)[static_cast<size_t>(o)],
                         .keeps_constants = !pads_with_zeros(node),
                         .place = o,
                         .part = o % multiplier}));
    return {channel_ids(out, type(node.outputs[0])->dims.size())};
  }

  // --- data that moves, and windows over it

  Ids joined(size_t n) {
    const Node& node = graph.nodes[n];
    const auto rank = static_cast<int64_t>(type(node.outputs[0])->dims.size());
    int64_t axis = node.integer("axis", 0);
    if (axis < 0) axis += rank;
    std::vector<Ids> parts;
    Shape extents(static_cast<size_t>(rank), 1);
    for (const auto& input : node.inputs) {
      parts.push_back(ids(input));
      for (int64_t a = 0; a < rank; ++a)
        extents[static_cast<size_t>(a)] = std::max(extents[static_cast<size_t>(a)], parts.back().size(a));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      extents[static_cast<size_t>(axis)] = type(node.inputs[i])->dims[static_cast<size_t>(axis)];
      parts[i] = parts[i].expand(extents);
    }
    return at::cat(parts, axis);
  }

  std::vector<Ids> moved(size_t n) {
    const Node& node = graph.nodes[n];
    const TensorType* known = type(node.inputs[0]);
    if (known == nullptr || graph.is_constant(node.inputs[0]) || known->count() > kLargestValue * 4) return {};
    std::vector<at::Tensor> others(node.inputs.size());
    for (size_t i = 1; i < others.size(); ++i) {
      if (!node.has_input(i)) continue;
      const auto value = map.shapes.values.find(node.inputs[i]);
      if (!graph.is_constant(node.inputs[i]) && value == map.shapes.values.end()) return {};
      others[i] = graph.is_constant(node.inputs[i]) ? graph.tensor(node.inputs[i]) : value->second;
    }
    std::vector<Ids> outputs;
    for (const MovedPlaces& to : move_places(node, others, ids(node.inputs[0]), known->dims, patterns_))
      outputs.push_back(placed(n, to, ids(node.inputs[0]).contiguous()));
    return outputs;
  }

  Ids placed(size_t n, const MovedPlaces& to, const Ids& from) {
    std::map<std::pair<ExpressionId, int64_t>, ExpressionId> made;
    Ids made_ids = at::empty(to.places.sizes(), at::kLong);
    for (int64_t i = 0; i < made_ids.numel(); ++i) {
      const ExpressionId x = from.data_ptr<int64_t>()[to.places.data_ptr<int64_t>()[i]];
      const int64_t pattern = to.patterns[static_cast<size_t>(i)];
      const auto [found, is_new] = made.try_emplace({x, pattern}, x);
      if (is_new && pattern >= 0)
        found->second = add({.kind = Kind::at, .node = n, .operands = {x}, .law = Law::average, .place = pattern});
      made_ids.data_ptr<int64_t>()[i] = found->second;
    }
    return made_ids;
  }

  std::set<size_t> layers_;  // nodes that make or read channels with a weight
  std::set<size_t> makers_;
  Patterns patterns_;
};

}  // namespace

std::vector<ExpressionId> ChannelExpressions::along(const std::string& value, int64_t axis, int64_t extent) const {
  const auto found = values.find(value);
  std::vector<ExpressionId> result(static_cast<size_t>(extent), kUnknown);
  if (found == values.end() || axis >= found->second.dim() || found->second.numel() != found->second.size(axis))
    return result;
  const at::Tensor flat = found->second.flatten().expand({extent}).contiguous();
  std::copy(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + extent, result.begin());
  return result;
}

ChannelExpressions channel_expressions(const Graph& graph, const ChannelMap& map) {
  return Propagation(graph, map).run();
}

at::Tensor weight_rows(const Graph& graph, const Expression& expression, const std::vector<int64_t>& places) {
  const Node& node = graph.nodes[expression.node];
  const LinearLayer layer = maker_of(graph, expression.node).value();
  at::Tensor weight = graph.tensor(node.inputs[layer.weight]);
  if (expression.kind != ExpressionKind::depthwise) {
    if (layer.transposed && layer.groups > 1) {  // the other axis holds the inputs of all groups
      const int64_t width = weight.size(0) / layer.groups;
      weight = weight.narrow(0, expression.part * width, width);
    }
    weight = weight.movedim(layer.out_axis, 0);
  }
  bool all = static_cast<int64_t>(places.size()) == weight.size(0);  // as they are stored: no copy
  for (size_t i = 0; all && i < places.size(); ++i) all = places[i] == static_cast<int64_t>(i);
  if (!all) weight = weight.index_select(0, at::tensor(places, at::kLong));
  weight =
      weight.to(at::promote_types(weight.scalar_type(), at::kFloat)).reshape({static_cast<int64_t>(places.size()), -1});
  return layer.alpha == 1 ? weight : weight * layer.alpha;
}

}  // namespace pare
