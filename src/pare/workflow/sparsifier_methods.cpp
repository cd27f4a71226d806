#include <ATen/ATen.h>

#include <cmath>

#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "pare/passes/open_batch.h"
#include "pare/passes/precision.h"
#include "pare/passes/working_form.h"
#include "pare/samples/samples.h"
#include "pare/sparsify/continuous.h"
#include "pare/sparsify/fixed_mask.h"
#include "pare/sparsify/gradual.h"
#include "pare/sparsify/hard_concrete.h"
#include "pare/sparsify/one_shot.h"
#include "pare/sparsify/slimming.h"
#include "pare/workflow/prune.h"
#include "pare/workflow/sparsifier.h"

namespace pare {

void Sparsifier::continuous() {
  ContinuousOptions cs;
  if (!options_.s_init.empty()) cs.s_init = options_.s_init[0];
  cs.lambda = options_.lambda.value_or(cs.lambda);
  cs.beta_final = options_.beta_final;
  cs.mask_rate = options_.mask_rate.value_or(cs.mask_rate);
  const bool keeps = options_.keep_search_weights && options_.rewind > 0;
  TensorMap start;
  for (int64_t round = 1; round <= options_.rounds; ++round) {
    ContinuousSparsification method(cs, names_, start);
    const Graph initial = graph_;
    const TrainingOutcome outcome =
        train(fmt::format("round {}", round), {.graph = initial}, options_.training, &method,
              keeps && round == 1 ? std::vector<int64_t>{options_.rewind} : std::vector<int64_t>{});
    if (options_.keep_search_weights && round == 1) {
      result_.scaled_early = early_iterate(initial, outcome, options_.rewind).graph;
      for (const auto& name : names_)
        result_.scaled_early.tensors[name] = result_.scaled_early.tensor(name) * method.rescale();
    }
    const TensorMap logits = method.logits(outcome.state.raw, result_.masks);
    TensorMap masks = ContinuousSparsification::masks(logits);
    if (count_given())
      masks = masks_by_score(logits, magnitudes(outcome.state.raw, names_), sparsity_after(round), mask_);
    result_.masks = guarded(std::move(masks), logits);
    // w goes on as it is; c goes into the network that is handed out.
    Graph raw = outcome.graph;
    for (const auto& name : names_) raw.tensors[name] = outcome.state.raw.at(name).contiguous();
    graph_ = raw;
    for (const auto& name : names_) graph_.tensors[name] = raw.tensor(name) * method.rescale();
    finish_round(fmt::format("round {}", round));
    if (round < options_.rounds) graph_ = raw;
    start = method.next_round(logits, result_.masks);
  }
}

void Sparsifier::magnitude() {
  if (!trained_) train_dense();
  result_.masks = by_magnitude(*options_.asked());
  finish_round("pruned");
}

void Sparsifier::one_shot() {
  const Graph working = working_form(graph_);
  const Samples some = part_of(*samples_, 0, std::min(samples_->size, options_.samples > 0 ? options_.samples : 256));
  const ProcessGroup& ranks = observer_->ranks();
  if (some.size < ranks.size())
    throw Error(ErrorKind::usage, OptionName{"samples"}, "{} are too few to learn from", some.size);
  const Samples own =
      part_of(some, some.size * ranks.rank() / ranks.size(), some.size * (ranks.rank() + 1) / ranks.size());
  const bool solve = sparsifier_traits(options_.method).solves;
  OneShotOptions method{.solve = solve, .sparsity = *options_.asked(), .mask = options_.mask};
  method.seed = options_.training.train.seed;
  if (method.mask.distribution == MaskDistribution::automatic) method.mask.distribution = MaskDistribution::erk;
  OneShot found = sparsify_in_one_shot(working, solve && !options_.no_mirror ? mirrored_colour(graph_, own) : own,
                                       method, *observer_);
  graph_ = close_batch(narrowed_like(std::move(found.graph), graph_), graph_);
  result_.masks = std::move(found.masks);
  result_.notes = std::move(found.notes);
  finish_round(options_.method);
}

void Sparsifier::gradual() {
  GradualPruning method({.sparsity = *options_.asked(),
                         .begin = options_.gmp_begin,
                         .end = options_.gmp_end,
                         .every = options_.gmp_every},
                        mask_, names_);
  const TrainingOutcome outcome = train("gradual", {.graph = graph_}, options_.training, &method);
  graph_ = outcome.graph;
  result_.masks = outcome.state.method;
  if (result_.masks.empty()) result_.masks = by_magnitude(*options_.asked());  // of no epochs
  finish_round("pruned");
}

void Sparsifier::hard_concrete() {
  HardConcreteOptions l0;
  l0.lambda = options_.lambda.value_or(l0.lambda);
  l0.gate_rate = options_.mask_rate.value_or(l0.gate_rate);
  l0.adam = options_.gates_by == GatesBy::adam;
  HardConcrete method(l0, names_);
  const TrainingOutcome outcome = train("gates", {.graph = graph_}, options_.training, &method);
  graph_ = outcome.graph;  // gates folded in
  const TensorMap scores = magnitudes(outcome.state.raw, names_);
  result_.masks =
      guarded(count_given() ? masks_by_score(magnitudes(graph_.tensors, names_), scores, *options_.asked(), mask_)
                            : method.masks(outcome.state.raw),
              scores);
  finish_round("gates fixed");
}

void Sparsifier::slimming() {
  Slimming method(batch_norm_scales(graph_), options_.lambda.value_or(1e-4));
  graph_ = train("slimming", {.graph = graph_}, options_.training, &method).graph;
  PruneJob cut;
  cut.channels = *options_.sparsity;
  cut.criterion = "bn";
  cut.scope = PruneScope::global;
  cut.compensate = "none";
  cut.round_to = 1;
  cut.inner_only = true;
  cut.seed = options_.training.train.seed;
  parameters_ = cost_of(graph_).parameters;
  PruneResult pruned = prune(graph_, cut);
  graph_ = std::move(pruned.graph);
  for (const auto& group : pruned.groups)
    result_.channels.push_back({group.name, group.total, group.kept, group.reason});
  for (const auto& name : names_) result_.masks[name] = at::ones(graph_.tensor(name).sizes(), at::kBool);
  finish_round("channels removed");
}

double Sparsifier::sparsity_after(int64_t prunings) const {
  if (!options_.sparsity) return 1 - std::pow(1 - options_.round_rate, static_cast<double>(prunings));
  const double part = static_cast<double>(prunings) / static_cast<double>(options_.rounds);
  return 1 - std::pow(1 - *options_.sparsity, part);
}

void Sparsifier::prune_in_rounds(const EarlyIterate* early, bool replay) {
  for (int64_t round = 1; round <= options_.rounds; ++round) {
    result_.masks = by_magnitude(sparsity_after(round));
    FixedMask method(result_.masks);
    const EarlyIterate now{.epoch = replay ? options_.rewind : 0, .graph = graph_};
    const std::string name = fmt::format("round {}", round);
    graph_ = train(name, masked(early != nullptr ? *early : now, result_.masks), options_.training, &method).graph;
    finish_round(name);
  }
}

void Sparsifier::prune_rewound() {
  const Graph initial = graph_;
  const TrainingOutcome dense = train_dense(options_.rewind);
  const EarlyIterate early = early_iterate(initial, dense, options_.rewind);
  prune_in_rounds(&early, true);
}

void Sparsifier::iterative_continued() {
  if (!trained_) train_dense();
  prune_in_rounds(nullptr, false);
}

void Sparsifier::rate_rewinding() {
  if (!trained_) train_dense();
  prune_in_rounds(nullptr, true);
}

}  // namespace pare
