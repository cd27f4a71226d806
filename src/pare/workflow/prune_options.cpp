#include <algorithm>

#include "pare/error.h"
#include "pare/samples/samples.h"
#include "pare/workflow/prune.h"

namespace pare {

void PruneOptions::describe(OptionVisitor& options) {
  options.heading("what to remove");
  options.essential().field("channels", channels, "fraction of the channels of each group to remove");
  options.essential().field("params", params, "or fraction of the model's parameters");
  options.essential().field("macs", macs, "or fraction of its multiply-accumulates");
  options.field("bytes", bytes, "or fraction of the bytes of its weights");
  options.field("empty", empty, "remove only channels that hold zeros, and change no output");
  options.field("criterion", criterion, "which channels go: the least important by this",
                {"auto", "obs", "l1", "l2", "gm", "bn", "taylor", "random", "subset"});
  options.field("scope", scope,
                "the same fraction of each group, the least important of all, or by what each width costs the answer");
  options.essential().field("layers", layers, "GLOB or GLOB=FRACTION: cut only these groups");
  options.essential().field("skip", skip, "GLOB: do not cut these groups");
  options.field("round-to", round_to,
                "widths that are left are multiples of this (0: of 8, allocated ones of narrow groups of less)");
  options.field("floor", floor, "at least this fraction of a group stays");
  options.field("inner-only", inner_only, "leave residual streams alone");
  options.field("steps", steps, "cut in so many steps, selecting anew each time");
  options.heading("how to make up for it");
  options.essential().field("compensate", compensate, "how the kept channels take over from the removed ones",
                            compensation_methods());
  options.field("threshold", most_sim.threshold, "less similar filters are dropped, not merged");
  options.field("lambda", most_sim.lambda, "weight of the cosine against the bias after batch norm");
  options.field("as-published", most_sim.as_published, "scales as the authors' program has them");
  options.field("terms", nnls.terms, "kept channels that may take over from a removed one");
  options.field("nmf-iterations", nmf.iterations, "multiplicative updates");
  options.field("unchecked", unchecked, "compensate also where held-out images say that it is worse than nothing");
  options.field("ridge", ridge, "ridge of the solved layers (0: chosen on held-out images)");
  options.field("images", images, "kind of the images that are made without data");
  options.essential().field("samples", samples,
                            "images to learn from (0: 256 of the data, 128 made ones or more when small)");
  options.field("no-mirror", no_mirror, "do not learn from the mirror images of colour images too");
  options.field("distill-steps", distill_steps,
                "steps of gradient descent that make an image (0: as many as it needs)");
  options.essential().field("minutes", minutes,
                            "of repair after solving: distillation from the original on the images, unlabelled");
  options.heading("output");
  options.essential().field("plan", plan, "only show which widths would be left, and write nothing");
  options.heading("what is measured");
  options.essential().field("max-drop", max_drop, "fail (exit 5) when top-1 falls by more than this fraction");
  // `auto` learns from images where there is data, and merges where there is none.
  options.only({"floor"}, {with("scope", {"global", "allocate", "auto"})});
  // What `auto` allocates: a budget of the whole network, by what images tell.
  const Condition scoped = with("scope", {"global", "allocate"});
  options.only({"floor"}, {scoped, with("params"), with("macs"), with("bytes")});
  options.only({"floor"}, {scoped, with("criterion", {"auto", "obs"})});
  options.only({"floor"},
               {scoped, with("criterion", {"obs"}), with("compensate", {"auto", "synthetic", "calibrated"})});
  options.only({"threshold", "lambda", "as-published"}, {with("compensate", {"auto", "most-sim"})});
  options.only({"terms"}, {with("compensate", {"nnls"})});
  options.only({"nmf-iterations"}, {with("compensate", {"nmf"})});
  options.only({"unchecked"}, {without("compensate", {"none"})});
  options.only({"ridge", "minutes"}, {with("compensate", {"synthetic", "calibrated", "auto"})});
  // A selection by what the network does with images looks at them too; they are made where there is no data.
  options.only({"samples", "no-mirror"}, {with("compensate", {"synthetic", "calibrated", "auto"}),
                                          with("criterion", {"obs", "subset", "taylor"}), with("scope", {"allocate"})});
  options.only({"images", "distill-steps"},
               {with("compensate", {"synthetic"}), with("criterion", {"obs", "subset"}), with("scope", {"allocate"})});
  options.only({"distill-steps"}, {with("images", {"distilled"})});
  options.only({"steps", "max-drop", "ridge", "minutes", "unchecked"}, {without("plan")});
  options.only({"plan"}, {without("empty")});
  options.only({"criterion", "scope", "layers", "skip", "round-to", "inner-only", "steps", "compensate"},
               {without("empty")});
}

// What `auto` stands for, and so what has a meaning, depends on whether there is data.
void PruneJob::describe(OptionVisitor& options) {
  PruneOptions::describe(options);
  data.describe(options);
  const Condition learns = with("compensate", {"synthetic", "calibrated"});
  options.only({"floor"}, {with("scope", {"global", "allocate"}), with("data"), with("criterion", {"obs"}),
                           with("compensate", {"synthetic"})});
  options.only({"threshold", "lambda", "as-published"}, {with("compensate", {"most-sim"}), without("data")});
  options.only({"ridge", "minutes"}, {learns, with("data")});
  options.only({"samples", "no-mirror"},
               {learns, with("data"), with("criterion", {"obs", "subset", "taylor"}), with("scope", {"allocate"})});
  options.only({"images", "distill-steps"}, {with("compensate", {"synthetic"}), without("data")});
}

std::vector<std::string> compensation_methods() {
  std::vector<std::string> names = {"auto"};
  for (const auto& compensation : compensations()) names.emplace_back(compensation.name);
  return names;
}

std::optional<Dataset> PruneJob::measured_on(const Graph& graph) const {
  if (given == nullptr) return data.data.empty() ? std::nullopt : std::optional(data.load(graph, /*unlabelled=*/true));
  if (given->size == 0 || !given->labelled() || graph.inputs.size() != 1) return std::nullopt;
  return dataset_of(*given);
}

BudgetOptions PruneJob::budget() const {
  BudgetOptions budget;
  int budgets = empty ? 1 : 0;
  const auto take = [&](std::optional<double> ratio, Budget kind) {
    if (!ratio) return;
    ++budgets;
    budget.ratio = *ratio;
    budget.budget = kind;
  };
  take(channels, Budget::channels);
  take(params, Budget::params);
  take(macs, Budget::macs);
  take(bytes, Budget::bytes);
  if (!widths.empty()) take(0.5, Budget::widths);
  // Fractions of their own for all the layers that are named are a budget, whatever the others' is.
  const auto has_own = [](const std::string& layer) { return layer.find('=') != std::string::npos; };
  if (budgets == 0 && !layers.empty() && std::ranges::all_of(layers, has_own)) take(0.5, Budget::channels);
  if (budgets != 1)
    throw Error(ErrorKind::usage, "prune",
                "expected one of `channels`, `params`, `macs`, `bytes`, `widths` and `empty`, found {}", budgets);
  budget.scope = scope == PruneScope::global     ? Scope::global
                 : scope == PruneScope::allocate ? Scope::allocate
                                                 : Scope::uniform;
  budget.layers = layers;
  budget.skip = skip;
  budget.widths = widths;
  budget.round_to = round_to == 0 ? 8 : round_to;
  budget.finer = round_to == 0;
  budget.floor = floor;
  budget.comparable = criterion == "subset";
  budget.inner_only = inner_only;
  return budget;
}

PruneJob PruneJob::resolved() const {
  PruneJob own = *this;
  if (compensate == "auto") own.compensate = has_data() ? "calibrated" : "most-sim";
  const bool learns = find_compensation(own.compensate).images != ImageSource::none;
  if (criterion == "auto") own.criterion = learns || scope == PruneScope::allocate ? "obs" : "l1";
  if (scope == PruneScope::automatic)
    own.scope = own.criterion == "obs" && (params || macs || bytes) ? PruneScope::allocate : PruneScope::uniform;
  if (own.scope == PruneScope::allocate && own.criterion != "obs")
    throw Error(ErrorKind::usage, OptionName{"scope"}, "allocate goes with the `criterion` obs, not with {}",
                own.criterion);
  if (own.scope == PruneScope::global && own.criterion == "obs")
    throw Error(ErrorKind::usage, OptionName{"scope"},
                "errors of different depths can't be compared: allocate, not global, goes with the `criterion` obs");
  return own;
}

}  // namespace pare
