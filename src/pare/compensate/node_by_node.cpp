#include "pare/compensate/node_by_node.h"

#include <ATen/ATen.h>

#include "pare/exec/fixed_batch.h"
#include "pare/ops/op.h"

namespace pare {

namespace {

at::Tensor batch_part(const at::Tensor& value, int64_t b, int64_t batches) {
  if (batches == 1) return value;
  const int64_t size = value.size(0) / batches;
  return value.narrow(0, b * size, size);
}

}  // namespace

std::vector<at::Tensor> evaluate_node(const Graph& graph, const Node& node, const TensorMap& values, int64_t batches) {
  std::vector<std::vector<at::Tensor>> parts;
  for (int64_t b = 0; b < batches; ++b) {
    std::vector<at::Tensor> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!node.has_input(i)) continue;
      const auto found = values.find(node.inputs[i]);
      inputs[i] = found == values.end() ? graph.tensor(node.inputs[i]) : batch_part(found->second, b, batches);
    }
    const auto outputs = evaluate(require_op(node), {.node = node, .inputs = inputs});
    parts.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(outputs[i]);
  }
  std::vector<at::Tensor> all;
  for (const auto& part : parts) all.push_back(batches == 1 || !part.front().defined() ? part.front() : at::cat(part));
  return all;
}

std::vector<at::Tensor> in_whole_batches(const Graph& graph, const std::vector<at::Tensor>& inputs, int64_t& batches) {
  const int64_t batch = piece_of_fixed_batch(graph, inputs);
  batches = 1;
  if (batch == 0) return inputs;
  const auto pieces = in_fixed_batches(inputs, batch);
  batches = static_cast<int64_t>(pieces.size());
  std::vector<at::Tensor> whole;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const auto& piece : pieces) parts.push_back(piece[i]);
    whole.push_back(at::cat(parts));
  }
  return whole;
}

}  // namespace pare
