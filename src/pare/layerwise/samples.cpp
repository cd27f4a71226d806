#include "pare/layerwise/samples.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace pare {

Samples samples_of(std::vector<at::Tensor> inputs) {
  const int64_t size = inputs.empty() ? 0 : inputs[0].size(0);
  return {size, [inputs = std::move(inputs)](int64_t begin, int64_t end) {
            std::vector<at::Tensor> piece;
            for (const auto& input : inputs) piece.push_back(input.slice(0, begin, end));
            return piece;
          }};
}

Samples part_of(const Samples& samples, int64_t begin, int64_t end) {
  return {end - begin, [samples, begin](int64_t from, int64_t to) { return samples.inputs(begin + from, begin + to); }};
}

Samples with_mirrored(const Samples& samples) {
  const int64_t size = samples.size;
  return {2 * size, [samples, size](int64_t begin, int64_t end) {
            std::vector<std::vector<at::Tensor>> parts;  // what is asked for may lie in both halves
            if (begin < size) parts.push_back(samples.inputs(begin, std::min(end, size)));
            if (end > size) {
              parts.push_back(samples.inputs(std::max(begin, size) - size, end - size));
              for (auto& input : parts.back())
                if (input.dim() == 4) input = input.flip({3});
            }
            if (parts.size() == 1) return parts[0];
            for (size_t i = 0; i < parts[0].size(); ++i) parts[0][i] = at::cat({parts[0][i], parts[1][i]});
            return parts[0];
          }};
}

}  // namespace pare
