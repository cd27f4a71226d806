#include "pare/prune/budget.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "pare/analysis/cost.h"
#include "pare/core/error.h"
#include "pare/core/glob.h"

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

// What is left of parameters or multiply-accumulates when channels go, without slicing anything: a tensor shrinks along
// each axis as its slots say, and a layer's multiply-accumulates as its weight does. Products of two computed values
// count in full, so that what is saved is never less than what this says.
class CostModel {
 public:
  CostModel(const Graph& graph, const ChannelMap& map, Budget budget) {
    std::map<std::pair<size_t, size_t>, std::vector<const Slot*>> slots;
    for (const auto& slot : map.slots) slots[{slot.node, slot.input}].push_back(&slot);
    const ModelCost cost = cost_of(graph, map.shapes);
    std::set<std::string> counted;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (budget == Budget::macs) {
        const auto weight = slots.find({n, 1});
        terms_.push_back({static_cast<double>(cost.nodes[n].macs),
                          weight == slots.end() ? std::vector<const Slot*>{} : weight->second});
        continue;
      }
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const auto found = graph.tensors.find(node.inputs[i]);
        const bool statistic = node.op == "BatchNormalization" && i >= 3;
        if (found == graph.tensors.end() || !found->second.is_floating_point() || found->second.dim() == 0 ||
            statistic || !counted.insert(found->first).second)
          continue;
        terms_.push_back({static_cast<double>(found->second.numel()), slots[{n, i}]});
      }
    }
  }

  double operator()(const std::set<ChannelId>& removed) const {
    double sum = 0;
    for (const auto& [size, slots] : terms_) {
      double left = size;
      for (const Slot* slot : slots) {
        const auto gone = std::count_if(slot->ids.begin(), slot->ids.end(), [&](int64_t id) {
          return id != kUnlabelled && removed.contains(ChannelId{id});
        });
        left *= 1 - static_cast<double>(gone) / static_cast<double>(slot->ids.size());
      }
      sum += left;
    }
    return sum;
  }

 private:
  struct Term {
    double size;
    std::vector<const Slot*> slots;
  };
  std::vector<Term> terms_;
};

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
    if (untouched() &&
        std::none_of(candidates_.begin(), candidates_.end(), [](const Candidate& c) { return c.scores.defined(); }))
      throw nothing_left();
  }

  Selection run() {
    if (options_.budget == Budget::channels) return checked(at_ratio(options_.ratio * options_.part, options_.part));
    // Removing more channels never adds parameters or MACs, so bisection finds the least ratio that is enough.
    const CostModel cost(graph_, map_, options_.budget);
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
    const double threshold = options_.scope == Scope::global ? global_threshold(ratio) : 0;
    Selection selection;
    for (const auto& candidate : candidates_) {
      GroupPlan plan = candidate.plan;
      if (candidate.scores.defined()) {
        double own = candidate.ratio ? *candidate.ratio * part : ratio;
        if (options_.scope == Scope::global && !candidate.ratio) {
          const auto below = (relative(candidate) <= threshold).sum().item<int64_t>() + candidate.width - plan.total;
          own = std::min(static_cast<double>(below) / static_cast<double>(candidate.width), 1 - options_.floor);
        }
        cut(candidate, plan, std::min(plan.total, kept_count(candidate.width, own, candidate.unit)));
      }
      selection.groups.push_back(std::move(plan));
    }
    return selection;
  }

  // Layers differ in scale: a score counts relative to the mean of its group.
  static at::Tensor relative(const Candidate& candidate) {
    const double mean = candidate.scores.mean().item<double>();
    return mean > 0 ? candidate.scores / mean : candidate.scores;
  }

  double global_threshold(double ratio) const {
    std::vector<at::Tensor> all;
    int64_t gone = 0;  // by earlier steps
    for (const auto& candidate : candidates_) {
      if (candidate.ratio) continue;
      gone += candidate.width - candidate.plan.total;
      if (candidate.scores.defined()) all.push_back(relative(candidate));
    }
    if (all.empty()) return 0;
    const at::Tensor sorted = std::get<0>(at::cat(all).sort());
    const auto wanted = std::floor(static_cast<double>(sorted.numel() + gone) * ratio + 1e-9);
    const int64_t count = static_cast<int64_t>(wanted) - gone;
    return count <= 0 ? -1 : sorted[std::min(count, sorted.numel()) - 1].item<double>();
  }

  Error nothing_left() const {
    std::string list;
    for (const auto& candidate : candidates_)
      list += fmt::format("\n  {} ({} channels): {}", candidate.plan.name, candidate.plan.total,
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
};

}  // namespace

WholeNetwork whole_network(const Graph& graph, const ChannelMap& map, Budget budget) {
  WholeNetwork whole;
  for (const auto& group : map.groups) whole.widths[group.name] = static_cast<int64_t>(group.channels.size());
  if (budget != Budget::channels) whole.cost = CostModel(graph, map, budget)({});
  return whole;
}

Selection select_channels(const Graph& graph, const ChannelMap& map, const BudgetOptions& options,
                          const Importance& importance) {
  return Selector(graph, map, options, importance).run();
}

}  // namespace pare
