#include "pare/explain.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/error.h"

namespace pare {

namespace {

at::Tensor joined(const std::vector<Attribution>& parts, at::Tensor Attribution::*member) {
  std::vector<at::Tensor> tensors;
  for (const auto& part : parts)
    if ((part.*member).defined()) tensors.push_back(part.*member);
  return tensors.empty() ? at::Tensor() : at::cat(tensors);
}

// The classes of samples [begin, end); undefined: the top ones.
at::Tensor classes_of(const ExplainOptions& options, int64_t begin, int64_t end) {
  if (options.classes.empty()) return {};
  if (options.classes.size() == 1) return at::full({end - begin}, options.classes[0], at::kLong);
  return at::tensor(options.classes, at::kLong).slice(0, begin, end);
}

}  // namespace

Attribution explain(const Graph& model, const Samples& samples, const ExplainOptions& options, Observer& observer) {
  options.attribution.check();
  if (options.batch < 1)
    throw Error(ErrorKind::usage, OptionName{"batch"}, "expected at least 1, found {}", options.batch);
  const auto count = static_cast<int64_t>(options.classes.size());
  if (count > 1 && count != samples.size)
    throw Error(ErrorKind::usage, OptionName{"classes"}, "{} for {} samples: give one for each, or one", count,
                samples.size);
  if (model.inputs.size() != 1)
    throw Error(ErrorKind::shape, model.name, "has {} inputs, expected one that is explained", model.inputs.size());
  const Attributor attributor(model, options.attribution);
  std::vector<Attribution> parts;
  for (int64_t begin = 0; begin < samples.size; begin += options.batch) {
    const int64_t end = std::min(begin + options.batch, samples.size);
    parts.push_back(attributor.explain(samples.inputs(begin, end).at(0), {}, classes_of(options, begin, end)));
    observer.step("explaining", end, samples.size);
  }
  Attribution all;
  for (const auto member : {&Attribution::maps, &Attribution::scores, &Attribution::classes, &Attribution::relevance,
                            &Attribution::expected})
    all.*member = joined(parts, member);
  return all;
}

}  // namespace pare
