#include "pare/prune/budget.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "pare/core/error.h"
#include "pare/core/glob.h"
#include "pare/prune/pruned_cost.h"

namespace pare {

std::set<ChannelId> Selection::removed() const {
  std::set<ChannelId> all;
  for (const auto& plan : groups) all.insert(plan.removed.begin(), plan.removed.end());
  return all;
}

bool is_residual_stream(const Graph& graph, const ChannelMap& map, const ChannelGroup& group) {
  const std::set<ChannelId> own(group.channels.begin(), group.channels.end());
  const auto carries = [&](const std::string& value) {
    const auto found = map.values.find(value);
    if (found == map.values.end()) return false;
    const at::Tensor ids = found->second.contiguous();
    for (int64_t i = 0; i < ids.numel(); ++i)
      if (own.contains(ChannelId{ids.data_ptr<int64_t>()[i]})) return true;
    return false;
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    if (node.op != "Add" && node.op != "Sum") return false;
    int64_t joined = 0;
    for (const auto& input : node.inputs) joined += !graph.is_constant(input) && carries(input) ? 1 : 0;
    return joined > 1;
  });
}

bool matches_group(const std::string& glob, const Graph& graph, const ChannelMap& map, const ChannelGroup& group) {
  return glob_matches(glob, group.name) ||
         std::any_of(group.producers.begin(), group.producers.end(),
                     [&](size_t slot) { return glob_matches(glob, graph.nodes[map.slots[slot].node].name); });
}

int64_t kept_count(int64_t total, double ratio, int64_t unit) {
  // The small number keeps a product such as 10·(1 − 0.7) from falling below 3.
  const auto wanted = static_cast<int64_t>(std::floor(static_cast<double>(total) * (1 - ratio) + 1e-9));
  if (total <= unit) return unit == 1 ? std::max<int64_t>(wanted, 1) : total;
  const int64_t rounded = (2 * wanted + unit) / (2 * unit) * unit;
  return std::min(total, std::max(rounded, unit));
}

namespace {

struct GlobRatio {
  std::string glob;
  std::optional<double> ratio;
};

double parsed_ratio(const std::string& text, const std::string& where) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !(value >= 0) || !(value < 1))
    throw Error(ErrorKind::usage, where, "'{}' is not a fraction from 0 up to 1", text);
  return value;
}

const char* flag_of(Budget budget) {
  return budget == Budget::channels ? "--channels" : budget == Budget::params ? "--params" : "--macs";
}

class Selector {
 public:
  Selector(const Graph& graph, const ChannelMap& map, const BudgetOptions& options, const Importance& importance)
      : graph_(graph),
        map_(map),
        options_(options),
        whole_(options.whole ? *options.whole : whole_network(graph, map, options.budget)) {
    check_options();
    for (size_t g = 0; g < map.groups.size(); ++g) open_group(g, importance);
    check_globs();
    if (options_.scope == Scope::global) rank_channels();
    if (untouched() &&
        std::none_of(candidates_.begin(), candidates_.end(), [](const Candidate& c) { return c.scores.defined(); }))
      throw nothing_left();
  }

  Selection run() {
    if (options_.budget == Budget::channels) return checked(at_ratio(options_.ratio * options_.part, options_.part));
    // Removing more channels never adds parameters or MACs, so bisection finds the least ratio that is enough.
    const PrunedCost cost(graph_, map_, options_.budget);
    const auto saved = [&](const Selection& selection) { return 1 - cost(selection.removed()) / whole_.cost; };
    double low = 0;
    double high = 1 - 1e-6;
    const double most = saved(at_ratio(high, 1));
    if (most < options_.ratio)
      throw Error(ErrorKind::usage, flag_of(options_.budget),
                  "at most {:.1f} % can be removed from the groups that may be cut, {:.1f} % are asked for", 100 * most,
                  100 * options_.ratio);
    Selection best = at_ratio(high, options_.part);
    for (int i = 0; i < 20; ++i) {
      const double middle = (low + high) / 2;
      Selection selection = at_ratio(middle, options_.part);
      if (saved(selection) >= options_.ratio * options_.part) {
        high = middle;
        best = std::move(selection);
      } else {
        low = middle;
      }
    }
    return checked(std::move(best));
  }

 private:
  struct Candidate {
    GroupPlan plan;     // nothing removed yet
    at::Tensor scores;  // of its removable channels, undefined when it is left alone
    std::vector<ChannelId> removable;
    int64_t width = 0;            // its channels in the whole network
    std::optional<double> ratio;  // its own
    int64_t unit = 1;             // the kept number is a multiple of this

    int64_t gone() const { return width - plan.total; }  // by earlier steps
  };

  void check_options() {
    if (!(options_.ratio > 0 && options_.ratio < 1))
      throw Error(ErrorKind::usage, flag_of(options_.budget), "expected a fraction between 0 and 1, found {}",
                  options_.ratio);
    if (options_.round_to < 1) throw Error(ErrorKind::usage, "--round-to", "expected 1 or more");
    if (!(options_.floor >= 0 && options_.floor <= 1)) throw Error(ErrorKind::usage, "--floor", "expected 0 to 1");
    for (const auto& entry : options_.layers) {
      const size_t equals = entry.rfind('=');
      if (equals == std::string::npos)
        layers_.push_back({entry, {}});
      else
        layers_.push_back({entry.substr(0, equals), parsed_ratio(entry.substr(equals + 1), "--layers")});
    }
  }

  bool matches(const std::string& glob, const ChannelGroup& group) {
    const bool any = matches_group(glob, graph_, map_, group);
    if (any) matched_.insert(glob);
    return any;
  }

  void open_group(size_t index, const Importance& importance) {
    const ChannelGroup& group = map_.groups[index];
    Candidate candidate;
    candidate.plan = {.group = index, .name = group.name};
    candidate.plan.total = candidate.plan.kept = static_cast<int64_t>(group.channels.size());
    const auto before = whole_.widths.find(group.name);
    candidate.width = before != whole_.widths.end() ? before->second : candidate.plan.total;
    candidate.plan.reason = left_alone(group, candidate);
    if (candidate.plan.reason.empty()) {
      const at::Tensor scores = importance(group, candidate.plan.reason);
      if (scores.defined()) {
        std::vector<int64_t> index_of;
        for (size_t i = 0; i < group.channels.size(); ++i) {
          if (map_.sets.frozen(static_cast<int64_t>(group.channels[i]))) continue;
          index_of.push_back(static_cast<int64_t>(i));
          candidate.removable.push_back(group.channels[i]);
        }
        candidate.scores = scores.index_select(0, at::tensor(index_of, at::kLong)).contiguous();
      }
    }
    candidates_.push_back(std::move(candidate));
  }

  std::string left_alone(const ChannelGroup& group, Candidate& candidate) {
    bool asked = layers_.empty();
    for (const auto& [glob, ratio] : layers_)
      if (matches(glob, group)) asked = true, candidate.ratio = ratio;
    bool skipped = false;
    for (const auto& glob : options_.skip) skipped = matches(glob, group) || skipped;
    if (!group.prunable()) return group.reason;
    if (!asked) return "not asked for by --layers";
    if (skipped) return "asked for by --skip";
    if (group.channels.size() == 1) return "it has one channel";
    if (group.consumers.empty()) return "no layer reads its channels";
    if (options_.inner_only && is_residual_stream(graph_, map_, group)) return "residual stream (--inner-only)";
    candidate.unit = unit_of(group);
    if (static_cast<int64_t>(group.channels.size()) <= candidate.unit && candidate.unit > 1)
      return fmt::format("{} channels are not more than --round-to {}", group.channels.size(), options_.round_to);
    return "";
  }

  // A channel that has several places in its layer (groups of a grouped convolution, a head) counts with all of them.
  int64_t unit_of(const ChannelGroup& group) const {
    int64_t places = 1;
    for (const size_t s : group.producers) {
      const Slot& slot = map_.slots[s];
      if (graph_.tensor(slot.tensor).dim() >= 2)
        places =
            std::max(places, std::count(slot.ids.begin(), slot.ids.end(), static_cast<int64_t>(group.channels[0])));
    }
    return options_.round_to / std::gcd(options_.round_to, places);
  }

  void check_globs() const {
    const auto check = [&](const std::string& glob, const std::string& where) {
      if (matched_.contains(glob)) return;
      std::vector<std::string> names;
      for (const auto& group : map_.groups) names.push_back(group.name);
      throw Error(ErrorKind::usage, where, "'{}' matches none of the groups {}", glob, fmt::join(names, ", "));
    };
    for (const auto& layer : layers_) check(layer.glob, "--layers");
    for (const auto& glob : options_.skip) check(glob, "--skip");
  }

  // Removes the least important channels of a group so that `kept` are left.
  static void cut(const Candidate& candidate, GroupPlan& plan, int64_t kept) {
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
      const Candidate& candidate = candidates_[c];
      GroupPlan plan = candidate.plan;
      if (candidate.scores.defined()) {
        double own = candidate.ratio ? *candidate.ratio * part : ratio;
        if (options_.scope == Scope::global && !candidate.ratio)
          own = static_cast<double>(counts[c] + candidate.gone()) / static_cast<double>(candidate.width);
        cut(candidate, plan, std::min(plan.total, kept_count(candidate.width, own, candidate.unit)));
      }
      selection.groups.push_back(std::move(plan));
    }
    return selection;
  }

  // Scores that can be compared between groups: as they are, or relative to the mean of their group.
  at::Tensor relative(const Candidate& candidate) const {
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
      const Candidate& candidate = candidates_[c];
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

  int64_t most_of(const Candidate& candidate) const {
    const auto floor = static_cast<int64_t>(std::floor(static_cast<double>(candidate.width) * options_.floor + 1e-9));
    return candidate.plan.total - std::max<int64_t>(floor, 1);
  }

  Error nothing_left() const {
    std::string list;
    for (const auto& candidate : candidates_)
      list +=
          fmt::format("{}{} ({} channels): {}", list.empty() ? ": " : "; ", candidate.plan.name, candidate.plan.total,
                      candidate.plan.reason.empty() ? "the ratio rounds to nothing" : candidate.plan.reason);
    return Error(ErrorKind::usage, "prune", "nothing would be removed{}",
                 list.empty() ? ": no layer makes channels" : list);
  }

  // A step may round to nothing; all of them together may not.
  Selection checked(Selection selection) const {
    if (selection.removed().empty() && untouched() && at_ratio(options_.ratio, 1).removed().empty())
      throw nothing_left();
    return selection;
  }

  bool untouched() const {
    return std::all_of(candidates_.begin(), candidates_.end(),
                       [](const Candidate& candidate) { return candidate.plan.total == candidate.width; });
  }

  const Graph& graph_;
  const ChannelMap& map_;
  const BudgetOptions& options_;
  const WholeNetwork whole_;
  std::vector<GlobRatio> layers_;
  std::set<std::string> matched_;
  std::vector<Candidate> candidates_;
  std::vector<Ranked> ranked_;  // global: the least important first
};

}  // namespace

WholeNetwork whole_network(const Graph& graph, const ChannelMap& map, Budget budget) {
  WholeNetwork whole;
  for (const auto& group : map.groups) whole.widths[group.name] = static_cast<int64_t>(group.channels.size());
  if (budget != Budget::channels) whole.cost = PrunedCost(graph, map, budget)({});
  return whole;
}

Selection select_channels(const Graph& graph, const ChannelMap& map, const BudgetOptions& options,
                          const Importance& importance) {
  return Selector(graph, map, options, importance).run();
}

}  // namespace pare
