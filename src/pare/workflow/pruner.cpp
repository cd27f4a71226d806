#include "pare/workflow/pruner.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/compensate/empty.h"
#include "pare/distill/repair.h"
#include "pare/error.h"
#include "pare/layerwise/offset_places.h"
#include "pare/passes/remove_channels.h"
#include "pare/passes/run_pass.h"
#include "pare/workflow/rotate.h"

namespace pare {

namespace {

void check_fraction(double value, const char* option, double highest) {
  if (!(value >= 0 && value <= highest)) throw Error(ErrorKind::usage, OptionName{option}, "expected 0 to {}", highest);
}

// Later in the order of elimination is more important; undefined where there is none.
at::Tensor importance_by_order(const ChannelGroup& group, const GroupElimination* elimination) {
  if (elimination == nullptr) return {};
  std::map<ChannelId, int64_t> place;
  for (const ChannelId channel : elimination->order) place.emplace(channel, static_cast<int64_t>(place.size()));
  at::Tensor scores =
      at::full({static_cast<int64_t>(group.channels.size())}, static_cast<double>(place.size()), at::kDouble);
  for (size_t i = 0; i < group.channels.size(); ++i)
    if (const auto found = place.find(group.channels[i]); found != place.end())
      scores[static_cast<int64_t>(i)] = static_cast<double>(found->second);
  return scores;
}

std::vector<GroupCut> cuts_of(const Selection& selection, bool choose) {
  std::vector<GroupCut> cuts;
  for (const auto& plan : selection.groups)
    if (!plan.removed.empty())
      cuts.push_back({plan.group, plan.removed, static_cast<int64_t>(plan.removed.size()), choose});
  return cuts;
}

}  // namespace

Pruner::Pruner(const PruneJob& options)
    : options_(options),
      method_options_{.most_sim = options.most_sim, .nnls = options.nnls, .nmf = options.nmf},
      method_(find_compensation(options.compensate)),
      images_(options, method_.images == ImageSource::made, result_.notes, result_.image_seconds),
      watch_(options) {
  if (method_.images == ImageSource::data && !options.has_data())
    throw Error(ErrorKind::usage, OptionName{"data"}, "'{}' learns from images: name the data", method_.name);
  if (options.samples < 0) throw Error(ErrorKind::usage, OptionName{"samples"}, "expected 0 or more");
  if (options.distill_steps < 0) throw Error(ErrorKind::usage, OptionName{"distill-steps"}, "expected 0 or more");
  if (options.nnls.terms < 1) throw Error(ErrorKind::usage, OptionName{"terms"}, "expected 1 or more");
  if (options.nmf.iterations < 1) throw Error(ErrorKind::usage, OptionName{"nmf-iterations"}, "expected 1 or more");
  check_fraction(options.most_sim.threshold, "threshold", 1);
  check_fraction(options.most_sim.lambda, "lambda", 1);
  check_fraction(options.ridge, "ridge", 1e6);
  check_fraction(options.minutes, "minutes", 10080);
  if (options.minutes > 0 && !options.ranks->alone())
    throw Error(ErrorKind::usage, OptionName{"minutes"}, "repair works on one rank alone");
  if (options.ridge > 0) method_options_.refit.solve = {.ridge = options.ridge, .choices = {}};
  method_options_.refit.read.seed = options.seed;
}

Graph Pruner::rotated(const Graph& graph) {
  RotatedStreams done = rotate_streams(graph, images_.samples(graph), watch_);
  for (const auto& note : notes_of(done.streams)) result_.notes.push_back(note);
  return std::move(done.graph);
}

Graph Pruner::cut(const Graph& given, const BudgetOptions& budget) {
  const bool solves = method_.images != ImageSource::none;
  const Graph graph = solves ? with_offset_places(given) : given;
  const ChannelMap map = analyze_channels(graph, {}, options_.use());
  const Selection selection = select(graph, map, budget);
  if (selection.removed().empty()) {  // of this step; later ones have their part
    note_groups(selection, {});
    return given;
  }
  const auto cuts = cuts_of(selection, criterion_.eliminates());
  const Samples all = solves ? images_.samples(graph) : Samples{};
  // Repair is judged on samples that nothing was solved on.
  const int64_t held = solves && options_.minutes > 0 ? std::max<int64_t>(1, all.size / 5) : 0;
  const Samples samples = solves ? images_.mirrored(graph, part_of(all, held, all.size)) : Samples{};
  const bool judged = method_.name != "none" && !options_.unchecked;
  const Samples judges = judged ? images_.judges(graph, solves) : Samples{};
  Compensated done;
  Graph pruned = run_pass(
      "prune",
      [&](const Graph& g) {
        done = compensate(g, map, cuts, method_, method_options_, samples, watch_, judges);
        return solves ? without_zero_offsets(done.graph) : done.graph;
      },
      graph);
  note_groups(selection, done);
  result_.judges = done.judges;
  for (const auto& note : done.notes) result_.notes.push_back(note);
  if (held == 0) return pruned;
  const Repaired repaired =
      repair(given, pruned, part_of(all, held, all.size), part_of(all, 0, held),
             {.minutes = options_.minutes, .mirror = !options_.no_mirror, .seed = options_.seed}, watch_);
  result_.notes.push_back(repair_note(repaired, held));
  return repaired.graph;
}

Graph Pruner::planned(const Graph& given, const BudgetOptions& budget) {
  const Graph graph = method_.images != ImageSource::none ? with_offset_places(given) : given;
  const ChannelMap map = analyze_channels(graph, {}, options_.use());
  const Selection selection = select(graph, map, budget);
  note_groups(selection, {});
  return without_zero_offsets(remove_channels(graph, map, selection.removed()));
}

Selection Pruner::select(const Graph& graph, const ChannelMap& map, const BudgetOptions& budget) {
  if (!criterion_.eliminates()) return select_channels(graph, map, budget, importance(graph, map));
  const bool allocates = budget.scope == Scope::allocate;
  std::vector<Candidate> groups = candidates(graph, map, budget);
  const ChannelStudy study = studied(graph, map, groups, allocates);
  method_options_.refit.fisher = study.fisher;
  if (allocates) return allocate_channels(graph, map, groups, study, budget);
  return select_channels(graph, map, budget, [&](const ChannelGroup& group, std::string& reason) {
    const auto index = static_cast<size_t>(&group - map.groups.data());
    reason = groups[index].plan.reason;
    return importance_by_order(group, study.find(index));
  });
}

void Pruner::learn(const Graph& given, const BudgetOptions& budget) {
  if (!criterion_.eliminates()) return;
  const Graph graph = with_offset_places(given);
  const ChannelMap map = analyze_channels(graph, {}, options_.use());
  learned_groups_ = candidates(graph, map, budget);
  study_ = studied(graph, map, learned_groups_, budget.scope == Scope::allocate);
  learned_ = given;
}

ChannelStudy Pruner::studied(const Graph& graph, const ChannelMap& map, std::vector<Candidate>& groups,
                             bool sensitivity) {
  const auto same = [&](const auto& entry) {
    const auto found = graph.tensors.find(entry.first);
    return found != graph.tensors.end() && found->second.is_same(entry.second);
  };
  if (!learned_.tensors.empty() && std::all_of(learned_.tensors.begin(), learned_.tensors.end(), same)) {
    for (size_t g = 0; g < groups.size(); ++g)
      if (groups[g].open()) groups[g].plan.reason = learned_groups_[g].plan.reason;
    return study_;
  }
  return study_channels(graph, map, groups, images_.samples(graph), {.sensitivity = sensitivity, .seed = options_.seed},
                        watch_);
}

Importance Pruner::importance(const Graph& graph, const ChannelMap& map) {
  if (criterion_.basis == CriterionBasis::reader_moments) {
    moments_ = reader_moments(graph, map, images_.mirrored(graph), watch_);
    return [this, &map](const ChannelGroup& group, std::string& reason) {
      const auto index = static_cast<size_t>(&group - map.groups.data());
      const auto found = moments_.find(index);
      if (found != moments_.end()) return subset_importance(found->second);
      reason = "no layer that could be measured reads its channels";
      return at::Tensor();
    };
  }
  CriterionOptions criterion{.criterion = options_.criterion, .seed = options_.seed};
  if (criterion_.basis == CriterionBasis::gradients) {
    if (!options_.has_data())
      throw Error(ErrorKind::usage, OptionName{"data"}, "the criterion {} needs data", criterion_.name);
    const Batch& batch = images_.batch(graph);
    gradients_ = loss_gradients(graph, batch.images, batch.labels);
    average_over_ranks(gradients_, static_cast<double>(batch.images.size(0)));
    criterion.gradients = &gradients_;
  }
  return [&graph, &map, criterion](const ChannelGroup& group, std::string& reason) {
    return pare::importance(graph, map, group, criterion, reason);
  };
}

// Gradients of a mean over `images` images become those of the mean over the images of all ranks.
void Pruner::average_over_ranks(Gradients& gradients, double images) const {
  if (options_.ranks->alone()) return;
  const at::Tensor all = at::full({1}, images, at::kDouble);
  options_.ranks->sum(all);
  for (auto& [name, gradient] : gradients) {
    gradient = gradient.contiguous() * (images / all.item<double>());
    options_.ranks->sum(gradient);
  }
}

// Groups of a later step have fewer channels to begin with: totals are those of the first.
void Pruner::note_groups(const Selection& selection, const Compensated& done) {
  const bool first = result_.groups.empty();
  for (size_t i = 0; i < selection.groups.size(); ++i) {
    const GroupPlan& plan = selection.groups[i];
    if (first) result_.groups.push_back({.name = plan.name, .total = plan.total});
    const auto found = std::find_if(result_.groups.begin(), result_.groups.end(),
                                    [&](const PrunedGroup& group) { return group.name == plan.name; });
    if (found == result_.groups.end()) continue;
    found->kept = plan.kept;
    found->loss = plan.loss;
    found->reason = found->kept < found->total && plan.removed.empty() ? "" : plan.reason;
    if (const auto what = done.groups.find(plan.group); what != done.groups.end()) found->compensation = what->second;
  }
}

// What a mask has emptied, and nothing else.
Graph Pruner::remove_empty(const Graph& graph) {
  EmptyRemoved done = remove_empty_channels(graph);
  if (done.unread + done.constant == 0)
    throw Error(ErrorKind::usage, OptionName{"empty"},
                "no channel is empty: neither a filter nor all that reads one is zero");
  result_.notes.push_back(fmt::format("{} channels that nothing reads and {} constant ones removed; outputs unchanged",
                                      done.unread, done.constant));
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

}  // namespace pare
