#include "pare/passes/fold_batch_norm.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/passes/nodes.h"

namespace pare {

namespace {

bool constant_from(const Graph& graph, const Node& node, size_t first) {
  for (size_t i = first; i < node.inputs.size(); ++i)
    if (node.has_input(i) && !graph.is_constant(node.inputs[i])) return false;
  return true;
}

bool foldable(const Graph& graph, const Node& layer, const Node& norm) {
  if (norm.op != "BatchNormalization" || norm.integer("training_mode", 0) != 0) return false;
  if (norm.outputs.size() > 1 || !constant_from(graph, norm, 1) || !constant_from(graph, layer, 1)) return false;
  if (!layer.domain.empty() || !norm.domain.empty()) return false;
  if (layer.op == "Gemm")
    return layer.integer("transA", 0) == 0 && layer.real("beta", 1) == 1 && layer.real("alpha", 1) == 1;
  return layer.op == "Conv" || layer.op == "ConvTranspose";
}

// The weight scaled along its output axis.
at::Tensor scaled_weight(const Node& layer, const at::Tensor& weight, const at::Tensor& scale) {
  if (layer.op == "Gemm") return layer.integer("transB", 0) != 0 ? weight * scale.unsqueeze(1) : weight * scale;
  std::vector<int64_t> dims(static_cast<size_t>(weight.dim()), 1);
  if (layer.op == "Conv") {
    dims[0] = -1;
    return weight * scale.reshape(dims);
  }
  // ConvTranspose: [in, out/groups, …]; the outputs of a group belong to its share of the inputs.
  const int64_t groups = layer.integer("group", 1);
  auto grouped = weight.sizes().vec();
  grouped[0] /= groups;
  grouped.insert(grouped.begin(), groups);
  dims.insert(dims.begin(), groups);
  dims[2] = weight.size(1);
  return (weight.reshape(grouped) * scale.reshape(dims)).reshape(weight.sizes());
}

}  // namespace

Graph fold_batch_norm(const Graph& original) {
  Graph graph = original;
  const Usage usage = usage_of(graph);
  const auto outputs = output_names(graph);
  std::set<size_t> gone;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& norm = graph.nodes[n];
    if (norm.op != "BatchNormalization" || norm.inputs.empty()) continue;
    const auto made = usage.producer.find(norm.inputs[0]);
    if (made == usage.producer.end() || usage.consumers.find(norm.inputs[0])->second.size() != 1 ||
        outputs.contains(norm.inputs[0]))
      continue;
    Node& layer = graph.nodes[made->second];
    if (!foldable(graph, layer, norm)) continue;
    const auto in = [&](size_t i) { return graph.tensor(norm.inputs[i]).to(at::kDouble); };
    const at::Tensor scale = in(1) / at::sqrt(in(4) + norm.real("epsilon", 1e-5));
    const at::Tensor weight = graph.tensor(layer.inputs[1]);
    at::Tensor shift = in(2) - scale * in(3);
    if (layer.has_input(2)) shift = shift + scale * graph.tensor(layer.inputs[2]).to(at::kDouble);
    const std::string base = norm.name.empty() ? norm.outputs[0] : norm.name;
    const std::string weight_name = fresh_name(graph, base + ".folded_weight");
    graph.tensors[weight_name] = scaled_weight(layer, weight.to(at::kDouble), scale).to(weight.scalar_type());
    const std::string bias_name = fresh_name(graph, base + ".folded_bias");
    graph.tensors[bias_name] = shift.to(weight.scalar_type());
    layer.inputs.resize(3);
    layer.inputs[1] = weight_name;
    layer.inputs[2] = bias_name;
    layer.outputs[0] = norm.outputs[0];
    gone.insert(n);
  }
  return without_nodes(std::move(graph), gone);
}

}  // namespace pare
