#include "pare/compensate/compensate.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/compensate/readers.h"
#include "pare/compensate/transport.h"
#include "pare/core/error.h"
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

Compensated by_merging(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                       const Compensation& method, const CompensateOptions& options) {
  Compensated result;
  std::map<size_t, Merge> merges;
  std::optional<ReaderMerging> readers;
  if (method.by_reader) readers.emplace(graph, map, removed);
  const auto merged = [&](const MergeProblem& problem) { return method.merge(problem, options); };
  for (size_t g = 0; g < map.groups.size(); ++g) {
    const MergeProblem problem = merge_problem(graph, map, map.groups[g], removed);
    if (problem.removed.empty()) continue;
    Merge merge = readers ? readers->merge(map.groups[g], merged) : merged(problem);
    result.groups[g] = merge.merged > 0 || merge.reason.empty()
                           ? fmt::format("{} of {} merged", merge.merged, problem.removed.size())
                           : merge.reason;
    if (merge.merged > 0 && !merge.reason.empty()) result.groups[g] += "; " + merge.reason;
    if (merge.merged > 0 || !merge.readers.empty()) merges[g] = std::move(merge);
  }
  result.graph = remove_and_merge(graph, map, removed, merges);
  if (method.finish != nullptr)
    result.graph = method.finish(fold_copies(graph, map, merges), result.graph, map, removed);
  return result;
}

Compensated by_fusion(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                      const Compensation& method) {
  Compensated result;
  result.graph = method.fuse(graph, removed);
  for (size_t g = 0; g < map.groups.size(); ++g)
    for (const ChannelId channel : map.groups[g].channels)
      if (removed.contains(channel)) result.groups[g] = "fused";
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

std::set<ChannelId> removed_by(const std::vector<GroupCut>& cuts) {
  std::set<ChannelId> removed;
  for (const auto& cut : cuts) removed.insert(cut.order.begin(), cut.order.begin() + cut.count);
  return removed;
}

Compensated without_samples(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                            const Compensation& method, const CompensateOptions& options) {
  std::set<ChannelId> removed = removed_by(cuts);
  Compensated result = method.merge != nullptr ? by_merging(graph, map, removed, method, options)
                                               : by_fusion(graph, map, removed, method);
  result.removed = std::move(removed);
  return result;
}

}  // namespace

Compensated compensate(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                       const Compensation& method, const CompensateOptions& options, const Samples& samples,
                       Observer& observer) {
  const bool solves = method.merge == nullptr && method.fuse == nullptr;
  Compensated result = solves ? by_solving(graph, map, cuts, options, samples, observer)
                              : without_samples(graph, map, cuts, method, options);
  for (const auto& [name, tensor] : result.graph.tensors)
    if (tensor.is_floating_point() && !all_finite(tensor) &&
        (!graph.is_constant(name) || all_finite(graph.tensor(name))))
      throw Error(ErrorKind::failed, name, "the compensation '{}' gave values that are not finite", method.name);
  return result;
}

}  // namespace pare
