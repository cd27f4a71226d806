#include "pare/train/method.h"

#include <ATen/ATen.h>

#include "pare/analysis/scores.h"
#include "pare/error.h"
#include "pare/ops/common.h"

namespace pare {

TensorMap Reparameterization::extra(const TensorMap&) const { return {}; }
at::Tensor Reparameterization::penalty(const TensorMap&, const TrainPosition&) const { return {}; }
ParameterSettings Reparameterization::settings(const std::string&) const { return {}; }
void Reparameterization::after_step(TensorMap&, Optimizer&, const TrainPosition&) {}
void Reparameterization::restore(const TensorMap&) {}

TensorMap PlainParameters::effective(const TensorMap& raw, const TrainPosition&) const { return raw; }

at::Tensor input_of(const Graph& graph, const at::Tensor& batch) {
  const ValueInfo& info = graph.inputs.at(0);
  at::Tensor images = batch;
  if (info.dims && info.dims->size() == 2)
    images = images.flatten(1);
  else if (images.dim() == 4)
    images = channels_last(images);
  return images.scalar_type() == info.dtype ? images : images.to(info.dtype);
}

RunResult ForwardPass::run(const at::Tensor& images, std::vector<std::string> taps) const {
  return program.run({&images, 1}, {.training = true,
                                    .parameters = &parameters,
                                    .statistics = statistics,
                                    .taps = std::move(taps),
                                    .sum_over_ranks = sum_over_ranks,
                                    .transform = {}});
}

at::Tensor classification_loss(const at::Tensor& output, const at::Tensor& labels, double label_smoothing) {
  const at::Tensor logits = output.dim() > 2 ? score_rows(output) : output;
  if (logits.dim() != 2 || logits.size(0) != labels.size(0))
    throw Error(ErrorKind::shape, "loss", "the model gives {} for {} images", to_string(output.sizes()),
                labels.size(0));
  if (labels.dim() == 2) {
    if (labels.size(1) != logits.size(1))
      throw Error(ErrorKind::shape, "loss", "the model has {} outputs, the data {} classes", logits.size(1),
                  labels.size(1));
    at::Tensor targets = labels.to(logits.scalar_type());
    if (label_smoothing > 0) targets = targets * (1 - label_smoothing) + label_smoothing / 2;
    return at::binary_cross_entropy_with_logits(logits, targets);
  }
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Mean, -100, label_smoothing);
}

Loss ClassificationObjective::operator()(const ForwardPass& pass) {
  const std::string scores = score_value(pass.program.graph());
  at::Tensor logits = pass.run({scores}).tapped.at(scores);
  if (logits.dim() > 2) logits = score_rows(logits);
  return {classification_loss(logits, pass.batch.labels, label_smoothing_), logits};
}

}  // namespace pare
