#include "pare/workflow/prune.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/passes/open_batch.h"
#include "pare/passes/precision.h"
#include "pare/passes/working_form.h"
#include "pare/samples/samples.h"
#include "pare/workflow/measure.h"
#include "pare/workflow/measured.h"
#include "pare/workflow/pruner.h"

namespace pare {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// No more than two standard errors above guessing, of few images not half way to all: something between data and
// network does not fit.
bool at_chance(const Measured& before, const Dataset& data) {
  if (before.metrics.empty() || data.label_kind() != LabelKind::one_class) return false;
  const double chance = 1 / static_cast<double>(data.classes.size());
  const double error = std::sqrt(chance * (1 - chance) / static_cast<double>(data.size()));
  return !(before.metrics.front().second > std::min(chance + 2 * error, (1 + chance) / 2));
}

void check_chance(const Measured& before, const Dataset& data, const PruneJob& options,
                  std::vector<std::string>& notes) {
  if (!at_chance(before, data)) return;
  const auto& [name, value] = before.metrics.front();
  const std::string what = fmt::format(
      "{} of the original is {:.4f}, no better than chance among {} classes: do the classes, their order "
      "(`class-map`), "
      "`mean`, `std` and `preprocess` fit the model?",
      name, value, data.classes.size());
  if (options.max_drop) throw Error(ErrorKind::quality, OptionName{"max-drop"}, "means nothing: {}", what);
  notes.push_back(what);
}

// Error{usage} for a network that nothing can be said of.
void check_numbers(const Graph& graph) {
  for (const auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point() && at::isnan(tensor).any().item<bool>())
      throw Error(ErrorKind::format, name, "holds NaN: its channels can neither be ranked nor merged");
}

// The largest part of the budget among a few that stays within the gate; nothing where none does.
std::string fitting_budget(const Graph& graph, const PruneJob& all, const Dataset& data, double before) {
  const bool given = all.channels || all.params || all.macs || all.bytes;
  if (!given || all.finetuning.epochs > 0) return "";
  PruneJob options = all;
  options.ranks = &alone();  // the others do not come here
  Pruner pruner(options);
  for (const double part : {0.75, 0.5, 0.25, 0.125}) {
    BudgetOptions budget = options.budget();
    budget.ratio *= part;
    const double after = metrics_of(evaluate({pruner.cut(graph, budget)}, data), 0).front().second;
    if (before - after <= *options.max_drop)
      return fmt::format("; {} {:.3g} would have fitted on the same images ({:.4f})", option_of(budget.budget),
                         budget.ratio, after);
  }
  return "; not even an eighth of the budget would have fitted";
}

}  // namespace

namespace {

// Says why where accuracy fell far: what was not there to learn from, or more than it can make up for.
void note_drop(PruneResult& result, const PruneJob& job) {
  constexpr double kMuch = 0.1;
  if (result.before.metrics.empty() || result.after.metrics.empty()) return;
  const auto& [name, had] = result.before.metrics.front();
  const double has = result.after.metrics.front().second;
  if (had - has <= kMuch) return;
  const bool learned = find_compensation(job.compensate).images != ImageSource::none;
  const bool best = learned && find_criterion(job.criterion).eliminates() &&
                    (job.scope == PruneScope::allocate || job.channels || !job.widths.empty());
  result.notes.push_back(fmt::format(
      "{} fell by {:.1f} points: {}", name, 100 * (had - has),
      !learned ? fmt::format("'{}' learned from no images; `compensate` calibrated does", job.compensate)
      : !best  ? "the criterion obs with the scope allocate chooses by what channels do with images"
               : "more goes than the images can make up for; take less, or more images (`samples`), or fine-tune"));
}

Graph finetuned(const Graph& original, const Graph& pruned, const PruneJob& job) {
  const Finetuning& own = job.finetuning;
  TrainingOptions training = own.training;
  training.train.epochs = own.epochs;
  training.train.seed = job.seed;
  DataChoice choice = job.data;
  choice.split = "train";
  const Dataset data = choice.load(pruned);
  if (!own.distillation.any()) return own.trainer(pruned, data, training, {.kind = "prune"}).graph;
  return distill({original, pruned, own.distillation}, data, training, own.trainer, {.kind = "prune"}).graph;
}

}  // namespace

PruneResult prune(const Graph& graph, const Samples& samples, const PruneOptions& options, Observer& observer) {
  PruneJob job;
  static_cast<PruneOptions&>(job) = options;
  job.given = &samples;
  job.ranks = &observer.ranks();
  job.progress = [&](const std::string& what, int64_t done, int64_t all) { observer.step(what, done, all); };
  return prune(graph, job);
}

PruneResult prune(const Graph& graph, const PruneJob& given) {
  const auto start = Clock::now();
  const PruneJob options = given.resolved(graph);
  if (options.steps < 1)
    throw Error(ErrorKind::usage, OptionName{"steps"}, "expected 1 or more, found {}", options.steps);
  if (options.max_drop && !(*options.max_drop >= 0))
    throw Error(ErrorKind::usage, OptionName{"max-drop"}, "expected 0 or more, found {}", *options.max_drop);
  if (options.max_drop && !options.has_data())
    throw Error(ErrorKind::usage, OptionName{"max-drop"}, "needs `data` to measure on");
  check_numbers(graph);
  BudgetOptions budget = options.budget();
  const int64_t steps = options.empty ? 1 : options.steps;  // what is empty goes at once
  Pruner pruner(options);
  const Graph original = working_form(graph);
  const Graph working = options.rotate && !options.empty ? pruner.rotated(original) : original;
  if (steps > 1) budget.whole = whole_network(working, analyze_channels(working, {}, options.use()), budget.budget);
  const Measure measure(working, options);
  if (measure.by_distance() && options.max_drop)
    throw Error(ErrorKind::usage, OptionName{"max-drop"}, "needs labels and the scores of classes to measure by");
  Measured before = measure(working, "measuring the original");
  before.cost = cost_of(graph);
  if (measure.by_distance()) pruner.result().notes.push_back(measure.note());
  if (measure.labelled() != nullptr) check_chance(before, *measure.labelled(), options, pruner.result().notes);
  if (given.compensate == "auto" && options.compensate == "synthetic" && !options.plan && !options.empty)
    pruner.result().notes.emplace_back(
        "without data, images made from the network are learned from; a few hundred real ones lose less, and "
        "`compensate` most-sim, by weights alone, takes a second");
  if (!options.has_data() && !options.plan && !options.empty)
    pruner.result().notes.emplace_back("what this costs was not measured: name `data` to have it measured");
  const auto method_start = Clock::now();
  Graph pruned = working;
  for (int64_t step = 1; step <= steps; ++step) {
    budget.part = static_cast<double>(step) / static_cast<double>(steps);
    pruned = options.empty  ? pruner.remove_empty(pruned)
             : options.plan ? pruner.planned(pruned, budget)
                            : pruner.cut(pruned, budget);
    if (options.finetuning.epochs > 0) pruned = finetuned(working, pruned, options);
  }
  PruneResult result = std::move(pruner.result());
  result.method_seconds = since(method_start) - result.image_seconds;
  result.before = before;
  pruned = narrowed_like(std::move(pruned), graph);
  result.after = measure(pruned, "measuring the pruned model");
  result.graph = close_batch(std::move(pruned), graph);
  result.after.cost = cost_of(result.graph);
  options.data.keep_asked(result.graph);
  if (options.plan) result.graph = graph;
  result.seconds = since(start);
  result.criterion = options.criterion;
  result.scope = name_of(options.scope);
  result.compensate = options.compensate;
  if (options.finetuning.epochs == 0 && !measure.by_distance()) note_drop(result, options);
  if (options.max_drop && options.ranks->main()) {
    if (result.before.metrics.empty())
      throw Error(ErrorKind::usage, OptionName{"max-drop"}, "needs labels to measure by");
    const auto& [name, had] = result.before.metrics.front();
    const double has = result.after.metrics.front().second;
    if (!(had - has <= *options.max_drop)) {
      if (options.on_missed) options.on_missed(result);
      throw Error(ErrorKind::quality, OptionName{"max-drop"}, "{} falls from {:.4f} to {:.4f}, by more than {}{}", name,
                  had, has, *options.max_drop, fitting_budget(working, options, *measure.labelled(), had));
    }
  }
  return result;
}

}  // namespace pare
