#include "pare/calibrate/batches.h"

#include <algorithm>

#include "pare/analysis/shapes.h"

namespace pare {

int64_t images_at_once(const Graph& graph) {
  constexpr int64_t kElements = int64_t{1} << 27;
  const Shapes shapes = analysis_shapes(graph, {.batch = 1});
  int64_t elements = 1;
  for (const auto& [value, type] : shapes.types)
    if (!graph.is_constant(value)) elements += type.count();
  return std::clamp<int64_t>(kElements / elements, 1, shapes.unknown.empty() ? 256 : 32);
}

std::vector<std::vector<at::Tensor>> in_batches(const std::vector<at::Tensor>& tensors, int64_t at_once) {
  std::vector<std::vector<at::Tensor>> batches;
  const int64_t count = tensors.empty() ? 0 : tensors[0].size(0);
  for (int64_t begin = 0; begin < count; begin += at_once) {
    auto& batch = batches.emplace_back();
    for (const auto& tensor : tensors) batch.push_back(tensor.narrow(0, begin, std::min(at_once, count - begin)));
  }
  return batches;
}

}  // namespace pare
