// What is found out of models: cost, accuracy, attribution, differences.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bind.h"
#include "convert.h"
#include "pare/compare.h"
#include "pare/evaluate.h"
#include "pare/explain.h"
#include "pare/inspect.h"
#include "samples.h"
#include "watch.h"

namespace pare::python {

namespace {

using namespace pybind11::literals;

py::dict to_python(const Inspection& found) {
  py::list nodes;
  for (const auto& node : found.cost.nodes)
    nodes.append(py::dict("name"_a = node.name, "op"_a = node.op, "output"_a = node.output,
                          "parameters"_a = node.parameters, "macs"_a = node.macs));
  py::list groups;
  for (const auto& group : found.groups)
    groups.append(py::dict("name"_a = group.name, "channels"_a = group.channels, "removable"_a = group.removable,
                           "reason"_a = group.reason, "permutable"_a = group.permutable, "blocks"_a = group.blocks,
                           "fixed_reason"_a = group.fixed_reason, "producers"_a = group.producers,
                           "consumers"_a = group.consumers));
  return py::dict("parameters"_a = found.cost.parameters, "statistics"_a = found.cost.statistics,
                  "macs"_a = found.cost.macs, "flops"_a = found.cost.flops, "bytes"_a = found.cost.bytes,
                  "complete"_a = found.cost.complete, "nodes"_a = nodes, "groups"_a = groups,
                  "unknown_shapes"_a = found.unknown_shapes);
}

py::dict to_python(const MetricList& metrics) {
  py::dict named;
  for (const auto& [name, value] : metrics) named[py::str(name)] = value;
  return named;
}

py::dict evaluate_models(const std::vector<Graph>& models, const py::object& samples, const py::dict& keywords,
                         const py::object& progress) {
  if (models.empty()) throw Error(ErrorKind::usage, "models", "there are none");
  const auto options = options_from<EvaluateOptions>(keywords, "evaluate");
  Watch watch(progress, py::none());
  Evaluation found;
  if (in_memory(samples, models.front())) {
    const Samples all = samples_from(samples, models.front());
    found = watch.run([&] { return evaluate(models, all, options, watch); });
  } else {
    const SampleStream stream = stream_from(samples, models.front());
    found = watch.run([&] { return evaluate(models, stream, options, watch); });
  }
  py::list metrics;
  for (size_t m = 0; m < models.size() + (options.ensemble ? 1 : 0); ++m) metrics.append(to_python(found.metrics(m)));
  return py::dict("metrics"_a = metrics, "samples"_a = found.samples, "seconds"_a = found.seconds);
}

py::dict explain_samples(const Graph& model, const py::object& samples, const std::vector<int64_t>& classes,
                         int64_t batch, uint64_t seed, const py::dict& keywords, const py::object& progress) {
  ExplainOptions options{
      .attribution = options_from<AttributionOptions>(keywords, "explain"), .classes = classes, .batch = batch};
  options.attribution.seed = seed;
  Watch watch(progress, py::none());
  Attribution found;
  if (in_memory(samples, model)) {
    const Samples all = samples_from(samples, model);
    found = watch.run([&] { return explain(model, all, options, watch); });
  } else {
    const SampleStream stream = stream_from(samples, model);
    found = watch.run([&] { return explain(model, stream, options, watch); });
  }
  const auto errors = found.errors();
  return py::dict("maps"_a = to_own_array(std::move(found.maps)), "scores"_a = to_own_array(std::move(found.scores)),
                  "classes"_a = to_own_array(std::move(found.classes)),
                  "errors"_a = errors.defined() ? py::object(to_array(errors)) : py::object(py::none()));
}

py::list verify_models(const Graph& a, const Graph& b, const py::object& samples, uint64_t seed,
                       const py::dict& keywords, const py::object& progress) {
  auto options = options_from<VerifyOptions>(keywords, "verify");
  options.seed = seed;
  Watch watch(progress, py::none());
  const Samples given = samples_from(samples, a);
  const Verification found =
      watch.run([&] { return given.size > 0 ? verify(a, b, given, options, watch) : verify(a, b, options, watch); });
  py::list outputs;
  for (const auto& difference : found.outputs)
    outputs.append(py::dict("name"_a = difference.name, "largest"_a = difference.largest,
                            "relative"_a = difference.relative_to_largest, "outside"_a = difference.outside,
                            "nan"_a = difference.nan, "problem"_a = difference.problem));
  return outputs;
}

py::object to_python(const std::optional<NodeSide>& side) {
  if (!side) return py::none();
  return py::dict("index"_a = side->index, "name"_a = side->name, "output"_a = side->output,
                  "parameters"_a = side->parameters, "macs"_a = side->macs);
}

py::dict diff_models(const Graph& a, const Graph& b) {
  const GraphDiff found = diff(a, b);
  py::list nodes;
  for (const auto& node : found.nodes)
    nodes.append(py::dict("change"_a = std::string(to_string(node.change)), "op"_a = node.op, "a"_a = to_python(node.a),
                          "b"_a = to_python(node.b), "what"_a = node.what, "weight_distance"_a = node.weight_distance));
  py::list inputs;
  for (const auto& input : found.inputs)
    inputs.append(py::dict("name"_a = input.name, "a"_a = input.a, "b"_a = input.b));
  return py::dict("nodes"_a = nodes, "inputs"_a = inputs);
}

}  // namespace

void bind_measures(py::module_& module) {
  module.def("inspect", [](const Graph& graph) { return to_python(inspect(graph)); });
  module.def("evaluate", &evaluate_models);
  module.def("explain", &explain_samples);
  module.def("verify", &verify_models);
  module.def("diff", &diff_models);
  module.def("report", [](const std::vector<std::string>& runs, const std::string& title, const py::object& note) {
    Watch watch(py::none(), note);
    return watch.run([&] { return report(runs, {.title = title}, watch); });
  });
}

}  // namespace pare::python
