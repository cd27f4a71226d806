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
  // [begin, end) of twice as many, out of `own` samples [begin / 2, (end + 1) / 2) and their mirror images.
  const auto between = [](const at::Tensor& own, const at::Tensor& mirrored, int64_t begin, int64_t end) {
    return at::stack({own, mirrored}, 1).flatten(0, 1).narrow(0, begin % 2, end - begin);
  };
  Samples both{.size = 2 * samples.size, .inputs = [samples, between](int64_t begin, int64_t end) {
                 std::vector<at::Tensor> inputs = samples.inputs(begin / 2, (end + 1) / 2);
                 for (auto& input : inputs)
                   input = between(input, input.dim() == 4 ? input.flip({3}) : input, begin, end);
                 return inputs;
               }};
  if (samples.labelled())
    both.labels = [samples, between](int64_t begin, int64_t end) {
      const at::Tensor labels = samples.labels(begin / 2, (end + 1) / 2);
      return between(labels, labels, begin, end);
    };
  return both;
}

}  // namespace pare
