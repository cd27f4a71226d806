#include "pare/exec/fixed_batch.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace pare {

int64_t fixed_batch(const Graph& graph) {
  int64_t batch = 0;
  for (const auto& input : graph.inputs) {
    if (!input.dims || input.dims->empty()) return 0;
    const Dim& first = input.dims->front();
    if (first.size < 1 || first.assumed || (batch > 0 && first.size != batch)) return 0;
    batch = first.size;
  }
  return batch;
}

namespace {

// Does the tensor have the input's extents, but for the first?
bool fits_but_for_batch(const ValueInfo& input, const at::Tensor& given) {
  if (given.dim() != static_cast<int64_t>(input.dims->size())) return false;
  for (int64_t i = 1; i < given.dim(); ++i) {
    const Dim& dim = (*input.dims)[static_cast<size_t>(i)];
    if (dim.fixed() && !dim.assumed && dim.size != given.size(i)) return false;
  }
  return true;
}

}  // namespace

int64_t piece_of_fixed_batch(const Graph& graph, std::span<const at::Tensor> inputs) {
  const int64_t batch = fixed_batch(graph);
  if (batch == 0 || inputs.size() != graph.inputs.size()) return 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!fits_but_for_batch(graph.inputs[i], inputs[i]) || inputs[i].size(0) != inputs[0].size(0)) return 0;
  const int64_t images = inputs[0].size(0);
  return images == batch || images == 0 ? 0 : batch;
}

std::vector<std::vector<at::Tensor>> in_fixed_batches(std::span<const at::Tensor> inputs, int64_t batch) {
  std::vector<std::vector<at::Tensor>> batches;
  const int64_t images = inputs.empty() ? 0 : inputs[0].size(0);
  for (int64_t begin = 0; begin < images; begin += batch) {
    const at::Tensor index = at::arange(begin, begin + batch, at::kLong).clamp_max(images - 1);
    auto& piece = batches.emplace_back();
    for (const auto& input : inputs)
      piece.push_back(begin + batch <= images ? input.narrow(0, begin, batch) : input.index_select(0, index));
  }
  return batches;
}

at::Tensor joined_batches(const std::vector<at::Tensor>& parts, int64_t batch, int64_t images) {
  const at::Tensor& first = parts.front();
  if (first.dim() == 0) return at::stack(parts);
  const at::Tensor all = at::cat(parts);
  return first.size(0) % batch == 0 ? all.narrow(0, 0, first.size(0) / batch * images) : all;
}

}  // namespace pare
