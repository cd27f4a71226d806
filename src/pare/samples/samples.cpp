#include "pare/samples/samples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>

#include "pare/data/loader.h"

namespace pare {

Samples samples_of(std::vector<at::Tensor> inputs, at::Tensor labels) {
  Samples samples{.size = inputs.empty() ? 0 : inputs[0].size(0)};
  samples.inputs = [inputs = std::move(inputs)](int64_t begin, int64_t end) {
    std::vector<at::Tensor> piece;
    for (const auto& input : inputs) piece.push_back(input.slice(0, begin, end));
    return piece;
  };
  if (labels.defined())
    samples.labels = [labels = std::move(labels)](int64_t begin, int64_t end) { return labels.slice(0, begin, end); };
  return samples;
}

Samples samples_of(const Dataset& data, const Graph& graph) {
  const auto& input = graph.inputs.at(0);
  const bool flat = input.dims && input.dims->size() == 2;
  const auto shared = std::make_shared<Dataset>(data);
  return {.size = data.size(),
          .inputs =
              [shared, flat, dtype = input.dtype](int64_t begin, int64_t end) {
                const at::Tensor images = make_batch(*shared, begin, end).images;
                return std::vector<at::Tensor>{(flat ? images.flatten(1) : images).to(dtype)};
              },
          .labels = [shared](int64_t begin, int64_t end) { return shared->labels.slice(0, begin, end); }};
}

Samples part_of(const Samples& samples, int64_t begin, int64_t end) {
  Samples part{.size = end - begin, .inputs = [samples, begin](int64_t from, int64_t to) {
                 return samples.inputs(begin + from, begin + to);
               }};
  if (samples.labelled())
    part.labels = [samples, begin](int64_t from, int64_t to) { return samples.labels(begin + from, begin + to); };
  return part;
}

Samples with_mirrored(const Samples& samples) {
  const int64_t size = samples.size;
  Samples both{.size = 2 * size, .inputs = [samples, size](int64_t begin, int64_t end) {
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
  if (samples.labelled())
    both.labels = [samples, size](int64_t begin, int64_t end) {
      std::vector<at::Tensor> parts;
      if (begin < size) parts.push_back(samples.labels(begin, std::min(end, size)));
      if (end > size) parts.push_back(samples.labels(std::max(begin, size) - size, end - size));
      return parts.size() == 1 ? parts[0] : at::cat(parts);
    };
  return both;
}

}  // namespace pare
