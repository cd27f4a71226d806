#include "pare/distill/distillation.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/analysis/scores.h"
#include "pare/attribute/explained.h"
#include "pare/distill/soft_targets.h"
#include "pare/error.h"

namespace pare {

void DistillationOptions::describe(OptionVisitor& options) {
  options.heading("learning from a teacher");
  options.essential().field("alpha", alpha, "weight of the teacher's soft targets; 1 - alpha is that of the labels");
  options.essential().field("temperature", temperature, "temperature of the soft targets");
  Choices names = {"none"};
  for (const auto& method : match_methods()) names.emplace_back(method.name);
  options.essential().field("match", match, "make the student look where the teacher looks, by these maps", names);
  options.field("match-weight", match_weight, "weight of the matching (default: at 1000, at-grad 1, others 100)");
  options.field("drop", drop, "part of the teacher's channels left out of each batch's maps");
  options.field("match-layers", match_layers, "NAME or STUDENT=TEACHER: layers to match (default: the last spatial)");
  options.only({"temperature"}, {without("alpha", {"0.0"})});
  options.only({"match-weight", "match-layers"}, {without("match", {"none"})});
  options.only({"match-layers"}, {without("match", {"at-grad"})});
  options.only({"drop"}, {with("match", {"sswa"})});
}

void DistillationOptions::check() const {
  if (!(alpha >= 0 && alpha <= 1))
    throw Error(ErrorKind::usage, OptionName{"alpha"}, "expected 0 to 1, found {}", alpha);
  if (!(temperature > 0 && std::isfinite(temperature)))
    throw Error(ErrorKind::usage, OptionName{"temperature"}, "expected a positive number, found {}", temperature);
  if (!(drop >= 0 && drop <= 1)) throw Error(ErrorKind::usage, OptionName{"drop"}, "expected 0 to 1, found {}", drop);
  if (match_weight && !(*match_weight >= 0 && std::isfinite(*match_weight)))
    throw Error(ErrorKind::usage, OptionName{"match-weight"}, "expected 0 or more, found {}", *match_weight);
  if (find_match_method(match) == nullptr && !match_layers.empty())
    throw Error(ErrorKind::usage, OptionName{"match-layers"}, "needs `match`");
  if (match == "none" && match_weight) throw Error(ErrorKind::usage, OptionName{"match-weight"}, "needs `match`");
  if (match != "sswa" && drop != DistillationOptions{}.drop)
    throw Error(ErrorKind::usage, OptionName{"drop"}, "belongs to `match` sswa");
}

namespace {

std::vector<std::string> teacher_values(const std::vector<LayerPair>& pairs) {
  std::vector<std::string> values;
  for (const auto& pair : pairs) values.push_back(pair.teacher);
  return values;
}

}  // namespace

Distillation::Distillation(const Graph& teacher, const Graph& student, const DistillationOptions& options,
                           double label_smoothing)
    : options_(options),
      label_smoothing_(label_smoothing),
      scores_(score_value(student)),
      method_((options.check(), find_match_method(options.match))),
      layers_(method_ == nullptr ? std::vector<LayerPair>{}
                                 : matched_layers(teacher, student, *method_, options.match_layers)),
      teacher_(explained_graph(teacher, teacher_values(layers_)), teacher_values(layers_),
               method_ == nullptr ? MatchMethod::Gradients::none : method_->gradients) {
  if (method_ != nullptr) weight_ = options.match_weight.value_or(method_->weight);
}

std::vector<std::string> Distillation::taps() const {
  std::vector<std::string> values = {scores_};
  for (const auto& pair : layers_) values.push_back(pair.student);
  return values;
}

Observation Distillation::observe_student(const ForwardPass& pass) const {
  Observation seen{.input = pass.input(), .scores = {}, .layers = {}};
  if (method_ != nullptr && method_->gradients == MatchMethod::Gradients::input)
    seen.input = seen.input.detach().requires_grad_();
  const RunResult run = pass.run(seen.input, taps());
  seen.scores = score_rows(run.tapped.at(scores_));
  for (const auto& pair : layers_) seen.layers.push_back(run.tapped.at(pair.student));
  return seen;
}

Loss Distillation::operator()(const ForwardPass& pass) {
  const at::Tensor& labels = pass.batch.labels;
  const Observation teacher = teacher_.observe(pass.batch);
  const Observation student = observe_student(pass);
  at::Tensor loss = (1 - options_.alpha) * classification_loss(student.scores, labels, label_smoothing_);
  if (options_.alpha > 0)
    loss = loss + options_.alpha * soft_target_loss(student.scores, teacher.scores, options_.temperature,
                                                    /*multi_label=*/labels.dim() == 2);
  if (method_ != nullptr)
    loss = loss + weight_ * method_->penalty(
                                {.teacher = teacher, .student = student, .labels = labels, .drop = options_.drop});
  return {loss, student.scores};
}

}  // namespace pare
