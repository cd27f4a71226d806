#include "pare/workflow/prune.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "pare/compensate/empty.h"
#include "pare/core/error.h"
#include "pare/passes/open_batch.h"
#include "pare/passes/pipeline.h"
#include "pare/passes/precision.h"
#include "pare/passes/working_form.h"
#include "pare/prune/criteria.h"
#include "pare/prune/subset.h"
#include "pare/workflow/evaluate.h"
#include "pare/workflow/learning_images.h"

namespace pare {

void PruneOptions::describe(OptionVisitor& options) {
  options.field("channels", channels, "fraction of the channels of each group to remove");
  options.field("params", params, "or fraction of the model's parameters");
  options.field("macs", macs, "or fraction of its multiply-accumulates");
  options.field("empty", empty, "remove only channels that hold zeros, and change no output");
  options.field("criterion", criterion, "which channels go: the least important by this",
                {"l1", "l2", "gm", "bn", "taylor", "random", "subset"});
  options.field("scope", scope, "the same fraction of each group, or the least important of all",
                {"uniform", "global"});
  options.field("layers", layers, "GLOB or GLOB=FRACTION: cut only these groups");
  options.field("skip", skip, "GLOB: do not cut these groups");
  options.field("round-to", round_to, "widths that are left are multiples of this");
  options.field("floor", floor, "at least this fraction of a group stays");
  options.field("inner-only", inner_only, "leave residual streams alone");
  options.field("steps", steps, "cut in so many steps, selecting anew each time");
  Choices names;
  for (const auto& compensation : compensations()) names.emplace_back(compensation.name);
  options.field("compensate", compensate, "how the kept channels take over from the removed ones", names);
  options.field("threshold", method.most_sim.threshold, "less similar filters are dropped, not merged");
  options.field("lambda", method.most_sim.lambda, "weight of the cosine against the bias behind batch norm");
  options.field("as-published", method.most_sim.as_published, "scales as the authors' program has them");
  options.field("terms", method.nnls.terms, "kept channels that may take over from a removed one");
  options.field("nmf-iterations", method.nmf.iterations, "multiplicative updates");
  options.field("ridge", method.reconstruct.ridge, "ridge of the solved layers");
  options.field("images", images, "kind of the images that are made without data",
                {"distilled", "pink", "smooth", "white"});
  options.field("samples", samples, "images to learn from (0: 256 of the data, 64 made ones or more when small)");
  options.field("no-mirror", no_mirror, "do not learn from the mirror images of colour images too");
  options.field("distill-steps", distill_steps, "steps of gradient descent that make an image");
  options.field("max-drop", max_drop, "fail (exit 5) when top-1 falls by more than this fraction");
  data.describe(options);
  options.only({"floor"}, {with("scope", {"global"})});
  options.only({"threshold", "lambda", "as-published"}, {with("compensate", {"most-sim"})});
  options.only({"terms"}, {with("compensate", {"nnls"})});
  options.only({"nmf-iterations"}, {with("compensate", {"nmf"})});
  options.only({"ridge"}, {with("compensate", {"synthetic", "calibrated"})});
  // A selection by what the network does with images looks at them too; they are made where no data is named.
  const Condition learns = with("compensate", {"synthetic", "calibrated"}), makes = with("compensate", {"synthetic"});
  options.only({"samples"}, {learns, with("criterion", {"subset", "taylor"})});
  options.only({"no-mirror"}, {learns, with("criterion", {"subset"})});
  options.only({"images", "distill-steps"}, {makes, with("criterion", {"subset"})});
  options.only({"images", "distill-steps"}, {makes, without("data")});
  options.only({"distill-steps"}, {with("images", {"distilled"})});
  options.only({"criterion", "scope", "layers", "skip", "round-to", "inner-only", "steps", "compensate"},
               {without("empty")});
}

BudgetOptions PruneOptions::budget() const {
  BudgetOptions budget;
  int given = empty ? 1 : 0;
  // Not `>= 0`: a fraction that is not a number is given, and refused later.
  const auto take = [&](double ratio, Budget kind) {
    if (ratio < 0) return;
    ++given;
    budget.ratio = ratio;
    budget.budget = kind;
  };
  take(channels, Budget::channels);
  take(params, Budget::params);
  take(macs, Budget::macs);
  // Fractions of their own for all the layers that are named are a budget, whatever the others' is.
  const auto has_own = [](const std::string& layer) { return layer.find('=') != std::string::npos; };
  if (given == 0 && !layers.empty() && std::ranges::all_of(layers, has_own)) take(0.5, Budget::channels);
  if (given != 1)
    throw Error(ErrorKind::usage, "prune", "expected one of --channels, --params, --macs and --empty, found {}", given);
  if (scope != "uniform" && scope != "global")
    throw Error(ErrorKind::usage, "--scope", "'{}' is not uniform or global", scope);
  budget.scope = scope == "global" ? Scope::global : Scope::uniform;
  budget.layers = layers;
  budget.skip = skip;
  budget.round_to = round_to;
  budget.floor = floor;
  budget.comparable = criterion == "subset";
  budget.inner_only = inner_only;
  return budget;
}

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Pruner {
 public:
  explicit Pruner(const PruneOptions& options)
      : options_(options),
        method_options_(options.method),
        method_(find_compensation(options.compensate)),
        images_(options, result_.notes, result_.image_seconds) {
    if (method_.images == ImageSource::data && options.data.data.empty())
      throw Error(ErrorKind::usage, "--data", "'{}' learns from images: name the data", method_.name);
    if (options.samples < 0) throw Error(ErrorKind::usage, "--samples", "expected 0 or more");
    if (options.distill_steps < 1) throw Error(ErrorKind::usage, "--distill-steps", "expected 1 or more");
    if (options.method.nnls.terms < 1) throw Error(ErrorKind::usage, "--terms", "expected 1 or more");
    if (options.method.nmf.iterations < 1) throw Error(ErrorKind::usage, "--nmf-iterations", "expected 1 or more");
    const auto fraction = [](double value, const char* where, double highest) {
      if (!(value >= 0 && value <= highest)) throw Error(ErrorKind::usage, where, "expected 0 to {}", highest);
    };
    fraction(options.method.most_sim.threshold, "--threshold", 1);
    fraction(options.method.most_sim.lambda, "--lambda", 1);
    fraction(options.method.reconstruct.ridge, "--ridge", 1e6);
    method_options_.reconstruct.ranks = options.ranks;
  }

  // One selection, removal and compensation.
  Graph cut(const Graph& graph, const BudgetOptions& budget) {
    const ChannelMap map = analyze_channels(graph);
    const Selection selection = select_channels(graph, map, budget, importance(graph, map));
    const auto removed = selection.removed();
    if (removed.empty()) {  // of this step; later ones have their part
      note_groups(selection, {});
      return graph;
    }
    const std::vector<at::Tensor> none;
    const auto& inputs = method_.images == ImageSource::none ? none : images_.inputs(graph);
    Pipeline pipeline;
    Compensated done;
    Graph pruned = pipeline.run(
        "prune",
        [&](const Graph& g) {
          done = compensate(g, map, removed, method_, method_options_, inputs);
          return done.graph;
        },
        graph);
    note_groups(selection, done);
    for (const auto& note : done.notes) result_.notes.push_back(note);
    return pruned;
  }

  // What a mask has emptied, and nothing else.
  Graph remove_empty(const Graph& graph) {
    EmptyRemoved done = remove_empty_channels(graph);
    if (done.unread + done.constant == 0)
      throw Error(ErrorKind::usage, "--empty", "no channel is empty: neither a filter nor all that reads one is zero");
    result_.notes.push_back(fmt::format(
        "{} channels that nothing reads and {} constant ones removed; outputs unchanged", done.unread, done.constant));
    const ChannelMap after = analyze_channels(done.graph);
    for (const auto& group : analyze_channels(graph).groups) {
      const auto same = [&](const ChannelGroup& other) { return other.name == group.name; };
      const auto found = std::find_if(after.groups.begin(), after.groups.end(), same);
      const auto total = static_cast<int64_t>(group.channels.size());
      const auto kept = found == after.groups.end() ? total : static_cast<int64_t>(found->channels.size());
      result_.groups.push_back({.name = group.name,
                                .total = total,
                                .kept = kept,
                                .reason = kept < total ? "" : "none is empty",
                                .compensation = ""});
    }
    return std::move(done.graph);
  }

  PruneResult& result() { return result_; }

 private:
  Importance importance(const Graph& graph, const ChannelMap& map) {
    if (options_.criterion == "subset") {
      moments_ = reader_moments(graph, map, images_.inputs(graph), *options_.ranks);
      return [this, &map](const ChannelGroup& group, std::string& reason) {
        const auto index = static_cast<size_t>(&group - map.groups.data());
        const auto found = moments_.find(index);
        if (found != moments_.end()) return subset_importance(found->second);
        reason = "no layer that could be measured reads its channels";
        return at::Tensor();
      };
    }
    CriterionOptions criterion{.criterion = criterion_of(options_.criterion), .seed = options_.seed};
    if (criterion.criterion == Criterion::taylor) {
      if (options_.data.data.empty()) throw Error(ErrorKind::usage, "--data", "the criterion taylor needs data");
      const Batch& batch = images_.batch(graph);
      gradients_ = loss_gradients(graph, batch.images, batch.labels);
      average_over_ranks(gradients_, static_cast<double>(batch.images.size(0)));
      criterion.gradients = &gradients_;
    }
    return [this, &graph, &map, criterion](const ChannelGroup& group, std::string& reason) {
      return pare::importance(graph, map, group, criterion, reason);
    };
  }

  // Gradients of a mean over `images` images become those of the mean over the images of all ranks.
  void average_over_ranks(Gradients& gradients, double images) const {
    if (options_.ranks->alone()) return;
    const at::Tensor all = at::full({1}, images, at::kDouble);
    options_.ranks->sum(all);
    for (auto& [name, gradient] : gradients) {
      gradient = gradient.contiguous() * (images / all.item<double>());
      options_.ranks->sum(gradient);
    }
  }

  // Groups of a later step have fewer channels to begin with: totals are those of the first.
  void note_groups(const Selection& selection, const Compensated& done) {
    const bool first = result_.groups.empty();
    for (size_t i = 0; i < selection.groups.size(); ++i) {
      const GroupPlan& plan = selection.groups[i];
      if (first) result_.groups.push_back({.name = plan.name, .total = plan.total});
      const auto found = std::find_if(result_.groups.begin(), result_.groups.end(),
                                      [&](const PrunedGroup& group) { return group.name == plan.name; });
      if (found == result_.groups.end()) continue;
      found->kept = plan.kept;
      found->reason = found->kept < found->total && plan.removed.empty() ? "" : plan.reason;
      if (const auto what = done.groups.find(plan.group); what != done.groups.end()) found->compensation = what->second;
    }
  }

  const PruneOptions& options_;
  CompensateOptions method_options_;
  const Compensation& method_;
  PruneResult result_;
  LearningImages images_;
  std::map<size_t, std::vector<ReaderMoments>> moments_;
  Gradients gradients_;
};

Measured measured(const Graph& graph, const Dataset* data, const PruneOptions& options, const std::string& what) {
  Measured result{.cost = cost_of(graph)};
  if (data == nullptr) return result;
  const auto progress = [&](int64_t done, int64_t all) {
    if (options.progress) options.progress(what, done, all);
  };
  result.metrics = metrics_of(evaluate({graph}, *data, {.progress = progress}), 0);
  return result;
}

}  // namespace

namespace {

// No more than two standard errors above guessing, of few images not half way to all: something between data and
// network does not fit.
bool at_chance(const Measured& before, const Dataset& data) {
  if (before.metrics.empty() || data.multi_label()) return false;
  const double chance = 1 / static_cast<double>(data.classes.size());
  const double error = std::sqrt(chance * (1 - chance) / static_cast<double>(data.size()));
  return !(before.metrics.front().second > std::min(chance + 2 * error, (1 + chance) / 2));
}

void check_chance(const Measured& before, const Dataset& data, const PruneOptions& options,
                  std::vector<std::string>& notes) {
  if (!at_chance(before, data)) return;
  const auto& [name, value] = before.metrics.front();
  const std::string what = fmt::format(
      "{} of the original is {:.4f}, no better than chance among {} classes: do the classes, their order "
      "(--class-map), "
      "--mean, --std and --preprocess fit the model?",
      name, value, data.classes.size());
  if (options.max_drop >= 0) throw Error(ErrorKind::quality, "--max-drop", "means nothing: {}", what);
  notes.push_back(what);
}

// Error{usage} for a network that nothing can be said of.
void check_numbers(const Graph& graph) {
  for (const auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point() && at::isnan(tensor).any().item<bool>())
      throw Error(ErrorKind::format, name, "holds NaN: its channels can neither be ranked nor merged");
}

// The largest part of the budget among a few that stays within the gate; nothing where none does.
std::string fitting_budget(const Graph& graph, const PruneOptions& all, const Dataset& data, double before) {
  const bool given = all.channels >= 0 || all.params >= 0 || all.macs >= 0;
  if (!given || all.after_step) return "";
  PruneOptions options = all;
  options.ranks = &alone();  // the others do not come here
  Pruner pruner(options);
  for (const double part : {0.75, 0.5, 0.25, 0.125}) {
    BudgetOptions budget = options.budget();
    budget.ratio *= part;
    const double after = metrics_of(evaluate({pruner.cut(graph, budget)}, data), 0).front().second;
    const char* flag = options.channels >= 0 ? "channels" : options.params >= 0 ? "params" : "macs";
    if (before - after <= options.max_drop)
      return fmt::format("; --{} {:.3g} would have fitted ({:.4f})", flag, budget.ratio, after);
  }
  return "; not even an eighth of the budget would have fitted";
}

}  // namespace

PruneResult prune(const Graph& graph, const PruneOptions& options) {
  const auto start = Clock::now();
  if (options.steps < 1) throw Error(ErrorKind::usage, "--steps", "expected 1 or more, found {}", options.steps);
  if (options.max_drop != PruneOptions{}.max_drop && !(options.max_drop >= 0))
    throw Error(ErrorKind::usage, "--max-drop", "expected 0 or more, found {}", options.max_drop);
  if (options.max_drop >= 0 && options.data.data.empty())
    throw Error(ErrorKind::usage, "--max-drop", "needs --data to measure on");
  check_numbers(graph);
  BudgetOptions budget = options.budget();
  const int64_t steps = options.empty ? 1 : options.steps;  // what is empty goes at once
  const Graph working = working_form(graph);
  if (steps > 1) budget.whole = whole_network(working, analyze_channels(working), budget.budget);
  Pruner pruner(options);
  const std::optional<Dataset> data =
      options.data.data.empty() ? std::nullopt : std::optional(options.data.load(graph));
  const Dataset* where = data && options.ranks->main() ? &*data : nullptr;
  Measured before = measured(working, where, options, "measuring the original");
  before.cost = cost_of(graph);
  if (where != nullptr) check_chance(before, *where, options, pruner.result().notes);
  const auto method_start = Clock::now();
  Graph pruned = working;
  for (int64_t step = 1; step <= steps; ++step) {
    budget.part = static_cast<double>(step) / static_cast<double>(steps);
    pruned = options.empty ? pruner.remove_empty(pruned) : pruner.cut(pruned, budget);
    if (!options.after_step) continue;
    pruned = options.after_step(pruned, step);
  }
  PruneResult result = std::move(pruner.result());
  result.method_seconds = since(method_start) - result.image_seconds;
  result.before = before;
  pruned = narrowed_like(std::move(pruned), graph);
  result.after = measured(pruned, where, options, "measuring the pruned model");
  result.graph = close_batch(std::move(pruned), graph);
  result.after.cost = cost_of(result.graph);
  result.seconds = since(start);
  if (options.max_drop >= 0 && options.ranks->main()) {
    const auto& [name, had] = result.before.metrics.front();
    const double has = result.after.metrics.front().second;
    if (!(had - has <= options.max_drop)) {
      if (options.on_missed) options.on_missed(result);
      throw Error(ErrorKind::quality, "--max-drop", "{} falls from {:.4f} to {:.4f}, by more than {}{}", name, had, has,
                  options.max_drop, fitting_budget(working, options, *where, had));
    }
  }
  return result;
}

namespace {

// Why each group of the map is not scanned; empty where it is asked for.
std::vector<std::string> not_asked_for(const Graph& graph, const ChannelMap& map, const PruneOptions& options) {
  std::vector<std::string> reasons(map.groups.size(), options.layers.empty() ? "" : "not asked for by --layers");
  for (const auto& glob : options.layers) {
    if (glob.find('=') != std::string::npos)
      throw Error(ErrorKind::usage, "--layers", "'{}': a scan goes through all fractions, give the glob alone", glob);
    bool any = false;
    for (size_t g = 0; g < map.groups.size(); ++g)
      if (matches_group(glob, graph, map, map.groups[g])) any = true, reasons[g].clear();
    if (!any) throw Error(ErrorKind::usage, "--layers", "'{}' matches none of the groups", glob);
  }
  return reasons;
}

}  // namespace

Scan scan(const Graph& graph, const PruneOptions& options) {
  constexpr int kPoints = 9;
  if (options.data.data.empty()) throw Error(ErrorKind::usage, "--scan", "needs --data to measure on");
  PruneOptions own = options;
  own.channels = 0.5;
  own.params = own.macs = -1;
  Scan result;
  const Graph working = working_form(graph);
  const ChannelMap map = analyze_channels(working);
  const std::vector<std::string> reasons = not_asked_for(working, map, options);
  const Dataset data = options.data.load(graph);
  result.before = metrics_of(evaluate({working}, data), 0).front().second;
  // One group at a time; the images are made once.
  Pruner pruner(own);
  int64_t done = 0;
  for (const auto& group : map.groups) {
    ScanCurve curve{.name = group.name};
    std::string reason = reasons[static_cast<size_t>(&group - map.groups.data())];
    const int points = reason.empty() ? kPoints : 0;
    for (int i = 1; i <= points; ++i) {
      BudgetOptions budget = own.budget();
      budget.ratio = 0.1 * i;
      try {
        pruner.result().groups.clear();
        budget.layers = {group.name};
        const Graph cut = pruner.cut(working, budget);
        curve.ratios.push_back(budget.ratio);
        curve.top1.push_back(metrics_of(evaluate({cut}, data), 0).front().second);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::usage) throw;
        reason = group.reason.empty() ? error.message() : group.reason;
      }
    }
    if (curve.ratios.empty())
      result.left.push_back({.name = group.name,
                             .total = static_cast<int64_t>(group.channels.size()),
                             .kept = static_cast<int64_t>(group.channels.size()),
                             .reason = reason});
    else
      result.curves.push_back(std::move(curve));
    if (options.progress) options.progress("scanning", ++done, static_cast<int64_t>(map.groups.size()));
  }
  if (result.curves.empty()) throw Error(ErrorKind::usage, "--scan", "no group can be cut");
  return result;
}

}  // namespace pare
