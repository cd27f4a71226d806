#include <cmath>

#include "pare/error.h"
#include "pare/sparsify/one_shot.h"
#include "pare/workflow/sparsifier_traits.h"
#include "pare/workflow/sparsify.h"

namespace pare {

void SparsifyOptions::describe(OptionVisitor& options) {
  options.heading("which weights go");
  options.essential().field("method", method, "how weights are chosen", sparsifiers());
  options.essential().field("sparsity", sparsity,
                            "part of the masked weights to remove (cs and l0 find it by themselves unless it is given; "
                            "slimming: of the channels)");
  options.field("s-init", s_init, "cs: where the mask logits begin; the lower the sparser");
  options.field("lambda", lambda, "weight of the penalty (cs 1e-8, l0 2e-5, slimming 1e-4)");
  options.field("beta-final", beta_final, "cs: how hard the mask ends");
  options.field("mask-rate", mask_rate, "learning rate of the mask, times `lr` (cs 20, l0 0.5)");
  options.field("gates-by", gates_by, "l0: what trains the gates; weights: what trains the weights, as published");
  options.field("rounds", rounds, "cs, imp, imp-continued, lr-rewind, weight-rewind: rounds of training and removing");
  options.field("round-rate", round_rate, "imp: part of the kept weights removed after each round, without `sparsity`");
  options.field("rewind", rewind, "epoch to which weights or learning rate go back");
  options.essential().field("finetune", finetune, "epochs of fine-tuning with the mask fixed");
  options.field("finetune-lr", finetune_lr, "learning rate of the fine-tuning");
  options.field("gmp-begin", gmp_begin, "gmp: part of the run at which removing begins");
  options.field("gmp-end", gmp_end, "gmp: part of the run at which it ends");
  options.field("gmp-every", gmp_every, "gmp: steps between two removals");
  options.field("samples", samples, "wanda, obs: images to learn from (0: 256), unlabelled");
  options.field("no-mirror", no_mirror, "obs: do not learn from the mirror images of colour images too");
  mask.describe(options);
  distill.describe(options);
  training.describe(options);
  const std::vector<std::string> one_shot = sparsifiers_with(&SparsifierTraits::one_shot);
  const std::vector<std::string> whole_channels = sparsifiers_with(&SparsifierTraits::whole_channels);
  options.only({"s-init", "beta-final"}, {with("method", sparsifiers_with(&SparsifierTraits::mask_logits))});
  options.only({"lambda"}, {with("method", {"cs", "l0", "slimming"})});
  options.only({"mask-rate"}, {with("method", {"cs", "l0"})});
  options.only({"gates-by"}, {with("method", {"l0"})});
  options.only({"rounds"}, {with("method", sparsifiers_with(&SparsifierTraits::rounds))});
  options.only({"round-rate"}, {with("method", sparsifiers_with(&SparsifierTraits::rounds_say))});
  options.only({"round-rate"}, {without("sparsity")});
  options.only({"rewind"}, {with("method", {"cs", "imp", "lr-rewind", "weight-rewind"})});
  options.only({"finetune-lr"}, {with("finetune")});
  options.only({"gmp-begin", "gmp-end", "gmp-every"}, {with("method", {"gmp"})});
  options.only({"include", "exclude", "with-last", "distribution", "pattern"}, {without("method", whole_channels)});
  options.only({"allow-empty"}, {without("method", whole_channels)});
  options.only({"allow-empty"}, {without("method", one_shot)});
  options.only({"samples", "block"}, {with("method", one_shot)});
  options.only({"no-mirror"}, {with("method", sparsifiers_with(&SparsifierTraits::solves))});
  options.only({"block"}, {without("pattern")});
  options.only({"distribution"}, {without("pattern")});
}

std::optional<double> SparsifyOptions::asked() const {
  return mask.pattern.empty() ? sparsity : parse_pattern(mask.pattern).sparsity();
}

bool SparsifyOptions::trains() const { return !sparsifier_traits(method).one_shot || finetune > 0; }

bool SparsifyOptions::keeps_last() const { return sparsifier_traits(method).mask_at_end; }

void SparsifyOptions::check(bool trained) const {
  distill.check();
  const SparsifierTraits& own = sparsifier_traits(method);
  if (distill.any() && !trained && !own.dense_first)
    throw Error(ErrorKind::usage, OptionName{"match"},
                "{} has no dense network to learn from: start from a trained model", method);
  if (distill.any() && own.at_once && finetune == 0)
    throw Error(ErrorKind::usage, OptionName{"match"},
                "needs `finetune` EPOCHS: {} trains nothing after the dense network", method);
  if (sparsity && !(*sparsity >= 0 && *sparsity < 1))
    throw Error(ErrorKind::usage, OptionName{"sparsity"}, "expected a part in [0, 1), found {}", *sparsity);
  if (!asked() && !own.finds_count && !own.rounds_say)
    throw Error(ErrorKind::usage, OptionName{"sparsity"}, "say how much {} is to remove", method);
  if (rounds < 1) throw Error(ErrorKind::usage, OptionName{"rounds"}, "expected at least 1, found {}", rounds);
  if (!(round_rate > 0 && round_rate < 1))
    throw Error(ErrorKind::usage, OptionName{"round-rate"}, "expected a part in (0, 1), found {}", round_rate);
  if (finetune < 0) throw Error(ErrorKind::usage, OptionName{"finetune"}, "expected 0 or more, found {}", finetune);
  if (rewind < 0 || rewind > training.train.epochs)
    throw Error(ErrorKind::usage, OptionName{"rewind"}, "epoch {} is not within the {} epochs of training", rewind,
                training.train.epochs);
  if (own.mask_logits) {
    if (s_init.size() > 1) throw Error(ErrorKind::usage, OptionName{"s-init"}, "one value; pare tickets takes several");
    if (!s_init.empty() && s_init[0] > 0.5)
      throw Error(ErrorKind::usage, OptionName{"s-init"},
                  "{} keeps every weight; values from 0 down to -0.5 make it sparse", s_init[0]);
  }
  if (trained && own.early_weights)
    throw Error(ErrorKind::usage, OptionName{"method"}, "{} needs the early weights: start from `arch`", method);
  if (own.one_shot && !trained)
    throw Error(ErrorKind::usage, OptionName{"method"}, "{} takes weights from a trained network: name a model",
                method);
  if (samples < 0) throw Error(ErrorKind::usage, OptionName{"samples"}, "expected 0 or more, found {}", samples);
  if (!mask.block.empty()) parse_tile(mask.block);
  check_used();
}

// Options that the method would leave aside.
void SparsifyOptions::check_used() const {
  const SparsifierTraits& own = sparsifier_traits(method);
  const auto refuse = [&](bool given, const char* option, const char* why) {
    if (given) throw Error(ErrorKind::usage, OptionName{option}, "{} {}", method, why);
  };
  refuse(rounds > 1 && !own.rounds, "rounds", "removes in one round");
  if (!mask.pattern.empty() && sparsity && std::abs(*sparsity - *asked()) > 1e-9)
    throw Error(ErrorKind::usage, OptionName{"pattern"}, "{} removes {} of the weights, `sparsity` asks for {}",
                mask.pattern, *asked(), *sparsity);
  refuse(own.whole_channels && !mask.pattern.empty(), "pattern", "removes whole channels");
  refuse(!own.one_shot && !mask.block.empty(), "block", "knows no blocks; wanda and obs do");
  refuse(!mask.block.empty() && !mask.pattern.empty(), "block", "goes with no `pattern`");
  refuse(!own.one_shot && samples != 0, "samples", "trains on all there are");
  refuse(own.one_shot && mask.distribution == MaskDistribution::global, "distribution",
         "has scores that can't be compared over layers");
  refuse(!own.one_shot && mask.distribution == MaskDistribution::owl, "distribution", "has no scores to take owl from");
  const bool spreads = mask.distribution != MaskOptions{}.distribution;
  refuse(spreads && own.whole_channels, "distribution", "removes whole channels");
  refuse(spreads && !mask.pattern.empty(), "distribution", "takes the same part of every layer with `pattern`");
  refuse(spreads && own.finds_count && !sparsity, "distribution", "finds it by itself without `sparsity`");
  if (!own.mask_at_end) return;
  refuse(training.train.patience != 0, "patience", "hardens its mask until the last epoch");
  refuse(training.train.average != 0, "average", "has a mask of the last step, not of an average");
}

}  // namespace pare
