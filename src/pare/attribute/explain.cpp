#include "pare/explain.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/error.h"
#include "pare/samples/samples.h"

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

// Maps of samples that come piece by piece.
class Maps {
 public:
  Maps(const Graph& model, const ExplainOptions& options)
      : options_(checked(model, options)), attributor_(model, options.attribution) {}

  // `all`: how many there will be; 0: not known.
  void add(const Samples& samples, int64_t all, Observer& observer) {
    for (int64_t begin = 0; begin < samples.size; begin += options_.batch) {
      const int64_t end = std::min(begin + options_.batch, samples.size);
      check_classes(done_ + end, /*all=*/false);
      const at::Tensor classes = classes_of(options_, done_ + begin, done_ + end);
      parts_.push_back(attributor_.explain(samples.inputs(begin, end).at(0), {}, classes));
      observer.step("explaining", done_ + end, all);
    }
    done_ += samples.size;
  }

  Attribution finish() const {
    if (parts_.empty()) throw Error(ErrorKind::usage, "samples", "there are none");
    check_classes(done_, /*all=*/true);
    Attribution all;
    for (const auto member : {&Attribution::maps, &Attribution::scores, &Attribution::classes, &Attribution::relevance,
                              &Attribution::expected})
      all.*member = joined(parts_, member);
    return all;
  }

  // Error{usage} unless there is a class for each of so many samples, or one, or none. Not `all`: more may come.
  void check_classes(int64_t samples, bool all) const {
    const auto count = static_cast<int64_t>(options_.classes.size());
    if (count > 1 && (samples > count || (all && samples < count)))
      throw Error(ErrorKind::usage, OptionName{"classes"}, "{} for {} samples: give one for each, or one", count,
                  samples);
  }

 private:
  static const ExplainOptions& checked(const Graph& model, const ExplainOptions& options) {
    options.attribution.check();
    if (options.batch < 1)
      throw Error(ErrorKind::usage, OptionName{"batch"}, "expected at least 1, found {}", options.batch);
    if (model.inputs.size() != 1)
      throw Error(ErrorKind::shape, model.name, "has {} inputs, expected one that is explained", model.inputs.size());
    return options;
  }

  const ExplainOptions& options_;
  Attributor attributor_;
  std::vector<Attribution> parts_;
  int64_t done_ = 0;
};

}  // namespace

Attribution explain(const Graph& model, const Samples& samples, const ExplainOptions& options, Observer& observer) {
  Maps maps(model, options);
  maps.check_classes(samples.size, /*all=*/true);
  maps.add(samples, samples.size, observer);
  return maps.finish();
}

Attribution explain(const Graph& model, const SampleStream& stream, const ExplainOptions& options, Observer& observer) {
  Maps maps(model, options);
  while (true) {
    const Samples some = next_samples(stream, options.batch);
    if (some.size == 0) return maps.finish();
    maps.add(some, 0, observer);
  }
}

}  // namespace pare
