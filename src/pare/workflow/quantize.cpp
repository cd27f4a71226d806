#include "pare/workflow/quantize.h"

#include <ATen/ATen.h>

#include <chrono>

#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "pare/passes/open_batch.h"
#include "pare/passes/precision.h"
#include "pare/passes/working_form.h"
#include "pare/quantize/network.h"
#include "pare/quantize/plan.h"
#include "pare/workflow/learning_images.h"
#include "pare/workflow/measure.h"

namespace pare {

void QuantizeOptions::describe(OptionVisitor& options) {
  options.heading("what becomes integers");
  options.essential().field("weights", weights,
                            "integer type of weights; int4: in matrix products and 1x1 convolutions, int8 elsewhere");
  options.essential().field("activations", activations,
                            "integer type of activations; symmetric: about zero, none: left in float");
  options.field("range", range, "how the ranges of activations are chosen");
  options.field("percentile", percentile, "per cent of the values that lie within the range at each end");
  options.essential().field("compensate", compensate,
                            "what makes up for rounded weights: nothing, biases, or biases and weights");
  options.field("per-tensor", per_tensor, "one scale for all weights of a layer instead of one for each output");
  options.field("block", block, "int4: inputs of an output that share a scale (0: all)");
  options.essential().field("skip", skip, "GLOB: leave these layers in float");
  options.field("keep-first", keep_first, "leave the first layer in float");
  options.field("keep-last", keep_last, "leave the last layer in float");
  options.heading("how to make up for it");
  options.essential().field("samples", samples,
                            "images to learn from (0: 256 of the data, 128 made ones or more when small)");
  options.field("images", images, "without data: what images are made of");
  options.field("distill-steps", distill_steps, "without data: steps of gradient descent that make an image");
  options.field("no-mirror", no_mirror, "do not learn from the mirror images of colour images too");
  options.heading("what is measured");
  options.essential().field("max-drop", max_drop, "fail if top-1 (multi-label: mAP) falls by more than this");
  options.only({"percentile"}, {with("range", {"percentile"})});
  options.only({"range"}, {without("activations", {"none"})});
  options.only({"block"}, {with("weights", {"int4"})});
  options.only({"block"}, {without("per-tensor")});
  options.only({"no-mirror"}, {without("compensate", {"none"})});
}

void QuantizeJob::describe(OptionVisitor& options) {
  QuantizeOptions::describe(options);
  data.describe(options);
  describe_decoder(options, decoder);
  options.only({"images", "distill-steps"}, {without("data")});
  options.only({"max-drop"}, {with("data")});
}

void QuantizeJob::check() const {
  if (!(percentile > 50 && percentile <= 100))
    throw Error(ErrorKind::usage, OptionName{"percentile"}, "expected more than 50 and at most 100, found {}",
                percentile);
  if (block != 0 && (block < 16 || (block & (block - 1)) != 0))
    throw Error(ErrorKind::usage, OptionName{"block"}, "expected 0 or a power of two from 16 on, found {}", block);
  if (block != 0 && (weights != WeightBits::int4 || per_tensor))
    throw Error(ErrorKind::usage, OptionName{"block"}, "blocks are of int4 weights with scales of their own");
  if (samples < 0) throw Error(ErrorKind::usage, OptionName{"samples"}, "expected 0 or more, found {}", samples);
  if (max_drop && !(*max_drop >= 0))
    throw Error(ErrorKind::usage, OptionName{"max-drop"}, "expected 0 or more, found {}", *max_drop);
}

PruneJob QuantizeJob::pruning() const {
  PruneJob job;
  job.data = data;
  job.given = given;
  job.decoder = decoder;
  job.samples = samples;
  job.images = images;
  job.distill_steps = distill_steps;
  job.no_mirror = no_mirror;
  job.unchecked = true;
  job.seed = seed;
  job.progress = progress;
  return job;
}

namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class JobObserver : public Observer {
 public:
  explicit JobObserver(const QuantizeJob& job) : job_(job) {}
  void progress(std::string_view what, int64_t done, int64_t all) override {
    if (job_.progress) job_.progress(std::string(what), done, all);
  }

 private:
  const QuantizeJob& job_;
};

void check_drop(const QuantizeResult& result, const QuantizeJob& job) {
  if (!job.max_drop) return;
  const auto& [name, had] = result.before.metrics.front();
  const double has = result.after.metrics.front().second;
  if (had - has <= *job.max_drop) return;
  if (job.on_missed) job.on_missed(result);
  throw Error(ErrorKind::quality, OptionName{"max-drop"}, "{} falls from {:.4f} to {:.4f}, by more than {}", name, had,
              has, *job.max_drop);
}

QuantizeJob job_of(const Samples& samples, const QuantizeOptions& options, Observer& observer) {
  QuantizeJob job;
  static_cast<QuantizeOptions&>(job) = options;
  job.given = &samples;
  job.progress = [&](const std::string& what, int64_t done, int64_t all) { observer.step(what, done, all); };
  return job;
}

}  // namespace

QuantizeResult quantize(const Graph& graph, const QuantizeJob& job) {
  const Stopwatch all;
  job.check();
  refuse_quantized(graph);
  QuantizeResult result;
  const Graph working = working_form(graph);
  if (has_half_precision(graph))
    result.notes.emplace_back("the model has half precision: what is left in float is written as float32");
  const PruneJob pruning = job.pruning();
  const Measure measure(working, pruning);
  if (job.max_drop && (measure.by_distance() || measure.labelled() == nullptr))
    throw Error(ErrorKind::usage, OptionName{"max-drop"}, "needs labels and the scores of classes to measure by");
  result.before = measure(working, "measuring the original");
  result.before.cost = cost_of(graph);
  if (measure.by_distance()) result.notes.push_back(measure.note());
  const Stopwatch method;
  double image_seconds = 0;
  LearningImages images(pruning, /*made_only=*/false, result.notes, image_seconds);
  JobObserver observer(job);
  const bool needs_samples = job.activations != ActivationBits::none || job.compensate != RoundingRepair::none;
  const Samples samples = needs_samples ? images.samples(working) : Samples{};
  QuantizedNetwork found =
      quantize_network(working, samples, needs_samples ? images.mirrored(working) : samples, job, observer);
  result.method_seconds = method.seconds() - image_seconds;
  result.after = measure(found.graph, "measuring the quantised model");
  result.graph = close_batch(std::move(found.graph), graph);
  job.data.keep_asked(result.graph);
  result.after.cost = cost_of(result.graph);
  result.layers = std::move(found.layers);
  for (const auto& [name, range] : found.ranges) result.ranges[name] = {range.low, range.high};
  result.notes.insert(result.notes.end(), found.notes.begin(), found.notes.end());
  result.seconds = all.seconds();
  check_drop(result, job);
  return result;
}

QuantizeResult scan_quantization(const Graph& graph, const QuantizeJob& job) {
  const Stopwatch all;
  job.check();
  refuse_quantized(graph);
  QuantizeResult result{.graph = graph};
  const Graph working = working_form(graph);
  const PruneJob pruning = job.pruning();
  double image_seconds = 0;
  LearningImages images(pruning, /*made_only=*/false, result.notes, image_seconds);
  JobObserver observer(job);
  result.layers = scan_layers(working, images.samples(working), job, observer);
  result.before.cost = result.after.cost = cost_of(graph);
  result.seconds = all.seconds();
  result.method_seconds = result.seconds - image_seconds;
  return result;
}

QuantizeResult quantize(const Graph& graph, const Samples& samples, const QuantizeOptions& options,
                        Observer& observer) {
  return quantize(graph, job_of(samples, options, observer));
}

QuantizeResult scan_quantization(const Graph& graph, const Samples& samples, const QuantizeOptions& options,
                                 Observer& observer) {
  return scan_quantization(graph, job_of(samples, options, observer));
}

}  // namespace pare
