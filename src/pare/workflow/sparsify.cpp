#include "pare/workflow/sparsify.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

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
#include "pare/workflow/distill.h"
#include "pare/workflow/prune.h"
#include "pare/workflow/rewind.h"
#include "pare/workflow/sparsifier_traits.h"

namespace pare {

namespace {

constexpr const char* kFinetuning = "fine-tuning";
constexpr double kHardlyAny = 0.01;  // of the weights: a method that found no more says so

class Sparsifier;

struct SparsifierEntry {
  SparsifierTraits traits;
  void (Sparsifier::*run)();
};
const SparsifierEntry& find_sparsifier(const std::string& name);

class Sparsifier {
 public:
  Sparsifier(Graph graph, bool trained, const Dataset& data, const SparsifyOptions& options, const Trainer& trainer)
      : graph_(std::move(graph)), trained_(trained), data_(data), options_(options), trainer_(trainer) {
    options.check(trained);
    if (trained) result_.dense = graph_;
    names_ = maskable_tensors(graph_, options.mask);
    mask_ = options.mask;
    mask_.axes = input_axes(graph_, names_);
  }

  Sparsifier(Graph graph, const OneShotInput& input, const SparsifyOptions& options, const Trainer& trainer,
             Observer& observer)
      : Sparsifier(std::move(graph), true, input.data, options, trainer) {
    samples_ = &input.samples;
    observer_ = &observer;
  }

  SparsifyResult run() {
    (this->*find_sparsifier(options_.method).run)();
    if (options_.finetune > 0) finetune();
    result_.graph = masked(graph_, result_.masks);
    add_notes();
    return std::move(result_);
  }

 private:
  TrainingOutcome train_dense(int64_t rewind = 0) {
    TrainingOutcome outcome = trainer_(graph_, data_, options_.training, dense_job(rewind));
    result_.dense = graph_ = outcome.graph;
    epochs_ += static_cast<int64_t>(outcome.state.history.size());
    return outcome;
  }

  // A stage of the method.
  TrainingOutcome train(const std::string& what, const EarlyIterate& begin, const TrainingOptions& training,
                        Reparameterization* method, std::vector<int64_t> keep_epochs = {}) {
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

  // What is not said is the default.
  void add_mask_options(nlohmann::json& definition) const {
    const MaskOptions& mask = options_.mask;
    if (mask.distribution != MaskOptions{}.distribution) definition["distribution"] = name_of(mask.distribution);
    if (!mask.pattern.empty()) definition["pattern"] = mask.pattern;
    if (mask.allow_empty) definition["allow-empty"] = true;
  }

  void finish_round(const std::string& name) {
    result_.rounds.push_back({name, sparsity(), masked(graph_, result_.masks), result_.masks, epochs_});
  }

  SparsityReport sparsity() const {
    if (result_.channels.empty()) return sparsity_of(graph_, result_.masks);
    return {.layers = {},
            .masked_total = parameters_,
            .masked_kept = cost_of(graph_).parameters,
            .parameters = parameters_};
  }

  // Is it said how many weights are kept, and where, that a method could find by itself?
  bool count_given() const { return options_.asked().has_value(); }

  TensorMap by_magnitude(double sparsity) const {
    return masks_by_score(magnitudes(masked(graph_, result_.masks).tensors, names_), {}, sparsity, mask_);
  }

  // Of the weights that are masked, or of the channels.
  double removed() const {
    if (result_.channels.empty()) return result_.rounds.back().sparsity.over_masked();
    int64_t kept = 0;
    int64_t total = 0;
    for (const auto& group : result_.channels) {
      kept += group.kept;
      total += group.total;
    }
    return 1 - static_cast<double>(kept) / static_cast<double>(total);
  }

  void add_notes() {
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

  // Guards a mask that a method found by itself against emptied layers.
  TensorMap guarded(TensorMap masks, const TensorMap& scores) {
    if (options_.mask.allow_empty) return masks;
    for (auto& [name, mask] : masks) {
      if (mask.any().item<bool>()) continue;
      result_.notes.push_back(fmt::format("{} would have been emptied; its best weight is kept", name));
      mask = at::zeros_like(mask);
      mask.view(-1)[scores.at(name).contiguous().view(-1).argmax()] = true;
    }
    return masks;
  }

  void continuous() {
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

  void magnitude() {
    if (!trained_) train_dense();
    result_.masks = by_magnitude(*options_.asked());
    finish_round("pruned");
  }

  void one_shot() {
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

  void gradual() {
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

  void hard_concrete() {
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

  void slimming() {
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

  double sparsity_after(int64_t prunings) const {
    if (!options_.sparsity) return 1 - std::pow(1 - options_.round_rate, static_cast<double>(prunings));
    const double part = static_cast<double>(prunings) / static_cast<double>(options_.rounds);
    return 1 - std::pow(1 - *options_.sparsity, part);
  }

  // As many times as there are rounds: remove the smallest weights and train the rest, from `early` or, where that is
  // null, from where they are, with the schedule from epoch `rewind` on (`replay`) or from its beginning.
  void prune_in_rounds(const EarlyIterate* early, bool replay) {
    for (int64_t round = 1; round <= options_.rounds; ++round) {
      result_.masks = by_magnitude(sparsity_after(round));
      FixedMask method(result_.masks);
      const EarlyIterate now{.epoch = replay ? options_.rewind : 0, .graph = graph_};
      const std::string name = fmt::format("round {}", round);
      graph_ = train(name, masked(early != nullptr ? *early : now, result_.masks), options_.training, &method).graph;
      finish_round(name);
    }
  }

  // Frankle et al. 2019, and the weight rewinding of Renda et al. 2020: the dense network is trained, and every round
  // begins with its state of epoch `rewind`.
  void prune_rewound() {
    const Graph initial = graph_;
    const TrainingOutcome dense = train_dense(options_.rewind);
    const EarlyIterate early = early_iterate(initial, dense, options_.rewind);
    prune_in_rounds(&early, true);
  }

  // Every round goes on with the weights that it finds, so that a trained network needs no dense training.
  void iterative_continued() {
    if (!trained_) train_dense();
    prune_in_rounds(nullptr, false);
  }

  // Renda et al. 2020: after pruning the schedule is replayed from epoch `rewind` on the weights of now.
  void rate_rewinding() {
    if (!trained_) train_dense();
    prune_in_rounds(nullptr, true);
  }

  void finetune() {
    TrainingOptions training = options_.training;
    training.train.epochs = options_.finetune;
    training.train.first_epoch = 0;
    training.train.optimizer.lr = options_.finetune_lr;
    FixedMask method(result_.masks);
    graph_ = train(kFinetuning, {.graph = masked(graph_, result_.masks)}, training, &method).graph;
    finish_round(kFinetuning);
  }

  Graph graph_;  // what was trained last
  bool trained_;
  const Dataset& data_;
  const SparsifyOptions& options_;
  const Trainer& trainer_;
  const Samples* samples_ = nullptr;  // one_shot
  Observer* observer_ = nullptr;
  std::vector<std::string> names_;
  MaskOptions mask_;  // with the axes of this graph
  int64_t epochs_ = 0;
  int64_t parameters_ = 0;  // slimming: before channels went
  SparsifyResult result_;

  friend struct SparsifierList;
};

// The methods. A new one is a function of Sparsifier and an entry here.
struct SparsifierList {
  static constexpr SparsifierEntry entries[] = {
      {{.name = "cs", .finds_count = true, .rounds = true, .mask_logits = true, .mask_at_end = true},
       &Sparsifier::continuous},
      {{.name = "magnitude", .dense_first = true, .trains = false}, &Sparsifier::magnitude},
      {{.name = "gmp", .masks_in_training = true, .mask_at_end = true}, &Sparsifier::gradual},
      {{.name = "imp", .dense_first = true, .rounds = true, .rounds_say = true}, &Sparsifier::prune_rewound},
      {{.name = "imp-continued", .dense_first = true, .rounds = true, .rounds_say = true},
       &Sparsifier::iterative_continued},
      {{.name = "l0", .finds_count = true, .mask_at_end = true}, &Sparsifier::hard_concrete},
      {{.name = "slimming", .whole_channels = true}, &Sparsifier::slimming},
      {{.name = "wanda", .one_shot = true, .trains = false}, &Sparsifier::one_shot},
      {{.name = "obs", .one_shot = true, .solves = true, .trains = false}, &Sparsifier::one_shot},
      {{.name = "lr-rewind", .dense_first = true, .rounds = true}, &Sparsifier::rate_rewinding},
      {{.name = "weight-rewind", .dense_first = true, .rounds = true, .early_weights = true},
       &Sparsifier::prune_rewound},
  };
};

const SparsifierEntry& find_sparsifier(const std::string& name) {
  for (const auto& entry : SparsifierList::entries)
    if (name == entry.traits.name) return entry;
  throw Error(ErrorKind::usage, OptionName{"method"}, "there is no {}", name);
}

}  // namespace

const SparsifierTraits& sparsifier_traits(const std::string& name) { return find_sparsifier(name).traits; }

std::vector<std::string> sparsifiers_with(bool SparsifierTraits::*trait) {
  std::vector<std::string> names;
  for (const auto& entry : SparsifierList::entries)
    if (entry.traits.*trait) names.emplace_back(entry.traits.name);
  return names;
}

std::vector<std::string> sparsifiers() {
  std::vector<std::string> names;
  for (const auto& entry : SparsifierList::entries) names.emplace_back(entry.traits.name);
  return names;
}

SparsifyResult sparsify(const Graph& graph, const Samples& samples, const SparsifyOptions& options,
                        Observer& observer) {
  if (is_one_shot(options.method))
    return sparsify(graph, {samples, options.finetune > 0 ? dataset_of(samples) : Dataset{}}, options,
                    observed_training(observer), observer);
  return sparsify(graph, options.trained, dataset_of(samples), options, observed_training(observer));
}

SparsifyResult sparsify(const Graph& graph, bool trained, const Dataset& data, const SparsifyOptions& options,
                        const Trainer& trainer) {
  if (is_one_shot(options.method)) {
    Observer& nobody = unobserved();
    return sparsify(graph, {samples_of(data, graph), data}, options, trainer, nobody);
  }
  return Sparsifier(graph, trained, data, options, trainer).run();
}

SparsifyResult sparsify(const Graph& graph, const OneShotInput& input, const SparsifyOptions& options,
                        const Trainer& trainer, Observer& observer) {
  return Sparsifier(graph, input, options, trainer, observer).run();
}

bool is_one_shot(const std::string& method) { return sparsifier_traits(method).one_shot; }

}  // namespace pare
