#include "pare/workflow/sparsifier.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "pare/analysis/cost.h"
#include "pare/sparsify/fixed_mask.h"
#include "pare/sparsify/pattern.h"
#include "pare/train/run_store.h"
#include "pare/workflow/distill.h"

namespace pare {

namespace {

constexpr const char* kFinetuning = "fine-tuning";
constexpr double kHardlyAny = 0.01;  // of the weights: a method that found no more says so

}  // namespace

Sparsifier::Sparsifier(Graph graph, bool trained, const Dataset& data, const SparsifyOptions& options,
                       const Trainer& trainer)
    : graph_(std::move(graph)), trained_(trained), data_(data), options_(options), trainer_(trainer) {
  options.check(trained);
  if (trained) result_.dense = graph_;
  names_ = maskable_tensors(graph_, options.mask);
  mask_ = options.mask;
  mask_.axes = input_axes(graph_, names_);
}

Sparsifier::Sparsifier(Graph graph, const OneShotInput& input, const SparsifyOptions& options, const Trainer& trainer,
                       Observer& observer)
    : Sparsifier(std::move(graph), true, input.data, options, trainer) {
  samples_ = &input.samples;
  observer_ = &observer;
}

SparsifyResult Sparsifier::run() {
  (this->*find_sparsifier(options_.method).run)();
  if (options_.finetune > 0) finetune();
  result_.graph = masked(graph_, result_.masks);
  add_notes();
  return std::move(result_);
}

TrainingOutcome Sparsifier::train_dense(int64_t rewind) {
  TrainingOutcome outcome = trainer_(graph_, data_, options_.training, dense_job(rewind));
  result_.dense = graph_ = outcome.graph;
  epochs_ += static_cast<int64_t>(outcome.state.history.size());
  return outcome;
}

TrainingOutcome Sparsifier::train(const std::string& what, const EarlyIterate& begin, const TrainingOptions& training,
                                  Reparameterization* method, std::vector<int64_t> keep_epochs) {
  nlohmann::json definition = {{"what", what},
                               {"method", options_.method},
                               {"s-init", options_.s_init},
                               {"lambda", options_.lambda.value_or(-1)},
                               {"beta-final", options_.beta_final},
                               {"mask-rate", options_.mask_rate.value_or(-1)},
                               {"gates-by", name_of(options_.gates_by)},
                               {"sparsity", options_.sparsity.value_or(-1)},
                               {"gmp", {options_.gmp_begin, options_.gmp_end, options_.gmp_every}},
                               {"tensors", names_}};
  if (sparsifier_traits(options_.method).masks_in_training) add_mask_options(definition);
  definition["masks"] = fingerprint(result_.masks);
  TrainingJob job{.kind = "sparsify", .what = what, .definition = definition.dump(), .parameters = method};
  job.keep_epochs = std::move(keep_epochs);
  job.start = begin.start();
  job.keep_last = options_.keeps_last() && what != kFinetuning;
  const TrainingOptions left = training_from(begin, training);
  TrainingOutcome outcome = options_.distill.any() ? distill({*result_.dense, begin.graph, options_.distill}, data_,
                                                             left, trainer_, std::move(job))
                                                   : trainer_(begin.graph, data_, left, std::move(job));
  epochs_ += static_cast<int64_t>(outcome.state.history.size());
  return outcome;
}

void Sparsifier::add_mask_options(nlohmann::json& definition) const {
  const MaskOptions& mask = options_.mask;
  if (mask.distribution != MaskOptions{}.distribution) definition["distribution"] = name_of(mask.distribution);
  if (!mask.pattern.empty()) definition["pattern"] = mask.pattern;
  if (mask.allow_empty) definition["allow-empty"] = true;
}

void Sparsifier::finish_round(const std::string& name) {
  result_.rounds.push_back({name, sparsity(), masked(graph_, result_.masks), result_.masks, epochs_});
}

SparsityReport Sparsifier::sparsity() const {
  if (result_.channels.empty()) return sparsity_of(graph_, result_.masks);
  return {
      .layers = {}, .masked_total = parameters_, .masked_kept = cost_of(graph_).parameters, .parameters = parameters_};
}

TensorMap Sparsifier::by_magnitude(double sparsity) const {
  return masks_by_score(magnitudes(masked(graph_, result_.masks).tensors, names_), {}, sparsity, mask_);
}

double Sparsifier::removed() const {
  if (result_.channels.empty()) return result_.rounds.back().sparsity.over_masked();
  int64_t kept = 0;
  int64_t total = 0;
  for (const auto& group : result_.channels) {
    kept += group.kept;
    total += group.total;
  }
  return 1 - static_cast<double>(kept) / static_cast<double>(total);
}

void Sparsifier::add_notes() {
  const SparsityReport report = sparsity_of(graph_, result_.masks);
  for (const auto& name : report.empty()) result_.notes.push_back(fmt::format("{} has no weight left", name));
  if (!options_.mask.pattern.empty())
    for (const auto& note : left_dense(result_.masks, parse_pattern(options_.mask.pattern), mask_.axes))
      result_.notes.push_back(note);
  result_.removed = removed();
  const double half = 0.5 / static_cast<double>(std::max<int64_t>(report.masked_total, 1));
  const std::optional<double> asked = options_.asked();
  if (asked && result_.removed < *asked - half - 1e-9)
    result_.notes.push_back(fmt::format("{} removed {:.2f} % where {:.2f} % was asked for", options_.method,
                                        100 * result_.removed, 100 * *asked));
  if (!asked && result_.removed < kHardlyAny)
    result_.notes.push_back(fmt::format(
        "{} removed {:.2f} %, hardly any weight: {}", options_.method, 100 * result_.removed,
        sparsifier_traits(options_.method).mask_logits ? "a lower `s-init` or a larger `mask-rate` removes more"
                                                       : "a larger `lambda` or `mask-rate` removes more"));
}

TensorMap Sparsifier::guarded(TensorMap masks, const TensorMap& scores) {
  if (options_.mask.allow_empty) return masks;
  for (auto& [name, mask] : masks) {
    if (mask.any().item<bool>()) continue;
    result_.notes.push_back(fmt::format("{} would have been emptied; its best weight is kept", name));
    mask = at::zeros_like(mask);
    mask.view(-1)[scores.at(name).contiguous().view(-1).argmax()] = true;
  }
  return masks;
}

void Sparsifier::finetune() {
  TrainingOptions training = options_.training;
  training.train.epochs = options_.finetune;
  training.train.first_epoch = 0;
  training.train.optimizer.lr = options_.finetune_lr;
  FixedMask method(result_.masks);
  graph_ = train(kFinetuning, {.graph = masked(graph_, result_.masks)}, training, &method).graph;
  finish_round(kFinetuning);
}

}  // namespace pare
