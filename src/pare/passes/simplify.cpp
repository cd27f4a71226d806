#include "pare/passes/simplify.h"

#include <ATen/ATen.h>

#include <optional>
#include <set>

#include "pare/analysis/shapes.h"
#include "pare/core/memory.h"
#include "pare/error.h"
#include "pare/ops/dtype.h"
#include "pare/ops/op.h"
#include "pare/passes/inline_branches.h"
#include "pare/passes/nodes.h"

namespace pare {

namespace {

// Readings of the shapes under different extents of what is open. What is equal in all does not depend on it: in the
// two that networks usually take, and, as far as it is known there, for one sample and for extents of 1, where a
// Squeeze has something to do and a comparison comes out otherwise.
struct Probes {
  Shapes a;
  Shapes b;
  std::vector<Shapes> small;
  explicit Probes(const Graph& graph)
      : a(infer_shapes(graph, {.batch = 2, .open = 224})),
        b(infer_shapes(graph, {.batch = 3, .open = 256})),
        small({infer_shapes(graph, {.batch = 1, .open = 224}), infer_shapes(graph, {.batch = 2, .open = 1})}) {}

  // The value that both know and none contradicts.
  std::optional<at::Tensor> agreed(const std::string& value) const {
    const auto first = a.values.find(value), second = b.values.find(value);
    if (first == a.values.end() || second == b.values.end() || !same(first->second, second->second))
      return std::nullopt;
    for (const Shapes& shapes : small)
      if (const auto other = shapes.values.find(value);
          other != shapes.values.end() && !same(first->second, other->second))
        return std::nullopt;
    return first->second;
  }

 private:
  static bool same(const at::Tensor& x, const at::Tensor& y) {
    return x.scalar_type() == y.scalar_type() && x.equal(y);
  }
};

// Folding may not blow the model up: a result may be as large as what it is made from, or small.
bool worth_storing(const Node& node, const Graph& graph, int64_t count) {
  int64_t given = 0;
  for (const auto& input : node.inputs)
    if (!input.empty()) given += graph.tensor(input).numel();
  return count <= std::max<int64_t>(given, 1 << 16);
}

bool all_constant(const Node& node, const Graph& graph) {
  if (!node.captures.empty()) return false;
  for (const auto& input : node.inputs)
    if (!input.empty() && !graph.is_constant(input)) return false;
  return true;
}

// Integers that stand for floats stay integers: folded they would be four times as large, and a runtime would no longer
// see a quantised layer.
bool stores_integers(const Node& node, const Graph& graph) {
  return node.op == "DequantizeLinear" && node.has_input(0) && graph.is_constant(node.inputs[0]) &&
         graph.tensor(node.inputs[0]).numel() > 1;
}

// Evaluates a node of constant inputs; false when it has to stay.
bool fold_node(const Node& node, Graph& graph, const Shapes& shapes) {
  const OpDef* op = find_op(node);
  if (op == nullptr || node.op == "Dropout" || op->traits.kind == OpKind::random || !all_constant(node, graph) ||
      reads_carried(node, graph))
    return false;
  for (const auto& output : node.outputs) {
    const TensorType* type = shapes.find(output);
    if (!output.empty() && (type == nullptr || !worth_storing(node, graph, type->count()))) return false;
  }
  std::vector<at::Tensor> inputs;
  for (const auto& input : node.inputs) inputs.push_back(input.empty() ? at::Tensor() : graph.tensor(input));
  std::vector<at::Tensor> outputs;
  try {
    outputs = evaluate(*op, {.node = node, .inputs = inputs});
    for (auto& output : outputs)
      if (output.defined()) output = output.contiguous();
  } catch (const Error&) {
    return false;  // the run will say what is wrong
  } catch (const OutOfMemory&) {
    return false;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty() && (i >= outputs.size() || !outputs[i].defined())) return false;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) graph.tensors[node.outputs[i]] = outputs[i];
  return true;
}

bool fold_by_shape(const Node& node, Graph& graph, const Probes& probes) {
  std::vector<at::Tensor> known;
  for (const auto& output : node.outputs) {
    const auto value = probes.agreed(output);
    if (!value) return false;
    known.push_back(*value);
  }
  for (size_t i = 0; i < known.size(); ++i) graph.tensors[node.outputs[i]] = known[i].contiguous();
  return !known.empty();
}

// A Reshape to a computed shape of which only one entry varies with the batch: that entry copies an extent of the input
// (0) or takes what is left (−1).
void fix_reshape(Node& node, Graph& graph, const Probes& probes) {
  if (node.op != "Reshape" || !node.has_input(1) || graph.is_constant(node.inputs[1]) ||
      node.integer("allowzero", 0) != 0)
    return;
  const auto a = probes.a.values.find(node.inputs[1]);
  const auto b = probes.b.values.find(node.inputs[1]);
  const TensorType* in_a = probes.a.find(node.inputs[0]);
  const TensorType* in_b = probes.b.find(node.inputs[0]);
  if (a == probes.a.values.end() || b == probes.b.values.end() || in_a == nullptr || in_b == nullptr) return;
  if (a->second.sizes() != b->second.sizes() || a->second.dim() != 1) return;
  at::Tensor shape = a->second.to(at::kLong).clone();
  const at::Tensor other = b->second.to(at::kLong);
  bool open = shape.eq(-1).any().item<bool>();
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t x = shape[i].item<int64_t>();
    const int64_t y = other[i].item<int64_t>();
    if (x == y) continue;
    const auto axis = static_cast<size_t>(i);
    if (axis < in_a->dims.size() && in_a->dims[axis] == x && in_b->dims[axis] == y) {
      shape[i] = 0;
    } else if (!open) {
      shape[i] = -1;
      open = true;
    } else {
      return;
    }
  }
  node.inputs[1] = fresh_name(graph, node.name + "_shape");
  graph.tensors[node.inputs[1]] = shape;
}

// Old softmaxes flatten everything from their axis on; along the last axis that changes nothing.
void drop_flatten_marker(Node& node, const Probes& probes) {
  if (!node.has("flatten") || !node.has_input(0)) return;
  const TensorType* type = probes.a.find(node.inputs[0]);
  if (type == nullptr) return;
  const int64_t axis = node.integer("axis", 1);
  if (axis == type->rank() - 1 || axis == -1) node.attributes.erase("flatten");
}

// Readers of an Identity read its source.
Graph remove_identities(Graph graph) {
  auto outputs = output_names(graph);
  for (const auto& node : graph.nodes) outputs.insert(node.captures.begin(), node.captures.end());
  std::map<std::string, std::string> source;
  for (auto& node : graph.nodes) {
    for (auto& input : node.inputs)
      if (const auto found = source.find(input); found != source.end()) input = found->second;
    if (node.op == "Identity" && node.domain.empty() && node.inputs.size() == 1 && node.outputs.size() == 1 &&
        !outputs.contains(node.outputs[0]))
      source[node.outputs[0]] = node.inputs[0];
  }
  return graph;
}

// What a graph of constants unfolds to is bounded by what the file holds: each weight may be made anew from eight bits
// to 32 once, and small results are free. Where that is used up, nodes stay.
uint64_t folding_memory(const Graph& graph) {
  constexpr uint64_t small_results = 64ull << 20;
  uint64_t given = 0;
  for (const auto& [name, tensor] : graph.tensors) given += tensor.nbytes();
  return small_results + 4 * given;
}

// How often each value is read, by nodes, subgraphs and the outputs of the graph.
std::map<std::string, size_t> reads_of(const Graph& graph) {
  std::map<std::string, size_t> reads;
  for (const auto& output : graph.outputs) ++reads[output.name];
  for (const auto& node : graph.nodes) {
    for (const auto& input : node.inputs) ++reads[input];
    for (const auto& capture : node.captures) ++reads[capture];
  }
  return reads;
}

Graph fold(const Graph& original) {
  Graph graph = original;
  const Probes probes(graph);
  const MemoryScope scope(folding_memory(graph));
  std::map<std::string, size_t> reads = reads_of(graph);
  std::vector<Node> kept;
  for (Node node : graph.nodes) {
    if (!stores_integers(node, graph) && (fold_node(node, graph, probes.a) || fold_by_shape(node, graph, probes))) {
      for (const auto& input : node.inputs)  // a constant that only folded nodes read makes room for others
        if (--reads[input] == 0) graph.tensors.erase(input);
      continue;
    }
    fix_reshape(node, graph, probes);
    drop_flatten_marker(node, probes);
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  return graph;
}

}  // namespace

Graph simplify(const Graph& original) {
  Graph graph = remove_unused(fold(remove_identities(original)));
  while (const auto inlined = inline_branches(graph)) graph = remove_unused(fold(remove_identities(*inlined)));
  return graph;
}

}  // namespace pare
