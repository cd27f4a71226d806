#include "pare/workflow/sparsify.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "pare/analysis/cost.h"
#include "pare/core/error.h"
#include "pare/sparsify/fixed_mask.h"
#include "pare/sparsify/slimming.h"
#include "pare/workflow/distill.h"

namespace pare {

void SparsifyOptions::describe(OptionVisitor& options) {
  options.field("method", method, "how weights are chosen",
                {"cs", "magnitude", "gmp", "imp", "imp-continued", "l0", "slimming", "lr-rewind", "weight-rewind"});
  options.field(
      "sparsity", sparsity,
      "part of the masked weights to remove (cs and l0 find it themselves without; slimming: of the channels)");
  options.field("s-init", s_init, "cs: where the mask logits begin; the lower the sparser");
  options.field("lambda", lambda, "weight of the penalty (cs 1e-8, l0 1e-4, slimming 1e-4)");
  options.field("beta-final", beta_final, "cs: how hard the mask ends");
  options.field("mask-rate", mask_rate, "cs, l0: learning rate of the mask, times --lr");
  options.field("gates-by-adam", gates_by_adam, "l0: train the gates by Adam");
  options.field("rounds", rounds, "cs, imp, imp-continued, lr-rewind, weight-rewind: rounds of training and removing");
  options.field("round-rate", round_rate, "imp: part of the kept weights removed after each round, without --sparsity");
  options.field("rewind", rewind, "epoch to which weights or learning rate go back");
  options.field("finetune", finetune, "epochs of fine-tuning with the mask fixed");
  options.field("finetune-lr", finetune_lr, "learning rate of the fine-tuning");
  options.field("gmp-begin", gmp_begin, "gmp: part of the run at which removing begins");
  options.field("gmp-end", gmp_end, "gmp: part of the run at which it ends");
  options.field("gmp-every", gmp_every, "gmp: steps between two removals");
  mask.describe(options);
  distill.describe(options);
  training.describe(options);
  const std::vector<std::string> in_rounds = {"cs", "imp", "imp-continued", "lr-rewind", "weight-rewind"};
  options.only({"s-init", "beta-final"}, {with("method", {"cs"})});
  options.only({"lambda"}, {with("method", {"cs", "l0", "slimming"})});
  options.only({"mask-rate"}, {with("method", {"cs", "l0"})});
  options.only({"gates-by-adam"}, {with("method", {"l0"})});
  options.only({"rounds"}, {with("method", in_rounds)});
  options.only({"round-rate"}, {with("method", {"imp", "imp-continued"})});
  options.only({"round-rate"}, {without("sparsity")});
  options.only({"rewind"}, {with("method", {"cs", "imp", "lr-rewind", "weight-rewind"})});
  options.only({"finetune-lr"}, {with("finetune")});
  options.only({"gmp-begin", "gmp-end", "gmp-every"}, {with("method", {"gmp"})});
  options.only({"include", "exclude", "with-last", "distribution", "pattern", "allow-empty"},
               {without("method", {"slimming"})});
  options.only({"distribution"}, {without("pattern")});
}

void SparsifyOptions::check(bool trained) const {
  distill.check();
  const bool trains_dense = method != "cs" && method != "gmp" && method != "l0" && method != "slimming";
  if (distill.any() && !trained && !trains_dense)
    throw Error(ErrorKind::usage, "--match", "{} has no dense network to learn from: start from a trained model",
                method);
  if (distill.any() && method == "magnitude" && finetune == 0)
    throw Error(ErrorKind::usage, "--match",
                "needs --finetune EPOCHS: magnitude trains nothing after the dense network");
  const bool finds_itself = method == "cs" || method == "l0";
  if (sparsity >= 0 ? !(sparsity < 1) : !std::isfinite(sparsity))
    throw Error(ErrorKind::usage, "--sparsity", "expected a part in [0, 1), found {}", sparsity);
  const bool rounds_say = method == "imp" || method == "imp-continued";
  if (sparsity < 0 && !finds_itself && !rounds_say && mask.pattern.empty())
    throw Error(ErrorKind::usage, "--sparsity", "say how much {} is to remove", method);
  if (rounds < 1) throw Error(ErrorKind::usage, "--rounds", "expected at least 1, found {}", rounds);
  if (!(round_rate > 0 && round_rate < 1))
    throw Error(ErrorKind::usage, "--round-rate", "expected a part in (0, 1), found {}", round_rate);
  if (finetune < 0) throw Error(ErrorKind::usage, "--finetune", "expected 0 or more, found {}", finetune);
  if (rewind < 0 || rewind > training.train.epochs)
    throw Error(ErrorKind::usage, "--rewind", "epoch {} is not within the {} epochs of training", rewind,
                training.train.epochs);
  if (method == "cs") {
    if (s_init.size() > 1) throw Error(ErrorKind::usage, "--s-init", "one value; pare tickets takes several");
    if (!s_init.empty() && s_init[0] > 0.5)
      throw Error(ErrorKind::usage, "--s-init", "{} keeps every weight; values from 0 down to -0.5 make it sparse",
                  s_init[0]);
  }
  if (trained && method == "weight-rewind")
    throw Error(ErrorKind::usage, "--method", "weight-rewind needs the early weights: start from --arch");
  check_used();
}

// Options that the method would leave aside.
void SparsifyOptions::check_used() const {
  const bool finds_itself = method == "cs" || method == "l0";
  const auto refuse = [&](bool given, const char* option, const char* why) {
    if (given) throw Error(ErrorKind::usage, option, "{} {}", method, why);
  };
  refuse(rounds > 1 && (method == "magnitude" || method == "gmp" || method == "l0" || method == "slimming"), "--rounds",
         "removes in one round");
  if (!mask.pattern.empty()) masks_by_score({}, {}, 0, mask);  // refuses what is not N:M
  refuse(method == "slimming" && !mask.pattern.empty(), "--pattern", "removes whole channels");
  const bool spreads = mask.distribution != MaskOptions{}.distribution;
  refuse(spreads && method == "slimming", "--distribution", "removes whole channels");
  refuse(spreads && !mask.pattern.empty(), "--distribution", "takes the same part of every layer with --pattern");
  refuse(spreads && finds_itself && sparsity < 0, "--distribution", "finds it by itself without --sparsity");
  // Its mask is that of the last step, which fits no earlier epoch and no average.
  if (!finds_itself && method != "gmp") return;
  refuse(training.validation != 0, "--validation", "keeps the last epoch, where its mask is done");
  refuse(training.train.patience != 0, "--patience", "hardens its mask until the last epoch");
  refuse(training.train.average != 0, "--average", "has a mask of the last step, not of an average");
}

namespace {

class Sparsifier {
 public:
  Sparsifier(Graph graph, bool trained, const Dataset& data, const SparsifyOptions& options, const Trainer& trainer)
      : graph_(std::move(graph)), trained_(trained), data_(data), options_(options), trainer_(trainer) {
    options.check(trained);
    if (trained) result_.dense = graph_;
    names_ = maskable_tensors(graph_, options.mask);
  }

  SparsifyResult run() {
    if (options_.method == "cs") continuous();
    if (options_.method == "magnitude") magnitude();
    if (options_.method == "gmp") gradual();
    if (options_.method == "l0") hard_concrete();
    if (options_.method == "slimming") slimming();
    if (options_.method == "imp") iterative(true);
    if (options_.method == "imp-continued") iterative(false);
    if (options_.method == "lr-rewind") rewinding(false);
    if (options_.method == "weight-rewind") rewinding(true);
    if (options_.finetune > 0) finetune();
    result_.graph = masked(graph_, result_.masks);
    for (const auto& name : sparsity_of(graph_, result_.masks).empty())
      result_.notes.push_back(fmt::format("{} has no weight left", name));
    return std::move(result_);
  }

 private:
  TrainingOutcome train(const std::string& what, const Graph& graph, TrainingOptions training,
                        Reparameterization* method, std::vector<int64_t> keep_epochs = {}) {
    nlohmann::json definition = {{"what", what},
                                 {"method", options_.method},
                                 {"s-init", options_.s_init},
                                 {"lambda", options_.lambda},
                                 {"beta-final", options_.beta_final},
                                 {"mask-rate", options_.mask_rate},
                                 {"gates-by-adam", options_.gates_by_adam},
                                 {"sparsity", options_.sparsity},
                                 {"gmp", {options_.gmp_begin, options_.gmp_end, options_.gmp_every}},
                                 {"tensors", names_}};
    // Of the methods only gmp masks while it trains; what is not said is the default.
    const MaskOptions plain;
    if (options_.method == "gmp" && options_.mask.distribution != plain.distribution)
      definition["distribution"] = options_.mask.distribution;
    if (options_.method == "gmp" && !options_.mask.pattern.empty()) definition["pattern"] = options_.mask.pattern;
    if (options_.method == "gmp" && options_.mask.allow_empty) definition["allow-empty"] = true;
    definition["masks"] = fingerprint(result_.masks);
    TrainingJob job{.kind = "sparsify", .what = what, .definition = definition.dump(), .parameters = method};
    job.keep_epochs = std::move(keep_epochs);
    const bool learns = options_.distill.any() && what != "dense";
    TrainingOutcome outcome =
        learns ? distill({*result_.dense, graph, options_.distill}, data_, training, trainer_, std::move(job))
               : trainer_(graph, data_, training, std::move(job));
    if (what == "dense") result_.dense = outcome.graph;
    epochs_ += static_cast<int64_t>(outcome.state.history.size());
    return outcome;
  }

  std::vector<int64_t> early_epochs() const {
    return options_.rewind > 0 ? std::vector<int64_t>{options_.rewind} : none();
  }
  static std::vector<int64_t> none() { return {}; }

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
  bool count_given() const { return options_.sparsity >= 0 || !options_.mask.pattern.empty(); }

  TensorMap by_magnitude(double sparsity) const {
    return masks_by_score(magnitudes(masked(graph_, result_.masks).tensors, names_), {}, sparsity, options_.mask);
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
    if (options_.lambda >= 0) cs.lambda = options_.lambda;
    cs.beta_final = options_.beta_final;
    cs.mask_rate = options_.mask_rate;
    TensorMap start;
    for (int64_t round = 1; round <= options_.rounds; ++round) {
      ContinuousSparsification method(cs, names_, start);
      const TrainingOutcome outcome = train(fmt::format("round {}", round), graph_, options_.training, &method,
                                            round == 1 ? early_epochs() : none());
      if (round == 1) {
        result_.early = options_.rewind > 0 ? outcome.after_epoch(options_.rewind) : graph_;
        for (const auto& name : names_) result_.early.tensors[name] = result_.early.tensor(name) * method.rescale();
      }
      const TensorMap logits = method.logits(outcome.state.raw);
      TensorMap masks = ContinuousSparsification::masks(logits);
      if (count_given())
        masks = masks_by_score(logits, magnitudes(outcome.state.raw, names_), sparsity_after(round), options_.mask);
      result_.masks = guarded(std::move(masks), logits);
      // w goes on as it is; c goes into the network that is handed out.
      Graph raw = outcome.graph;
      for (const auto& name : names_) raw.tensors[name] = outcome.state.raw.at(name).contiguous();
      graph_ = raw;
      for (const auto& name : names_) graph_.tensors[name] = raw.tensor(name) * method.rescale();
      finish_round(fmt::format("round {}", round));
      if (round < options_.rounds) graph_ = raw;
      start = method.next_round(logits);
    }
  }

  void train_dense() {
    if (!trained_) graph_ = train("dense", graph_, options_.training, nullptr).graph;
  }

  void magnitude() {
    train_dense();
    result_.masks = by_magnitude(std::max(options_.sparsity, 0.0));
    finish_round("pruned");
  }

  void gradual() {
    GradualPruning method({.sparsity = options_.sparsity,
                           .begin = options_.gmp_begin,
                           .end = options_.gmp_end,
                           .every = options_.gmp_every},
                          options_.mask, names_);
    const TrainingOutcome outcome = train("gradual", graph_, options_.training, &method);
    graph_ = outcome.graph;
    result_.masks = outcome.state.method;
    if (result_.masks.empty()) result_.masks = by_magnitude(options_.sparsity);
    finish_round("pruned");
  }

  void hard_concrete() {
    HardConcreteOptions l0;
    if (options_.lambda >= 0) l0.lambda = options_.lambda;
    l0.gate_rate = options_.mask_rate;
    l0.adam = options_.gates_by_adam;
    HardConcrete method(l0, names_);
    const TrainingOutcome outcome = train("gates", graph_, options_.training, &method);
    graph_ = outcome.graph;  // gates folded in
    const TensorMap scores = magnitudes(outcome.state.raw, names_);
    result_.masks = guarded(count_given() ? masks_by_score(magnitudes(graph_.tensors, names_), scores,
                                                           std::max(options_.sparsity, 0.0), options_.mask)
                                          : method.masks(outcome.state.raw),
                            scores);
    finish_round("gates fixed");
  }

  void slimming() {
    Slimming method(batch_norm_scales(graph_), options_.lambda >= 0 ? options_.lambda : 1e-4);
    graph_ = train("slimming", graph_, options_.training, &method).graph;
    PruneOptions cut;
    cut.channels = options_.sparsity;
    cut.criterion = "bn";
    cut.scope = "global";
    cut.compensate = "none";
    cut.round_to = 1;
    cut.inner_only = true;
    cut.seed = options_.training.train.seed;
    parameters_ = cost_of(graph_).parameters;
    PruneResult pruned = prune(graph_, cut);
    graph_ = std::move(pruned.graph);
    result_.channels = std::move(pruned.groups);
    for (const auto& name : names_) result_.masks[name] = at::ones(graph_.tensor(name).sizes(), at::kBool);
    finish_round("channels removed");
  }

  double sparsity_after(int64_t prunings) const {
    if (options_.sparsity < 0) return 1 - std::pow(1 - options_.round_rate, static_cast<double>(prunings));
    const double part = static_cast<double>(prunings) / static_cast<double>(options_.rounds);
    return 1 - std::pow(1 - options_.sparsity, part);
  }

  // As many times as there are rounds: remove the smallest weights and train the rest, from `start` or, where that is
  // null, from where they are, with the schedule from epoch `first_epoch` on.
  void prune_in_rounds(const Graph* start, int64_t first_epoch) {
    TrainingOptions training = options_.training;
    training.train.first_epoch = first_epoch;
    for (int64_t round = 1; round <= options_.rounds; ++round) {
      result_.masks = by_magnitude(sparsity_after(round));
      FixedMask method(result_.masks);
      const std::string name = fmt::format("round {}", round);
      graph_ = train(name, start != nullptr ? *start : graph_, training, &method).graph;
      finish_round(name);
    }
  }

  // Frankle et al. 2019: every round begins with the weights of epoch --rewind. Continued: with those that it finds, so
  // that a trained network needs no dense training.
  void iterative(bool rewound) {
    if (!rewound && trained_) return prune_in_rounds(nullptr, 0);
    Graph early = graph_;
    const bool keeps = rewound && options_.rewind > 0;
    const TrainingOutcome dense = train("dense", graph_, options_.training, nullptr, keeps ? early_epochs() : none());
    graph_ = dense.graph;
    if (keeps) early = dense.after_epoch(options_.rewind);
    result_.early = early;
    prune_in_rounds(rewound ? &early : nullptr, keeps ? options_.rewind : 0);
  }

  // Renda et al. 2020: after pruning the schedule is replayed from epoch --rewind, on the weights of then or of now.
  void rewinding(bool weights) {
    Graph then = graph_;
    if (!trained_) {
      const TrainingOutcome dense =
          train("dense", graph_, options_.training, nullptr, weights ? early_epochs() : none());
      if (weights && options_.rewind > 0) then = dense.after_epoch(options_.rewind);
      graph_ = dense.graph;
    }
    prune_in_rounds(weights ? &then : nullptr, options_.rewind);
  }

  void finetune() {
    TrainingOptions training = options_.training;
    training.train.epochs = options_.finetune;
    training.train.first_epoch = 0;
    training.train.optimizer.lr = options_.finetune_lr;
    FixedMask method(result_.masks);
    graph_ = train("fine-tuning", masked(graph_, result_.masks), training, &method).graph;
    finish_round("fine-tuning");
  }

  Graph graph_;  // what was trained last
  bool trained_;
  const Dataset& data_;
  const SparsifyOptions& options_;
  const Trainer& trainer_;
  std::vector<std::string> names_;
  int64_t epochs_ = 0;
  int64_t parameters_ = 0;  // slimming: before channels went
  SparsifyResult result_;
};

}  // namespace

SparsifyResult sparsify(const Graph& graph, bool trained, const Dataset& data, const SparsifyOptions& options,
                        const Trainer& trainer) {
  return Sparsifier(graph, trained, data, options, trainer).run();
}

}  // namespace pare
