#include "pare/prune/allocate_channels.h"

#include <algorithm>
#include <cmath>

#include "pare/allocate/allocate.h"
#include "pare/prune/pruned_cost.h"

namespace pare {

namespace {

// A group on the way to a width: the first channels of its elimination's order go.
struct Allocated {
  size_t candidate = 0;
  const GroupElimination* elimination = nullptr;
  std::vector<int64_t> removed;  // that may be chosen, most first
  std::vector<double> losses;    // beside them
};

class ChannelAllocation {
 public:
  ChannelAllocation(const std::vector<Candidate>& groups, const ChannelStudy& study, const BudgetOptions& options)
      : groups_(groups), options_(options) {
    for (size_t c = 0; c < groups.size(); ++c) {
      if (!groups[c].open()) continue;
      const GroupElimination* elimination = study.find(groups[c].plan.group);
      if (elimination == nullptr) continue;
      const auto index = static_cast<size_t>(elimination - study.eliminations.data());
      open(c, *elimination, study.sensitivity.at(index).divergence);
    }
  }

  Selection run(const ChannelCost& cost, double budget) const {
    std::vector<std::vector<double>> losses;
    for (const auto& part : parts_) losses.push_back(part.losses);
    const auto cost_of = [&](const std::vector<size_t>& choice) { return cost(removed(choice)); };
    if (parts_.empty()) throw nothing_left(groups_);
    const auto choice = allocate(losses, cost_of, budget);
    if (!choice) {
      const double whole = options_.whole ? options_.whole->cost : cost({});
      const double least = cost_of(std::vector<size_t>(parts_.size(), 0));
      throw Error(ErrorKind::usage, option_of(options_.budget),
                  "at most {:.1f} % can be removed from the groups that may be cut, {:.1f} % are asked for",
                  100 * (1 - least / whole), 100 * (1 - budget / whole));
    }
    return selection(*choice);
  }

 private:
  // From the fewest channels that may stay up to all of them, in steps of the unit.
  void open(size_t c, const GroupElimination& elimination, const std::vector<double>& divergence) {
    const Candidate& group = groups_[c];
    Allocated part{.candidate = c, .elimination = &elimination};
    const auto most = static_cast<int64_t>(elimination.order.size());
    const auto add = [&](int64_t kept) {
      const int64_t gone = group.plan.total - kept;
      if (gone < 0 || gone > most || (gone == group.plan.total)) return;
      part.removed.push_back(gone);
      part.losses.push_back(divergence.empty() ? 0 : divergence[static_cast<size_t>(gone)]);
    };
    if (group.ratio) {
      add(std::min(group.plan.total, kept_count(group.width, *group.ratio * options_.part, group.unit)));
    } else {
      const auto floor = std::max<int64_t>(
          1, static_cast<int64_t>(std::ceil(static_cast<double>(group.width) * options_.floor - 1e-9)));
      for (int64_t kept = group.unit; kept < group.plan.total; kept += group.unit)
        if (kept >= floor) add(kept);
      add(group.plan.total);
    }
    if (!part.removed.empty()) parts_.push_back(std::move(part));
  }

  std::set<ChannelId> removed(const std::vector<size_t>& choice) const {
    std::set<ChannelId> all;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const auto& order = parts_[p].elimination->order;
      all.insert(order.begin(), order.begin() + parts_[p].removed[choice[p]]);
    }
    return all;
  }

  Selection selection(const std::vector<size_t>& choice) const {
    Selection selection;
    for (const auto& group : groups_) selection.groups.push_back(group.plan);
    for (size_t p = 0; p < parts_.size(); ++p) {
      GroupPlan& plan = selection.groups[parts_[p].candidate];
      const int64_t count = parts_[p].removed[choice[p]];
      const auto& order = parts_[p].elimination->order;
      plan.removed.assign(order.begin(), order.begin() + count);
      plan.kept = plan.total - count;
      plan.loss = parts_[p].losses[choice[p]];
      if (count == 0) plan.reason = "others lose less";
    }
    return selection;
  }

  const std::vector<Candidate>& groups_;
  const BudgetOptions& options_;
  std::vector<Allocated> parts_;
};

}  // namespace

Selection allocate_channels(const std::vector<Candidate>& groups, const ChannelStudy& study, const ChannelCost& cost,
                            double budget, const BudgetOptions& options) {
  return ChannelAllocation(groups, study, options).run(cost, budget);
}

Selection allocate_channels(const Graph& graph, const ChannelMap& map, const std::vector<Candidate>& groups,
                            const ChannelStudy& study, const BudgetOptions& options) {
  const double kept = 1 - options.ratio * options.part;
  if (options.budget != Budget::channels) {
    const PrunedCost cost(graph, map, options.budget);
    return allocate_channels(groups, study, cost, (options.whole ? options.whole->cost : cost({})) * kept, options);
  }
  double now = 0, whole = 0;  // of the channels that may go
  for (const auto& group : groups)
    if (group.open()) now += static_cast<double>(group.plan.total), whole += static_cast<double>(group.width);
  const auto cost = [now](const std::set<ChannelId>& removed) { return now - static_cast<double>(removed.size()); };
  return allocate_channels(groups, study, cost, whole * kept, options);
}

}  // namespace pare
