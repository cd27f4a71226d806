#include <algorithm>

#include "pare/error.h"
#include "pare/prune/criteria.h"
#include "pare/samples/samples.h"
#include "pare/workflow/prune.h"

namespace pare {

namespace {

// The names of those in a list of methods for which something holds.
template <typename Method, typename Holds>
std::vector<std::string> names_where(const std::vector<Method>& methods, const Holds& holds) {
  std::vector<std::string> names;
  for (const auto& method : methods)
    if (holds(method)) names.emplace_back(method.name);
  return names;
}

std::vector<std::string> that_learn() {
  return names_where(compensations(), [](const Compensation& one) { return one.images != ImageSource::none; });
}

std::vector<std::string> that_look_at_samples() {
  return names_where(criteria(), [](const Criterion& one) { return one.needs_samples(); });
}

// Labels cannot be made.
std::vector<std::string> that_make_samples() {
  return names_where(criteria(), [](const Criterion& one) { return one.needs_samples() && !one.needs_labels(); });
}

std::vector<std::string> and_auto(std::vector<std::string> names) {
  names.emplace_back("auto");
  return names;
}

template <typename Method>
std::vector<std::string> with_auto(const std::vector<Method>& methods) {
  auto names = names_where(methods, [](const Method&) { return true; });
  names.insert(names.begin(), "auto");
  return names;
}

}  // namespace

void PruneOptions::describe(OptionVisitor& options) {
  options.heading("what to remove");
  options.essential().field("channels", channels, "fraction of the channels of each group to remove");
  options.essential().field("params", params, "or fraction of the model's parameters");
  options.essential().field("macs", macs, "or fraction of its multiply-accumulates");
  options.field("bytes", bytes, "or fraction of the bytes of its weights");
  options.field("empty", empty, "remove only channels that hold zeros, and change no output");
  options.field("criterion", criterion, "which channels go: the least important by this", selection_criteria());
  options.field("scope", scope,
                "the same fraction of each group, the least important of all, or by what each width costs the answer");
  options.essential().field("layers", layers, "GLOB or GLOB=FRACTION: cut only these groups");
  options.essential().field("skip", skip, "GLOB: do not cut these groups");
  options.field("round-to", round_to,
                "widths that are left are multiples of this (0: of 8, allocated ones of narrow groups of less)");
  options.field("floor", floor, "at least this fraction of a group stays");
  options.field("inner-only", inner_only, "leave residual streams alone");
  options.field("attention", attention, "what goes of attention: whole heads, or as many dimensions of every head");
  options.field(
      "rotate", rotate,
      "turn residual streams under norms into their principal components first, so that they can be cut, too");
  options.field("steps", steps, "cut in this many steps, selecting anew each time");
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
  options.essential().field(
      "minutes", minutes,
      "minutes of repair after solving: distillation from the original on the images, without labels");
  options.heading("output");
  options.essential().field("plan", plan, "only show which widths would be left, and write nothing");
  options.heading("what is measured");
  options.essential().field("max-drop", max_drop, "fail (exit 5) when top-1 falls by more than this fraction");
  // `auto` learns from images: those of the data, or made ones where the network takes pictures.
  options.only({"floor"}, {with("scope", {"global", "allocate", "auto"})});
  // What `auto` allocates: a budget of the whole network, by what images tell.
  const Condition scoped = with("scope", {"global", "allocate"});
  options.only({"floor"}, {scoped, with("params"), with("macs"), with("bytes")});
  options.only({"floor"}, {scoped, with("criterion", {"auto", "obs"})});
  options.only({"floor"}, {scoped, with("criterion", {"obs"}), with("compensate", and_auto(that_learn()))});
  options.only({"threshold", "lambda", "as-published"}, {with("compensate", {"most-sim"})});
  options.only({"terms"}, {with("compensate", {"nnls"})});
  options.only({"nmf-iterations"}, {with("compensate", {"nmf"})});
  options.only({"unchecked"}, {without("compensate", {"none"})});
  options.only({"ridge", "minutes"}, {with("compensate", and_auto(that_learn()))});
  // A selection by what the network does with images looks at them too; they are made where there is no data.
  options.only({"samples", "no-mirror"},
               {with("compensate", and_auto(that_learn())), with("criterion", that_look_at_samples()),
                with("scope", {"allocate"}), with("rotate")});
  options.only({"images", "distill-steps"},
               {with("compensate", and_auto({"synthetic"})), with("criterion", that_make_samples()),
                with("scope", {"allocate"}), with("rotate")});
  options.only({"distill-steps"}, {with("images", {"distilled"})});
  options.only({"steps", "max-drop", "ridge", "minutes", "unchecked"}, {without("plan")});
  options.only({"plan"}, {without("empty")});
  options.only(
      {"criterion", "scope", "layers", "skip", "round-to", "floor", "inner-only", "attention", "rotate", "steps",
       "compensate", "unchecked", "ridge", "images", "samples", "no-mirror", "distill-steps", "minutes"},
      {without("empty")});
}

// What `auto` stands for, and so what has a meaning, depends on whether there is data.
void describe_decoder(OptionVisitor& options, std::string& decoder) {
  options.heading("what is measured");
  options.field(
      "decoder", decoder,
      fmt::format("of detectors: how outputs become boxes, one of {} or a TOML file", fmt::join(box_decoders(), ", ")));
  options.only({"decoder"}, {with("data")});
}

void PruneJob::describe(OptionVisitor& options) {
  PruneOptions::describe(options);
  data.describe(options);
  describe_decoder(options, decoder);
  options.only({"floor"}, {with("scope", {"global", "allocate"}), with("data"), with("criterion", {"obs"}),
                           with("compensate", {"synthetic"})});
  options.only({"images", "distill-steps"}, {with("compensate", {"synthetic"}), without("data")});
}

std::vector<std::string> compensation_methods() { return with_auto(compensations()); }

std::vector<std::string> selection_criteria() { return with_auto(criteria()); }

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
  budget.comparable = find_criterion(criterion).comparable;
  budget.inner_only = inner_only;
  return budget;
}

namespace {

// One input of pictures: what images can be made for.
bool takes_pictures(const Graph& graph) {
  if (graph.inputs.size() != 1 || !at::isFloatingType(graph.inputs[0].dtype)) return false;
  const auto& dims = graph.inputs[0].dims;
  return dims && dims->size() == 4 && ((*dims)[1].size == 1 || (*dims)[1].size == 3);
}

}  // namespace

namespace {

// What `auto` stands for depends on the network: options of learning are refused where it came to mean a method that
// does not learn.
void refuse_ignored(const PruneJob& job) {
  const bool learns = find_compensation(job.compensate).images != ImageSource::none;
  const bool looks = learns || job.rotate || find_criterion(job.criterion).needs_samples();
  const bool made = looks && (!job.has_data() || job.compensate == "synthetic");
  const auto check = [&](const char* option, bool given, bool matters) {
    if (given && !matters && !job.empty)
      throw Error(ErrorKind::usage, OptionName{option},
                  "would have no effect: '{}' by the criterion {} looks at no {}images", job.compensate, job.criterion,
                  looks ? "made " : "");
  };
  check("ridge", job.ridge > 0, learns);
  check("minutes", job.minutes > 0, learns);
  check("samples", job.samples > 0, looks);
  check("no-mirror", job.no_mirror, looks);
  check("images", job.images != MadeImages::distilled, made);
  check("distill-steps", job.distill_steps > 0, made);
}

}  // namespace

PruneJob PruneJob::resolved(const Graph& graph) const {
  PruneJob own = *this;
  // A criterion or a scope that looks at weights alone was named: so does what makes up for it.
  const bool by_weights =
      (criterion != "auto" && !find_criterion(criterion).needs_samples()) || scope == PruneScope::global;
  if (compensate == "auto")
    own.compensate = has_data() ? "calibrated" : takes_pictures(graph) && !by_weights ? "synthetic" : "most-sim";
  const bool learns = find_compensation(own.compensate).images != ImageSource::none;
  if (criterion == "auto") own.criterion = learns || scope == PruneScope::allocate ? "obs" : "l1";
  const bool eliminates = find_criterion(own.criterion).eliminates();
  if (scope == PruneScope::automatic)
    own.scope = eliminates && (params || macs || bytes) ? PruneScope::allocate : PruneScope::uniform;
  if (own.scope == PruneScope::allocate && !eliminates)
    throw Error(ErrorKind::usage, OptionName{"scope"}, "allocate goes with the `criterion` obs, not with {}",
                own.criterion);
  if (own.scope == PruneScope::global && eliminates)
    throw Error(ErrorKind::usage, OptionName{"scope"},
                "errors of different depths can't be compared: allocate, not global, goes with the `criterion` obs");
  if (compensate == "auto") refuse_ignored(own);
  return own;
}

}  // namespace pare
