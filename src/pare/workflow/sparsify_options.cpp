#include <cmath>

#include "pare/core/error.h"
#include "pare/workflow/sparsify.h"

namespace pare {

namespace {

// What the checks need to know of a method.
struct MethodTraits {
  const char* name;
  bool dense_first = false;  // trains the dense network before anything else
  bool finds_count = false;  // finds by itself how many weights go
  bool rounds = false;       // removes in several
  bool rounds_say = false;   // they say how many go where --sparsity does not
  bool mask_at_end = false;  // its mask is that of the last step, which fits no earlier epoch and no average
};

constexpr MethodTraits kMethods[] = {
    {.name = "cs", .finds_count = true, .rounds = true, .mask_at_end = true},
    {.name = "magnitude", .dense_first = true},
    {.name = "gmp", .mask_at_end = true},
    {.name = "imp", .dense_first = true, .rounds = true, .rounds_say = true},
    {.name = "imp-continued", .dense_first = true, .rounds = true, .rounds_say = true},
    {.name = "l0", .finds_count = true, .mask_at_end = true},
    {.name = "slimming"},
    {.name = "lr-rewind", .dense_first = true, .rounds = true},
    {.name = "weight-rewind", .dense_first = true, .rounds = true},
};

const MethodTraits& traits_of(const std::string& name) {
  for (const auto& method : kMethods)
    if (name == method.name) return method;
  throw Error(ErrorKind::usage, "--method", "there is no {}", name);
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const auto& method : kMethods) names.emplace_back(method.name);
  return names;
}

}  // namespace

void SparsifyOptions::describe(OptionVisitor& options) {
  options.field("method", method, "how weights are chosen", method_names());
  options.field(
      "sparsity", sparsity,
      "part of the masked weights to remove (cs and l0 find it themselves without; slimming: of the channels)");
  options.field("s-init", s_init, "cs: where the mask logits begin; the lower the sparser");
  options.field("lambda", lambda, "weight of the penalty (cs 1e-8, l0 2e-5, slimming 1e-4)");
  options.field("beta-final", beta_final, "cs: how hard the mask ends");
  options.field("mask-rate", mask_rate, "learning rate of the mask, times --lr (cs 20, l0 0.5)");
  options.field("gates-by", gates_by, "l0: what trains the gates; weights: what trains the weights, as published",
                {"adam", "weights"});
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
  options.only({"gates-by"}, {with("method", {"l0"})});
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

double SparsifyOptions::asked() const {
  return mask.pattern.empty() ? sparsity : parse_pattern(mask.pattern).sparsity();
}

bool SparsifyOptions::keeps_last() const { return traits_of(method).mask_at_end; }

void SparsifyOptions::check(bool trained) const {
  distill.check();
  const MethodTraits& own = traits_of(method);
  if (distill.any() && !trained && !own.dense_first)
    throw Error(ErrorKind::usage, "--match", "{} has no dense network to learn from: start from a trained model",
                method);
  if (distill.any() && method == "magnitude" && finetune == 0)
    throw Error(ErrorKind::usage, "--match",
                "needs --finetune EPOCHS: magnitude trains nothing after the dense network");
  if (sparsity >= 0 ? !(sparsity < 1) : !std::isfinite(sparsity))
    throw Error(ErrorKind::usage, "--sparsity", "expected a part in [0, 1), found {}", sparsity);
  if (asked() < 0 && !own.finds_count && !own.rounds_say)
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
  const MethodTraits& own = traits_of(method);
  const auto refuse = [&](bool given, const char* option, const char* why) {
    if (given) throw Error(ErrorKind::usage, option, "{} {}", method, why);
  };
  refuse(rounds > 1 && !own.rounds, "--rounds", "removes in one round");
  if (!mask.pattern.empty() && sparsity >= 0 && std::abs(sparsity - asked()) > 1e-9)
    throw Error(ErrorKind::usage, "--pattern", "{} removes {} of the weights, --sparsity asks for {}", mask.pattern,
                asked(), sparsity);
  refuse(method == "slimming" && !mask.pattern.empty(), "--pattern", "removes whole channels");
  const bool spreads = mask.distribution != MaskOptions{}.distribution;
  refuse(spreads && method == "slimming", "--distribution", "removes whole channels");
  refuse(spreads && !mask.pattern.empty(), "--distribution", "takes the same part of every layer with --pattern");
  refuse(spreads && own.finds_count && sparsity < 0, "--distribution", "finds it by itself without --sparsity");
  if (!own.mask_at_end) return;
  refuse(training.train.patience != 0, "--patience", "hardens its mask until the last epoch");
  refuse(training.train.average != 0, "--average", "has a mask of the last step, not of an average");
}

}  // namespace pare
