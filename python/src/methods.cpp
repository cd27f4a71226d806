// What makes models of models.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bind.h"
#include "convert.h"
#include "pare/compress.h"
#include "pare/distill.h"
#include "pare/fuse.h"
#include "pare/prune.h"
#include "pare/quantize.h"
#include "pare/sparsify.h"
#include "pare/train.h"
#include "samples.h"
#include "watch.h"

namespace pare::python {

namespace {

using namespace pybind11::literals;

py::dict fuse_models(const std::vector<Graph>& models, const py::object& samples, const std::vector<double>& weights,
                     uint64_t seed, const py::dict& keywords, const py::object& progress) {
  if (models.empty()) throw Error(ErrorKind::usage, "models", "there are none");
  auto options = options_from<FuseOptions>(keywords, "fuse");
  options.weights = weights;
  options.seed = seed;
  Watch watch(progress, py::none());
  const Samples given = samples_from(samples, models.front());
  const FusionResult result = watch.run([&] { return fuse(models, given, options, watch); });
  py::list alignments;
  for (const auto& alignment : result.alignments) {
    py::list classes;
    for (size_t l = 0; l < alignment.classes.size(); ++l) {
      const ClassAlignment& one = alignment.classes[l];
      const at::Tensor& plan = alignment.plans[l];
      classes.append(py::dict("name"_a = one.name, "source"_a = one.source, "target"_a = one.target,
                              "cost"_a = one.cost, "fixed"_a = one.fixed, "reason"_a = one.reason,
                              "plan"_a = plan.defined() ? py::object(to_array(plan)) : py::object(py::none())));
    }
    alignments.append(classes);
  }
  return py::dict("graph"_a = result.fused, "aligned"_a = result.aligned, "shares"_a = result.shares,
                  "alignments"_a = alignments);
}

py::dict to_python(const Measured& measured) {
  py::dict metrics;
  for (const auto& [name, value] : measured.metrics) metrics[py::str(name)] = value;
  return py::dict("parameters"_a = measured.cost.parameters, "macs"_a = measured.cost.macs,
                  "bytes"_a = measured.cost.bytes, "metrics"_a = metrics);
}

// What a method learns from: of an iterable no more than it may ask for.
Samples learned_from(const py::object& samples, const Graph& graph, int64_t asked) {
  constexpr int64_t kRead = 1024;
  return samples_from(samples, graph, in_memory(samples, graph) ? 0 : std::max(kRead, asked));
}

py::list to_python(const std::vector<PrunedGroup>& groups) {
  py::list list;
  for (const auto& group : groups)
    list.append(py::dict("name"_a = group.name, "total"_a = group.total, "kept"_a = group.kept,
                         "reason"_a = as_keywords(group.reason), "compensation"_a = group.compensation,
                         "loss"_a = group.loss));
  return list;
}

std::vector<std::string> all_as_keywords(const std::vector<std::string>& texts) {
  std::vector<std::string> made;
  for (const auto& text : texts) made.push_back(as_keywords(text));
  return made;
}

py::dict compress_model(const Graph& graph, const py::object& samples, uint64_t seed, const std::string& memory,
                        const py::dict& keywords, const py::object& progress) {
  auto options = options_from<CompressOptions>(keywords, "compress");
  options.seed = seed;
  options.memory = memory;
  Watch watch(progress, py::none());
  const Samples given = learned_from(samples, graph, options.samples);
  const CompressResult result = watch.run([&] { return compress(graph, given, options, watch); });
  py::list points;
  for (const auto& point : result.points)
    points.append(py::dict("widths"_a = point.widths, "macs"_a = point.macs, "parameters"_a = point.parameters,
                           "bytes"_a = point.bytes, "latency"_a = point.latency, "speed_up"_a = point.speed_up(),
                           "score"_a = point.score, "drop"_a = point.drop, "interval"_a = point.interval));
  py::list steps;
  for (const auto& step : result.steps)
    steps.append(py::dict("name"_a = step.name, "measured"_a = to_python(step.measured), "latency"_a = step.latency));
  return py::dict("graph"_a = result.graph, "steps"_a = steps, "reached"_a = result.reached, "missed"_a = result.missed,
                  "metric"_a = result.metric, "held_out"_a = result.held_out, "runtime"_a = result.runtime,
                  "points"_a = points, "chosen"_a = result.chosen, "groups"_a = to_python(result.groups),
                  "before"_a = to_python(result.before), "after"_a = to_python(result.after),
                  "notes"_a = all_as_keywords(result.notes), "seconds"_a = result.seconds);
}

py::dict prune_model(const Graph& graph, const py::object& samples, uint64_t seed,
                     const std::map<std::string, int64_t>& widths, const py::dict& keywords,
                     const py::object& progress) {
  auto options = options_from<PruneOptions>(keywords, "prune");
  options.seed = seed;
  options.widths = widths;
  Watch watch(progress, py::none());
  const Samples given = learned_from(samples, graph, options.samples);
  const PruneResult result = watch.run([&] { return prune(graph, given, options, watch); });
  return py::dict("graph"_a = result.graph, "criterion"_a = result.criterion, "scope"_a = result.scope,
                  "compensate"_a = result.compensate, "groups"_a = to_python(result.groups),
                  "before"_a = to_python(result.before), "after"_a = to_python(result.after),
                  "notes"_a = all_as_keywords(result.notes), "seconds"_a = result.seconds);
}

py::dict quantize_model(const Graph& graph, const py::object& samples, uint64_t seed, bool scan,
                        const py::dict& keywords, const py::object& progress) {
  auto options = options_from<QuantizeOptions>(keywords, "quantize");
  options.seed = seed;
  Watch watch(progress, py::none());
  const Samples given = learned_from(samples, graph, options.samples);
  const QuantizeResult result = watch.run(
      [&] { return scan ? scan_quantization(graph, given, options, watch) : quantize(graph, given, options, watch); });
  py::list layers;
  for (const auto& layer : result.layers)
    layers.append(py::dict("name"_a = layer.name, "op"_a = layer.op, "weights"_a = layer.weights, "bits"_a = layer.bits,
                           "reason"_a = as_keywords(layer.reason), "error"_a = layer.error,
                           "divergence"_a = layer.divergence));
  return py::dict("graph"_a = result.graph, "layers"_a = layers, "ranges"_a = result.ranges,
                  "before"_a = to_python(result.before), "after"_a = to_python(result.after),
                  "notes"_a = all_as_keywords(result.notes), "seconds"_a = result.seconds);
}

py::dict to_python(const TrainingResult& result) {
  py::list history;
  for (const auto& epoch : result.history)
    history.append(py::dict("epoch"_a = epoch.epoch, "loss"_a = epoch.loss, "penalty"_a = epoch.penalty,
                            "accuracy"_a = epoch.accuracy, "validation"_a = epoch.validation, "rate"_a = epoch.rate,
                            "seconds"_a = epoch.seconds));
  return py::dict("graph"_a = result.graph, "history"_a = history, "run"_a = result.run.string());
}

// What is no option of the command line's `describe`, but is one of every training.
struct Run {
  std::string runs;
  uint64_t seed = 0;

  void apply(TrainingOptions& training) const {
    training.runs = runs;
    training.train.seed = seed;
  }
};

py::dict train_model(const Graph& graph, const py::object& samples, const std::string& runs, uint64_t seed,
                     const py::dict& keywords, const py::object& progress) {
  auto options = options_from<TrainingOptions>(keywords, "train");
  Run{runs, seed}.apply(options);
  Watch watch(progress, py::none());
  const Samples given = samples_from(samples, graph);
  return to_python(watch.run([&] { return train(graph, given, options, watch); }));
}

py::dict distill_model(const Graph& student, const Graph& teacher, const py::object& samples, const std::string& runs,
                       uint64_t seed, const py::dict& keywords, const py::object& progress) {
  auto options = options_from<DistillOptions>(keywords, "distill");
  Run{runs, seed}.apply(options.training);
  Watch watch(progress, py::none());
  const Samples given = samples_from(samples, student);
  return to_python(watch.run([&] { return distill(student, teacher, given, options, watch); }));
}

py::dict sparsify_model(const Graph& graph, const py::object& samples, bool trained, const std::string& runs,
                        uint64_t seed, const py::dict& keywords, const py::object& progress) {
  auto options = options_from<SparsifyOptions>(keywords, "sparsify");
  options.trained = trained;
  Run{runs, seed}.apply(options.training);
  Watch watch(progress, py::none());
  const Samples given = options.trains() ? samples_from(samples, graph) : learned_from(samples, graph, options.samples);
  const SparsifyResult result = watch.run([&] { return sparsify(graph, given, options, watch); });
  py::list layers;
  if (!result.rounds.empty())
    for (const auto& layer : result.rounds.back().sparsity.layers)
      layers.append(py::dict("name"_a = layer.name, "total"_a = layer.total, "kept"_a = layer.kept));
  return py::dict("graph"_a = result.graph, "masks"_a = to_arrays(result.masks), "sparsity"_a = result.removed,
                  "layers"_a = layers, "notes"_a = all_as_keywords(result.notes));
}

}  // namespace

void bind_methods(py::module_& module) {
  module.def("compress", &compress_model);
  module.def("prune", &prune_model);
  module.def("fuse", &fuse_models);
  module.def("train", &train_model);
  module.def("distill", &distill_model);
  module.def("sparsify", &sparsify_model);
  module.def("quantize", &quantize_model);
}

}  // namespace pare::python
