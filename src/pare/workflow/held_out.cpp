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

namespace {

bool are_class_scores(const at::Tensor& answers) {
  return answers.dim() >= 2 && answers.size(1) > 1 && answers.numel() == answers.size(0) * answers.size(1);
}

}  // namespace

HeldOut::HeldOut(const Graph& original, Samples samples, Observer& observer, int64_t most_kept)
    : samples_(std::move(samples)),
      observer_(observer),
      program_(for_inference(scores_only(original))),
      pieces_(pieces_of(original, samples_, 8)) {
  const at::NoGradGuard no_grad;
  const at::Tensor first = answers(program_, 0);
  labelled_ = samples_.labelled() && label_kind(samples_.labels(0, 1)) == LabelKind::one_class;
  metric_ = !are_class_scores(first) ? "closeness" : labelled_ ? "top1" : "agreement";
  const int64_t bytes = first.numel() * first.element_size() * static_cast<int64_t>(pieces_.count());
  if (metric_ == "closeness" && bytes > most_kept) {
    before_ = at::ones({samples_.size}, at::kDouble);  // the original's own closeness
    return;
  }
  std::vector<at::Tensor> kept;
  in_order<at::Tensor>(
      pieces_.count(),
      [&](size_t p) {
        const at::NoGradGuard inner;
        return p == 0 ? first : answers(program_, p);
      },
      [&](at::Tensor part) { kept.push_back(std::move(part)); });
  kept_ = std::move(kept);
  before_ = all_values([&](size_t p) { return kept_[p]; });
}

at::Tensor HeldOut::answers(const Program& program, size_t p) const {
  return program.run(pieces_.inputs(p), {}).outputs.at(0).slice(0, 0, pieces_.real_in(p)).to(at::kFloat);
}

at::Tensor HeldOut::original_answers(size_t p) const { return kept_.empty() ? answers(program_, p) : kept_[p]; }

at::Tensor HeldOut::values(const at::Tensor& answers, size_t p) const {
  if (metric_ == "closeness") {
    const at::Tensor original = original_answers(p);
    const at::Tensor distance = (answers - original).flatten(1).square().sum(1, false, at::kDouble);
    return (1 - distance / original.flatten(1).square().sum(1, false, at::kDouble).clamp_min(1e-300)).clamp_min(0);
  }
  const at::Tensor wanted = metric_ == "top1" ? samples_.labels(pieces_.begin(p), pieces_.begin(p) + answers.size(0))
                                              : original_answers(p).flatten(1).argmax(1);
  return (answers.flatten(1).argmax(1) == wanted).to(at::kDouble);
}

at::Tensor HeldOut::all_values(const std::function<at::Tensor(size_t)>& answers) const {
  std::vector<at::Tensor> all;
  in_order<at::Tensor>(
      pieces_.count(),
      [&](size_t p) {
        const at::NoGradGuard no_grad;
        return values(answers(p), p);
      },
      [&](at::Tensor part) {
        all.push_back(std::move(part));
        observer_.step("judging", static_cast<int64_t>(all.size()), static_cast<int64_t>(pieces_.count()));
      });
  return at::cat(all);
}

HeldOutScore HeldOut::score(const Graph& graph) const {
  const Program program(for_inference(scores_only(graph)));
  const at::Tensor after = all_values([&](size_t p) { return answers(program, p); });
  const auto [drop, interval] = mean_difference(before_ - after);
  return {after.mean().item<double>(), drop, interval};
}

}  // namespace pare
