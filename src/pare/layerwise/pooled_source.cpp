#include "pare/layerwise/pooled_source.h"

#include <string>

#include "pare/analysis/layers.h"
#include "pare/ops/op.h"

namespace pare {

namespace {

bool only_reshapes(const Node& node) {
  const OpKind kind = kind_of(node);
  return kind == OpKind::reshape || kind == OpKind::same;
}

}  // namespace

std::optional<size_t> pool_before(const Graph& graph, const Usage& usage, size_t index) {
  const auto layer = layer_of(graph, index);
  if (!layer || layer->value_axis != -1 || !layer->takes_bias) return {};
  std::string value = graph.nodes[index].inputs[0];
  for (auto made = usage.producer.find(value); made != usage.producer.end(); made = usage.producer.find(value)) {
    const Node& node = graph.nodes[made->second];
    if (!node.domain.empty()) return {};
    if (node.op == "GlobalAveragePool") return made->second;
    if (!only_reshapes(node)) return {};
    value = node.inputs[0];
  }
  return {};
}

}  // namespace pare
