#include "pare/workflow/held_out.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "pare/analysis/scores.h"
#include "pare/data/in_order.h"
#include "pare/layerwise/pieces.h"
#include "pare/passes/for_inference.h"
#include "pare/run.h"

namespace pare {

std::pair<double, double> mean_difference(const at::Tensor& differences) {
  const auto n = static_cast<double>(differences.numel());
  const double mean = differences.mean().item<double>();
  const double variance = (differences.square().sum().item<double>() - n * mean * mean + 2) / (n + 2);
  return {mean, 1.96 * std::sqrt(variance / (n + 2))};
}

HeldOut::HeldOut(const Graph& original, Samples samples, Observer& observer)
    : samples_(std::move(samples)), observer_(observer), original_(answers(original)) {
  const bool scores =
      original_.dim() >= 2 && original_.size(1) > 1 && original_.numel() == original_.size(0) * original_.size(1);
  if (scores) original_ = original_.flatten(1);
  if (samples_.labelled()) labels_ = samples_.labels(0, samples_.size);
  if (labels_.defined() && labels_.dim() != 1) labels_ = at::Tensor();
  metric_ = !scores ? "closeness" : labels_.defined() ? "top1" : "agreement";
  before_ = values(original_);
}

at::Tensor HeldOut::answers(const Graph& graph) const {
  const Program program(for_inference(scores_only(graph)));
  const Pieces pieces = pieces_of(graph, samples_, 8);
  std::vector<at::Tensor> all;
  in_order<at::Tensor>(
      pieces.count(),
      [&](size_t p) {
        const at::NoGradGuard no_grad;
        return program.run(pieces.inputs(p), {}).outputs.at(0).slice(0, 0, pieces.real_in(p)).to(at::kFloat);
      },
      [&](at::Tensor part) {
        all.push_back(std::move(part));
        observer_.step("judging", static_cast<int64_t>(all.size()), static_cast<int64_t>(pieces.count()));
      });
  return at::cat(all);
}

at::Tensor HeldOut::values(const at::Tensor& answers) const {
  if (metric_ == "closeness") {
    const at::Tensor distance = (answers - original_).flatten(1).square().sum(1, false, at::kDouble);
    return (1 - distance / original_.flatten(1).square().sum(1, false, at::kDouble).clamp_min(1e-300)).clamp_min(0);
  }
  const at::Tensor best = answers.flatten(1).argmax(1);
  return (best == (metric_ == "top1" ? labels_ : original_.argmax(1))).to(at::kDouble);
}

HeldOutScore HeldOut::score(const Graph& graph) const {
  const at::Tensor after = values(answers(graph));
  const auto [drop, interval] = mean_difference(before_ - after);
  return {after.mean().item<double>(), drop, interval};
}

}  // namespace pare
