#include <ATen/ATen.h>

#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/passes/working_form.h"
#include "pare/workflow/pruner.h"

namespace pare {

namespace {

// Why each group of the map is not scanned; empty where it is asked for.
std::vector<std::string> not_asked_for(const Graph& graph, const ChannelMap& map, const PruneJob& options) {
  std::vector<std::string> reasons(map.groups.size(), options.layers.empty() ? "" : "not asked for by `layers`");
  for (const auto& glob : options.layers) {
    if (glob.find('=') != std::string::npos)
      throw Error(ErrorKind::usage, OptionName{"layers"},
                  "'{}': a scan goes through all fractions, give the glob alone", glob);
    bool any = false;
    for (size_t g = 0; g < map.groups.size(); ++g)
      if (matches_group(glob, graph, map, map.groups[g])) any = true, reasons[g].clear();
    if (!any) throw Error(ErrorKind::usage, OptionName{"layers"}, "'{}' matches none of the groups", glob);
  }
  return reasons;
}

}  // namespace

Scan scan(const Graph& graph, const PruneJob& options) {
  constexpr int kPoints = 9;
  if (options.data.data.empty()) throw Error(ErrorKind::usage, OptionName{"scan"}, "needs `data` to measure on");
  PruneJob own = options;
  own.channels = 0.5;
  own.params = own.macs = own.bytes = std::nullopt;
  own = own.resolved(graph);
  Scan result;
  const Graph working = working_form(graph);
  const ChannelMap map = analyze_channels(working, {}, options.use());
  const std::vector<std::string> reasons = not_asked_for(working, map, options);
  const Dataset data = options.data.load(graph);
  result.before = metrics_of(evaluate({working}, data), 0).front().second;
  // One group at a time; the images are made once.
  Pruner pruner(own);
  BudgetOptions whole = own.budget();
  whole.layers = options.layers;
  pruner.learn(working, whole);
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
  if (result.curves.empty()) throw Error(ErrorKind::usage, OptionName{"scan"}, "no group can be cut");
  return result;
}

}  // namespace pare
