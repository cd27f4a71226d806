#include "pare/compensate/compensate.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>

#include "pare/compensate/judge.h"
#include "pare/compensate/readers.h"
#include "pare/compensate/transport.h"
#include "pare/error.h"
#include "pare/fuse/compensate_by_transport.h"
#include "pare/passes/remove_channels.h"

namespace pare {

const std::vector<Compensation>& compensations() {
  static const std::vector<Compensation> list = {
      {"none", ImageSource::none,
       [](const MergeProblem& p, const CompensateOptions&) { return Merge{.Z = identity_merge(p)}; }},
      {"most-sim", ImageSource::none,
       [](const MergeProblem& p, const CompensateOptions& o) { return most_sim(p, o.most_sim); }, true},
      {"nnls", ImageSource::none, [](const MergeProblem& p, const CompensateOptions& o) { return nnls(p, o.nnls); },
       true},
      {"nmf", ImageSource::none, [](const MergeProblem& p, const CompensateOptions& o) { return nmf(p, o.nmf); }},
      {"gaussian", ImageSource::none,
       [](const MergeProblem& p, const CompensateOptions& o) { return gaussian(p, o.gaussian); }, true},
      {"ot", ImageSource::none, [](const MergeProblem& p, const CompensateOptions&) { return transport(p); }, true,
       move_statistics},
      {"ot-average", ImageSource::none, nullptr, false, nullptr,
       [](const Graph& dense, const std::set<ChannelId>& removed) { return compensate_by_transport(dense, removed); }},
      {"synthetic", ImageSource::made},
      {"calibrated", ImageSource::data},
  };
  return list;
}

const Compensation& find_compensation(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& method : compensations()) {
    if (method.name == name) return method;
    names.push_back(method.name);
  }
  throw Error(ErrorKind::usage, OptionName{"compensate"}, "'{}' is none of {}", name, fmt::join(names, ", "));
}

namespace {

std::set<ChannelId> removed_by(const std::vector<GroupCut>& cuts) {
  std::set<ChannelId> removed;
  for (const auto& cut : cuts) removed.insert(cut.order.begin(), cut.order.begin() + cut.count);
  return removed;
}

struct Merges {
  std::map<size_t, Merge> merges;        // by group, where there is anything to fold
  std::map<size_t, std::string> groups;  // what was done for each
};

Merges find_merges(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                   const Compensation& method, const CompensateOptions& options) {
  Merges found;
  std::optional<ReaderMerging> readers;
  if (method.by_reader) readers.emplace(graph, map, removed);
  const auto merged = [&](const MergeProblem& problem) { return method.merge(problem, options); };
  for (size_t g = 0; g < map.groups.size(); ++g) {
    const MergeProblem problem = merge_problem(graph, map, map.groups[g], removed);
    if (problem.removed.empty()) continue;
    Merge merge = readers ? readers->merge(map.groups[g], merged) : merged(problem);
    found.groups[g] = merge.merged > 0 || merge.reason.empty()
                          ? fmt::format("{} of {} merged", merge.merged, problem.removed.size())
                          : merge.reason;
    if (merge.merged > 0 && !merge.reason.empty()) found.groups[g] += "; " + merge.reason;
    if (merge.merged > 0 || !merge.readers.empty()) found.merges[g] = std::move(merge);
  }
  return found;
}

Graph merged_graph(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                   const Compensation& method, const std::map<size_t, Merge>& merges) {
  Graph result = remove_and_merge(graph, map, removed, merges);
  return method.finish == nullptr ? result : method.finish(fold_copies(graph, map, merges), result, map, removed);
}

// Gives up the merges of groups for which the judge finds them no better than none, and says so.
void drop_worse(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                const Compensation& method, const Judge& judge, Merges& found, std::vector<std::string>& notes) {
  std::vector<size_t> groups;
  std::vector<Judge::Trial> trials;
  for (const auto& cut : cuts) {
    const auto merge = found.merges.find(cut.group);
    if (merge == found.merges.end() || judge.samples() == 0) continue;
    std::set<ChannelId> removed = removed_by({cut});
    Graph compensated = merged_graph(graph, map, removed, method, {*merge});
    groups.push_back(cut.group);
    trials.push_back({std::move(removed), std::move(compensated)});
  }
  const auto judgements = judge.judge(trials);
  std::vector<std::string> worse;
  for (size_t i = 0; i < judgements.size(); ++i) {
    if (judgements[i].better()) continue;
    found.merges.erase(groups[i]);
    found.groups[groups[i]] = fmt::format("none: divergence {:.2g}, by {} {:.2g}", judgements[i].none, method.name,
                                          judgements[i].compensated);
    worse.push_back(map.groups[groups[i]].name);
  }
  if (!worse.empty())
    notes.push_back(fmt::format("{} of {} groups are only cut, as '{}' is no better than none there on {} samples: {}",
                                worse.size(), cuts.size(), method.name, judge.samples(), fmt::join(worse, ", ")));
}

Compensated by_merging(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                       const Compensation& method, const CompensateOptions& options, const Judge& judge) {
  Compensated result{.removed = removed_by(cuts)};
  Merges found = find_merges(graph, map, result.removed, method, options);
  drop_worse(graph, map, cuts, method, judge, found, result.notes);
  result.graph = merged_graph(graph, map, result.removed, method, found.merges);
  result.groups = std::move(found.groups);
  return result;
}

Compensated by_fusion(const Graph& graph, const std::vector<GroupCut>& cuts, const Compensation& method) {
  Compensated result{.removed = removed_by(cuts)};
  result.graph = method.fuse(graph, result.removed);
  for (const auto& cut : cuts) result.groups[cut.group] = "fused";
  return result;
}

// A finite sum has finite terms; one that is not may have overflowed.
bool all_finite(const at::Tensor& tensor) {
  return std::isfinite(tensor.sum().item<double>()) || at::isfinite(tensor).all().item<bool>();
}

Compensated by_solving(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                       const CompensateOptions& options, const Samples& samples, Observer& observer) {
  if (samples.size == 0) throw Error(ErrorKind::usage, OptionName{"compensate"}, "the method needs images");
  Refitted refitted = refit(graph, map, cuts, samples, options.refit, observer);
  Compensated result{.graph = std::move(refitted.graph), .removed = std::move(refitted.removed)};
  result.notes.push_back(fmt::format("{} layers solved on {} samples", refitted.solved.size(), samples.size));
  for (const auto& left : refitted.left) result.notes.push_back("only cut, not solved: " + left);
  return result;
}

// Gives the compensation up where all groups together are no better for it than only removed.
void check_whole(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                 const Compensation& method, const Judge& judge, Compensated& result) {
  const auto judgements = judge.judge({{result.removed, result.graph}});
  if (judgements.empty() || judgements[0].better()) return;
  result.graph = remove_channels(graph, map, result.removed);
  for (const auto& cut : cuts) result.groups[cut.group] = "none";
  result.notes = {fmt::format(
      "the channels are only cut: '{}' leaves the network's answer on {} samples no nearer to the original's ({:.3g}) "
      "than removing them does ({:.3g})",
      method.name, judge.samples(), judgements[0].compensated, judgements[0].none)};
}

}  // namespace

Compensated compensate(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                       const Compensation& method, const CompensateOptions& options, const Samples& samples,
                       Observer& observer, const Samples& judges) {
  const Judge judge(graph, map, judges, observer);
  Compensated result = method.merge != nullptr  ? by_merging(graph, map, cuts, method, options, judge)
                       : method.fuse != nullptr ? by_fusion(graph, cuts, method)
                                                : by_solving(graph, map, cuts, options, samples, observer);
  for (const auto& [name, tensor] : result.graph.tensors)
    if (tensor.is_floating_point() && !all_finite(tensor) &&
        (!graph.is_constant(name) || all_finite(graph.tensor(name))))
      throw Error(ErrorKind::failed, name, "the compensation '{}' gave values that are not finite", method.name);
  check_whole(graph, map, cuts, method, judge, result);
  result.judges = judge.samples();
  return result;
}

}  // namespace pare
