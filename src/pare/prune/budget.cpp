#include "pare/prune/budget.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "pare/error.h"
#include "pare/prune/candidates.h"
#include "pare/prune/pruned_cost.h"

namespace pare {

std::set<ChannelId> Selection::removed() const {
  std::set<ChannelId> all;
  for (const auto& plan : groups) all.insert(plan.removed.begin(), plan.removed.end());
  return all;
}

namespace {

class Selector {
 public:
  Selector(const Graph& graph, const ChannelMap& map, const BudgetOptions& options, const Importance& importance)
      : graph_(graph),
        map_(map),
        options_(options),
        whole_(options.whole ? *options.whole : whole_network(graph, map, options.budget)) {
    for (auto& candidate : candidates(graph, map, options)) score(std::move(candidate), importance);
    if (options_.scope == Scope::global) rank_channels();
    if (untouched() &&
        std::none_of(candidates_.begin(), candidates_.end(), [](const Scored& c) { return c.scores.defined(); }))
      throw failure();
  }

  Selection run() {
    if (options_.budget == Budget::channels && options_.scope == Scope::global) check_floors();
    if (options_.budget == Budget::channels || options_.budget == Budget::widths)
      return checked(at_ratio(options_.ratio * options_.part, options_.part));
    // Removing more channels never adds parameters or MACs, so bisection finds the least ratio that is enough.
    const PrunedCost cost(graph_, map_, options_.budget);
    const auto saved = [&](const Selection& selection) { return 1 - cost(selection.removed()) / whole_.cost; };
    double low = 0;
    double high = 1 - 1e-6;
    const double most = saved(at_ratio(high, 1));
    if (most < options_.ratio)
      throw Error(ErrorKind::usage, option_of(options_.budget),
                  "at most {:.1f} % can be removed from the groups that may be cut, {:.1f} % are asked for", 100 * most,
                  100 * options_.ratio);
    const auto enough = [&](const Selection& selection) { return saved(selection) >= options_.ratio * options_.part; };
    Selection best = at_ratio(high, options_.part);
    for (int i = 0; i < 20; ++i) {
      const double middle = (low + high) / 2;
      Selection selection = at_ratio(middle, options_.part);
      if (enough(selection)) {
        high = middle;
        best = std::move(selection);
      } else {
        low = middle;
      }
    }
    return checked(no_more_than_needed(at_ratio(low, options_.part), best, enough));
  }

 private:
  struct Scored : Candidate {
    at::Tensor scores;  // of its removable channels, undefined when it is left alone
  };

  // Widths are rounded, so that many groups become narrower at one ratio and far more goes than is asked for. Of those
  // that differ between too little and enough the fewest go: the widest first, of equal ones the last in the network.
  template <typename Enough>
  Selection no_more_than_needed(const Selection& too_little, const Selection& best, const Enough& enough) const {
    std::vector<size_t> order;
    for (size_t c = 0; c < candidates_.size(); ++c)
      if (too_little.groups[c].kept != best.groups[c].kept) order.push_back(c);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(candidates_[a].width, a) > std::pair(candidates_[b].width, b);
    });
    const auto first = [&](size_t count) {
      Selection selection = too_little;
      for (size_t i = 0; i < count; ++i) selection.groups[order[i]] = best.groups[order[i]];
      return selection;
    };
    size_t few = 0, many = order.size();
    while (few + 1 < many) {
      const size_t middle = (few + many) / 2;
      (enough(first(middle)) ? many : few) = middle;
    }
    return first(many);
  }

  void score(Candidate candidate, const Importance& importance) {
    Scored scored{std::move(candidate), {}};
    const ChannelGroup& group = map_.groups[scored.plan.group];
    const at::Tensor scores = scored.open() ? importance(group, scored.plan.reason) : at::Tensor();
    if (scores.defined()) {
      std::vector<int64_t> index_of;
      for (size_t i = 0; i < group.channels.size(); ++i)
        if (!map_.sets.frozen(static_cast<int64_t>(group.channels[i]))) index_of.push_back(static_cast<int64_t>(i));
      scored.scores = scores.index_select(0, at::tensor(index_of, at::kLong)).contiguous();
    }
    candidates_.push_back(std::move(scored));
  }

  Error failure() const { return nothing_left({candidates_.begin(), candidates_.end()}); }

  // Removes the least important channels of a group so that `kept` are left.
  static void cut(const Scored& candidate, GroupPlan& plan, int64_t kept) {
    const auto removable = static_cast<int64_t>(candidate.removable.size());
    int64_t count = plan.total - kept;
    if (count > removable) {
      plan.reason = fmt::format("only {} of its channels may go", removable);
      count = removable;
    }
    if (removable == plan.total) count = std::min(count, removable - 1);
    std::vector<int64_t> order(static_cast<size_t>(removable));
    std::iota(order.begin(), order.end(), 0);
    const double* score = candidate.scores.data_ptr<double>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] < score[b]; });
    std::set<ChannelId> gone;
    for (int64_t i = 0; i < count; ++i)
      gone.insert(candidate.removable[static_cast<size_t>(order[static_cast<size_t>(i)])]);
    plan.removed.assign(gone.begin(), gone.end());
    plan.kept = plan.total - count;
    if (count <= 0 && plan.reason.empty()) plan.reason = "the ratio rounds to nothing";
  }

  // `ratio` for the groups that have none of their own, and `part` of it for those that have.
  Selection at_ratio(double ratio, double part) const {
    const std::vector<int64_t> counts = global_counts(ratio);
    Selection selection;
    for (size_t c = 0; c < candidates_.size(); ++c) {
      const Scored& candidate = candidates_[c];
      GroupPlan plan = candidate.plan;
      if (candidate.scores.defined()) {
        double own = candidate.ratio ? *candidate.ratio * part : ratio;
        if (options_.scope == Scope::global && !candidate.ratio)
          own = static_cast<double>(counts[c] + candidate.gone()) / static_cast<double>(candidate.width);
        cut(candidate, plan,
            std::min(plan.total,
                     candidate.kept ? width_after(candidate, part) : kept_count(candidate.width, own, candidate.unit)));
      }
      selection.groups.push_back(std::move(plan));
    }
    return selection;
  }

  // Of a width that is given, after this part of what goes has gone.
  static int64_t width_after(const Scored& candidate, double part) {
    return candidate.width - std::llround(static_cast<double>(candidate.width - *candidate.kept) * part);
  }

  // Scores that can be compared between groups: as they are, or relative to the mean of their group.
  at::Tensor relative(const Scored& candidate) const {
    const double mean = options_.comparable ? 1 : candidate.scores.mean().item<double>();
    return (mean > 0 ? candidate.scores / mean : candidate.scores).contiguous();
  }

  // One removable channel of the network. Of equally important ones each group has its share among the first: that of
  // its j-th of m comes at (j + ½)/m.
  struct Ranked {
    double score;
    double share;
    size_t candidate;
    auto operator<=>(const Ranked&) const = default;
  };

  void rank_channels() {
    for (size_t c = 0; c < candidates_.size(); ++c) {
      const Scored& candidate = candidates_[c];
      if (candidate.ratio || !candidate.scores.defined()) continue;
      const at::Tensor sorted = std::get<0>(relative(candidate).sort());
      const double* scores = sorted.data_ptr<double>();
      const double* end = scores + sorted.numel();
      for (const double* first = scores; first != end;) {
        const double* last = std::upper_bound(first, end, *first);
        for (const double* s = first; s != last; ++s)
          ranked_.push_back({*s, (static_cast<double>(s - first) + 0.5) / static_cast<double>(last - first), c});
        first = last;
      }
    }
    std::sort(ranked_.begin(), ranked_.end());
  }

  // How many channels of each group are among the least important of all; a group at its floor leaves its place to
  // others.
  std::vector<int64_t> global_counts(double ratio) const {
    std::vector<int64_t> counts(candidates_.size(), 0);
    int64_t gone = 0;
    for (const auto& candidate : candidates_)
      if (!candidate.ratio) gone += candidate.gone();
    const double all = static_cast<double>(static_cast<int64_t>(ranked_.size()) + gone);
    int64_t left = static_cast<int64_t>(std::floor(all * ratio + 1e-9)) - gone;
    for (const auto& [score, share, c] : ranked_) {
      if (left <= 0) break;
      if (counts[c] >= most_of(candidates_[c])) continue;
      ++counts[c];
      --left;
    }
    return counts;
  }

  int64_t most_of(const Scored& candidate) const {
    const auto floor = static_cast<int64_t>(std::ceil(static_cast<double>(candidate.width) * options_.floor - 1e-9));
    return candidate.plan.total - std::max<int64_t>(floor, 1);
  }

  // Groups that stay at their floors may leave too few channels to remove.
  void check_floors() const {
    int64_t all = 0, most = 0;
    for (const auto& candidate : candidates_) {
      if (candidate.ratio || !candidate.scores.defined()) continue;
      all += candidate.scores.numel() + candidate.gone();
      most += std::clamp<int64_t>(most_of(candidate), 0, candidate.scores.numel()) + candidate.gone();
    }
    if (static_cast<double>(most) < std::floor(static_cast<double>(all) * options_.ratio * options_.part + 1e-9))
      throw Error(ErrorKind::usage, option_of(options_.budget),
                  "at most {:.1f} % can be removed with `floor` {}, {:.1f} % are asked for",
                  100 * static_cast<double>(most) / static_cast<double>(all), options_.floor, 100 * options_.ratio);
  }

  // A step may round to nothing; all of them together may not.
  Selection checked(Selection selection) const {
    if (selection.removed().empty() && untouched() && at_ratio(options_.ratio, 1).removed().empty()) throw failure();
    return selection;
  }

  bool untouched() const {
    return std::all_of(candidates_.begin(), candidates_.end(),
                       [](const Scored& candidate) { return candidate.plan.total == candidate.width; });
  }

  const Graph& graph_;
  const ChannelMap& map_;
  const BudgetOptions& options_;
  const WholeNetwork whole_;
  std::vector<Scored> candidates_;
  std::vector<Ranked> ranked_;  // global: the least important first
};

}  // namespace

WholeNetwork whole_network(const Graph& graph, const ChannelMap& map, Budget budget) {
  WholeNetwork whole;
  for (const auto& group : map.groups) whole.widths[group.name] = static_cast<int64_t>(group.channels.size());
  if (budget != Budget::channels && budget != Budget::widths) whole.cost = PrunedCost(graph, map, budget)({});
  return whole;
}

Selection select_channels(const Graph& graph, const ChannelMap& map, const BudgetOptions& options,
                          const Importance& importance) {
  return Selector(graph, map, options, importance).run();
}

}  // namespace pare
