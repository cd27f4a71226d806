#include "pare/distill/teacher.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/analysis/scores.h"
#include "pare/attribute/explained.h"
#include "pare/error.h"
#include "pare/passes/for_inference.h"
#include "pare/train/method.h"

namespace pare {

namespace {

// The one of `layers` that the graph makes first.
std::string first_made(const Graph& graph, const std::vector<std::string>& layers) {
  for (const auto& node : graph.nodes)
    for (const auto& output : node.outputs)
      if (std::find(layers.begin(), layers.end(), output) != layers.end()) return output;
  throw Error(ErrorKind::usage, OptionName{"match-layers"}, "no layer of the teacher makes {}",
              fmt::join(layers, ", "));
}

}  // namespace

Teacher::Teacher(const Graph& graph, std::vector<std::string> layers, MatchMethod::Gradients gradients)
    : layers_(std::move(layers)), gradients_(gradients) {
  switch (gradients_) {
    case MatchMethod::Gradients::none: {
      Graph observed = graph;
      for (const auto& layer : layers_) observed.outputs.push_back({.name = layer, .dtype = graph.inputs[0].dtype});
      whole_.emplace(for_inference(observed));
      break;
    }
    case MatchMethod::Gradients::layers: {
      first_ = first_made(graph, layers_);
      Cut cut = cut_after(graph, first_);
      front_.emplace(for_inference(cut.front));
      back_.emplace(std::move(cut.back));
      break;
    }
    case MatchMethod::Gradients::input: whole_.emplace(graph); break;
  }
}

Observation Teacher::observe(const Batch& batch) {
  const at::Tensor input = input_of((whole_ ? *whole_ : *front_).graph(), batch.images);
  switch (gradients_) {
    case MatchMethod::Gradients::none: return observe_unrecorded(input, batch);
    case MatchMethod::Gradients::layers: return observe_after(input, batch);
    default: return observe_recorded(input);
  }
}

Observation Teacher::observe_unrecorded(const at::Tensor& input, const Batch& batch) {
  auto outputs = remembered_.of(*whole_, input, batch);
  Observation seen{.input = input, .scores = score_rows(outputs[0]), .layers = {}};
  seen.layers.assign(outputs.begin() + 1, outputs.end());
  return seen;
}

Observation Teacher::observe_after(const at::Tensor& input, const Batch& batch) {
  std::vector<at::Tensor> boundary = remembered_.of(*front_, input, batch);
  // All of them: a matched layer of another branch does not read the first.
  for (at::Tensor& value : boundary)
    if (value.is_floating_point()) value = value.detach().requires_grad_();
  RunOptions options;
  for (const auto& layer : layers_)
    if (layer != first_) options.taps.push_back(layer);
  const RunResult run = back_->run(boundary, options);
  Observation seen{.input = input, .scores = score_rows(run.outputs[0]), .layers = {}};
  for (const auto& layer : layers_) seen.layers.push_back(layer == first_ ? boundary[0] : run.tapped.at(layer));
  return seen;
}

Observation Teacher::observe_recorded(const at::Tensor& input) const {
  const at::Tensor x = input.detach().requires_grad_();
  return {.input = x, .scores = score_rows(whole_->run({&x, 1}).outputs[0]), .layers = {}};
}

}  // namespace pare
