#include "pare/passes/for_inference.h"

#include <ATen/ATen.h>

#include "pare/passes/fold_batch_norm.h"

namespace pare {

Graph for_inference(const Graph& graph) {
  Graph result = fold_batch_norm(graph);
  for (const auto& node : result.nodes) {
    if (node.op != "Conv" || !node.domain.empty() || node.inputs.size() < 2) continue;
    const auto weight = result.tensors.find(node.inputs[1]);
    if (weight != result.tensors.end() && weight->second.dim() == 4)
      weight->second = weight->second.contiguous(at::MemoryFormat::ChannelsLast);
  }
  return result;
}

}  // namespace pare
