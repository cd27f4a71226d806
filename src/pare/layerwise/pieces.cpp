#include "pare/layerwise/pieces.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/exec/fixed_batch.h"

namespace pare {

std::vector<at::Tensor> Pieces::inputs(size_t i) const {
  std::vector<at::Tensor> all = samples.inputs(begin(i), end(i));
  for (at::Tensor& input : all)
    if (input.dim() == 4 && input.is_floating_point()) input = input.contiguous(at::MemoryFormat::ChannelsLast);
  return all;
}

int64_t piece_for(const Samples& samples, int64_t usual) {
  constexpr int64_t kNumbers = 3 * 224 * 224;
  if (samples.size == 0) return usual;
  int64_t numbers = 0;
  for (const at::Tensor& input : samples.inputs(0, 1)) {
    if (!input.is_floating_point()) return usual;
    numbers += input.numel();
  }
  return std::clamp<int64_t>(usual * kNumbers / std::max<int64_t>(numbers, 1), 1, 8 * usual);
}

Pieces pieces_of(const Graph& graph, const Samples& samples, int64_t piece) {
  const int64_t batch = fixed_batch(graph);
  if (batch == 0) return {samples, piece, samples.size};
  const int64_t whole = (samples.size + batch - 1) / batch * batch;
  return {{.size = whole,
           .inputs =
               [samples](int64_t begin, int64_t end) {
                 std::vector<at::Tensor> inputs =
                     samples.inputs(std::min(begin, samples.size - 1), std::min(end, samples.size));
                 for (auto& input : inputs) {
                   const int64_t missing = end - begin - input.size(0);
                   if (missing <= 0) continue;
                   Shape repeat(static_cast<size_t>(input.dim()), 1);
                   repeat[0] = missing;
                   input = at::cat({input, input.slice(0, -1).repeat(repeat)});
                 }
                 return inputs;
               }},
          batch,
          samples.size};
}

}  // namespace pare
