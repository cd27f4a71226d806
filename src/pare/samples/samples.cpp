#include "pare/samples/samples.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>

#include "pare/data/loader.h"
#include "pare/error.h"

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

namespace {

using TensorList = std::vector<at::Tensor>;

// Adds a part to the list of each input.
void add_part(std::vector<TensorList>& inputs, const TensorList& part) {
  inputs.resize(part.size());
  for (size_t i = 0; i < part.size(); ++i) inputs[i].push_back(part[i]);
}

TensorList joined(const std::vector<TensorList>& inputs) {
  TensorList whole;
  for (const auto& parts : inputs) whole.push_back(at::cat(parts));
  return whole;
}

// Labels of several batches, of which boxes may have different numbers.
at::Tensor joined_labels(TensorList parts) {
  if (parts.empty()) return {};
  int64_t most = 0;
  for (const auto& part : parts)
    if (label_kind(part) == LabelKind::boxes) most = std::max(most, part.size(1));
  for (auto& part : parts)
    if (label_kind(part) == LabelKind::boxes && part.size(1) < most)  // filled up with rows of the class −1
      part = at::cat({part, at::full({part.size(0), most - part.size(1), 6}, -1, part.options())}, 1);
  return at::cat(parts);
}

}  // namespace

std::vector<at::Tensor> gathered(int64_t count, const std::function<std::vector<at::Tensor>(int64_t i)>& one) {
  std::vector<TensorList> inputs;
  for (int64_t i = 0; i < count; ++i) add_part(inputs, one(i));
  return joined(inputs);
}

Samples next_samples(const SampleStream& stream, int64_t least) {
  std::vector<TensorList> inputs;
  std::vector<at::Tensor> labels;
  int64_t count = 0;
  while (least == 0 || count < least) {
    const auto batch = stream();
    if (!batch) break;
    if (batch->inputs.empty()) throw Error(ErrorKind::shape, "samples", "a batch of the stream has no inputs");
    add_part(inputs, batch->inputs);
    if (batch->labels.defined()) labels.push_back(batch->labels);
    count += batch->inputs[0].size(0);
  }
  return samples_of(joined(inputs), joined_labels(std::move(labels)));
}

Samples collect(const SampleStream& stream, int64_t limit) {
  const Samples all = next_samples(stream, limit);
  return limit == 0 || all.size <= limit ? all : part_of(all, 0, limit);
}

namespace {

int64_t class_count(const at::Tensor& labels) {
  switch (label_kind(labels)) {
    case LabelKind::classes: return labels.size(1);
    case LabelKind::masks: return labels.masked_fill(labels == 255, 0).max().item<int64_t>() + 1;
    case LabelKind::boxes:
      return labels.select(2, static_cast<int64_t>(BoxField::label)).max().to(at::kLong).item<int64_t>() + 1;
    default: return labels.max().item<int64_t>() + 1;
  }
}

}  // namespace

Dataset dataset_of(const Samples& samples) {
  if (!samples.labelled()) throw Error(ErrorKind::usage, "samples", "have no labels to learn from");
  const auto inputs = samples.inputs(0, samples.size);
  if (inputs.size() != 1) throw Error(ErrorKind::shape, "samples", "have {} inputs, expected one", inputs.size());
  at::Tensor images = inputs[0].to(at::kFloat);
  if (images.dim() == 2) images = images.unsqueeze(2).unsqueeze(3);
  if (images.dim() == 3) images = images.unsqueeze(1);
  const at::Tensor labels = samples.labels(0, samples.size);
  const LabelKind kind = label_kind(labels);
  if (labels.numel() == 0) throw Error(ErrorKind::usage, "samples", "there are none");
  Dataset data{.name = "samples",
               .images = images.contiguous(),
               .labels = kind == LabelKind::one_class ? labels.to(at::kLong) : labels,
               .mean = {0},
               .std = {1},
               .split = "train"};
  for (int64_t c = 0; c < class_count(labels); ++c) data.classes.push_back(std::to_string(c));
  check_dataset(data);
  return data;
}

Samples samples_of(const Dataset& data, const Graph& graph) {
  const auto& input = graph.inputs.at(0);
  const bool flat = input.dims && input.dims->size() == 2;
  const auto shared = std::make_shared<Dataset>(data);
  Samples samples{.size = data.size(), .inputs = [shared, flat, dtype = input.dtype](int64_t begin, int64_t end) {
                    const at::Tensor images = make_batch(*shared, begin, end).images;
                    return std::vector<at::Tensor>{(flat ? images.flatten(1) : images).to(dtype)};
                  }};
  if (!data.unlabelled)
    samples.labels = [shared](int64_t begin, int64_t end) { return shared->labels.slice(0, begin, end); };
  return samples;
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

Samples mirrored_colour(const Graph& graph, const Samples& samples) {
  const auto& dims = graph.inputs.at(0).dims;
  const bool colour = graph.inputs.size() == 1 && dims && dims->size() == 4 && (*dims)[1].size == 3;
  return colour ? with_mirrored(samples) : samples;
}

}  // namespace pare
