#include "pare/layerwise/offset_places.h"

#include <ATen/ATen.h>

#include "pare/analysis/layers.h"

namespace pare {

Graph with_offset_places(Graph graph) {
  for (size_t n = graph.nodes.size(); n-- > 0;) {  // from the end: an addition moves only what comes after it
    const auto layer = layer_of(graph, n);
    if (!layer || layer->takes_bias) continue;
    const at::Tensor& weight = graph.tensor(graph.nodes[n].inputs[1]);
    add_offset(graph, *layer, at::zeros({weight.size(layer->out_axis)}, at::kDouble));
  }
  return graph;
}

Graph without_zero_offsets(Graph graph) {
  for (size_t n = 0; n + 1 < graph.nodes.size(); ++n) {
    const auto layer = layer_of(graph, n);
    const auto reader = layer && !layer->takes_bias ? only_reader(graph, usage_of(graph), n) : std::nullopt;
    if (!reader || graph.nodes[*reader].op != "Add") continue;
    const Node& add = graph.nodes[*reader];
    const std::string& other = add.inputs[add.inputs[0] == graph.nodes[n].outputs[0] ? 1 : 0];
    const auto zero = graph.tensors.find(other);
    const int64_t outputs = graph.tensor(graph.nodes[n].inputs[1]).size(layer->out_axis);
    if (zero == graph.tensors.end() || zero->second.dim() != 1 || zero->second.numel() != outputs ||
        zero->second.count_nonzero().item<int64_t>() > 0)
      continue;
    graph.nodes[n].outputs[0] = add.outputs[0];
    graph.nodes.erase(graph.nodes.begin() + static_cast<int64_t>(*reader));
  }
  return remove_unused(std::move(graph));
}

}  // namespace pare
