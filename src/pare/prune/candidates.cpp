#include "pare/prune/candidates.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>

#include "pare/core/glob.h"
#include "pare/error.h"
#include "pare/ops/op.h"

namespace pare {

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
    if (kind_of(node) != OpKind::sum) return false;
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

class Opening {
 public:
  Opening(const Graph& graph, const ChannelMap& map, const BudgetOptions& options)
      : graph_(graph), map_(map), options_(options) {
    for (const auto& entry : options_.layers) {
      const size_t equals = entry.rfind('=');
      if (equals == std::string::npos)
        layers_.push_back({entry, {}});
      else
        layers_.push_back({entry.substr(0, equals), parsed_ratio(entry.substr(equals + 1), "`layers`")});
    }
  }

  std::vector<Candidate> run() {
    std::vector<Candidate> candidates;
    for (size_t g = 0; g < map_.groups.size(); ++g) candidates.push_back(opened(g));
    check_globs();
    check_widths();
    return candidates;
  }

 private:
  bool matches(const std::string& glob, const ChannelGroup& group) {
    const bool any = matches_group(glob, graph_, map_, group);
    if (any) matched_.insert(glob);
    return any;
  }

  Candidate opened(size_t index) {
    const ChannelGroup& group = map_.groups[index];
    Candidate candidate;
    candidate.plan = {.group = index, .name = group.name};
    candidate.plan.total = candidate.plan.kept = candidate.width = static_cast<int64_t>(group.channels.size());
    if (options_.whole)
      if (const auto before = options_.whole->widths.find(group.name); before != options_.whole->widths.end())
        candidate.width = before->second;
    candidate.plan.reason = left_alone(group, candidate);
    for (const ChannelId id : group.channels)
      if (!map_.sets.frozen(static_cast<int64_t>(id))) candidate.removable.push_back(id);
    return candidate;
  }

  std::string left_alone(const ChannelGroup& group, Candidate& candidate) {
    bool asked = layers_.empty();
    for (const auto& [glob, ratio] : layers_)
      if (matches(glob, group)) asked = true, candidate.ratio = ratio;
    bool skipped = false;
    for (const auto& glob : options_.skip) skipped = matches(glob, group) || skipped;
    if (!group.prunable()) return group.reason;
    if (!asked) return "not asked for by `layers`";
    if (options_.budget == Budget::widths) {
      const auto own = options_.widths.find(group.name);
      if (own == options_.widths.end()) return "not named by `widths`";
      if (own->second == candidate.width) return "named by `widths` with its whole width";
      candidate.kept = own->second;
    }
    if (skipped) return "asked for by `skip`";
    if (group.channels.size() == 1) return "it has one channel";
    if (group.consumers.empty()) return "no layer reads its channels";
    if (options_.inner_only && is_residual_stream(graph_, map_, group)) return "residual stream (`inner-only`)";
    if (candidate.kept) return "";
    candidate.unit = unit_of(group);
    if (static_cast<int64_t>(group.channels.size()) <= candidate.unit && candidate.unit > 1)
      return fmt::format("{} channels are not more than `round-to` {}", group.channels.size(), options_.round_to);
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
    const int64_t unit = options_.round_to / std::gcd(options_.round_to, places);
    if (!options_.finer || options_.scope != Scope::allocate) return unit;
    // A narrow group in steps of about an eighth of it: with 16 channels, multiples of 8 are hardly a choice.
    const auto eighth = static_cast<uint64_t>(std::max<size_t>(group.channels.size() / 8, 1));
    return std::min(unit, static_cast<int64_t>(std::bit_floor(eighth)));
  }

  void check_globs() const {
    const auto check = [&](const std::string& glob, const std::string& where) {
      if (matched_.contains(glob)) return;
      std::vector<std::string> names;
      for (const auto& group : map_.groups) names.push_back(group.name);
      throw Error(ErrorKind::usage, where, "'{}' matches none of the groups {}", glob, fmt::join(names, ", "));
    };
    for (const auto& layer : layers_) check(layer.glob, "`layers`");
    for (const auto& glob : options_.skip) check(glob, "`skip`");
  }

  // Every width is one of a group, and fits it.
  void check_widths() const {
    for (const auto& entry : options_.widths) {
      const std::string& name = entry.first;
      const int64_t kept = entry.second;
      const auto group =
          std::find_if(map_.groups.begin(), map_.groups.end(), [&](const ChannelGroup& g) { return g.name == name; });
      if (group == map_.groups.end())
        throw Error(ErrorKind::usage, OptionName{"widths"}, "the network has no group '{}'", name);
      const auto whole =
          options_.whole ? options_.whole->widths.at(name) : static_cast<int64_t>(group->channels.size());
      if (kept < 1 || kept > whole)
        throw Error(ErrorKind::usage, OptionName{"widths"}, "{}: expected 1 to {}, found {}", name, whole, kept);
    }
  }

  const Graph& graph_;
  const ChannelMap& map_;
  const BudgetOptions& options_;
  std::vector<GlobRatio> layers_;
  std::set<std::string> matched_;
};

}  // namespace

std::vector<Candidate> candidates(const Graph& graph, const ChannelMap& map, const BudgetOptions& options) {
  if (options.budget != Budget::widths && !(options.ratio > 0 && options.ratio < 1))
    throw Error(ErrorKind::usage, option_of(options.budget), "expected a fraction between 0 and 1, found {}",
                options.ratio);
  if (options.round_to < 1) throw Error(ErrorKind::usage, OptionName{"round-to"}, "expected 1 or more");
  if (!(options.floor >= 0 && options.floor <= 1))
    throw Error(ErrorKind::usage, OptionName{"floor"}, "expected 0 to 1");
  if (map.groups.empty())
    throw Error(ErrorKind::usage, "prune", "nothing would be removed: {}", why_no_channels(graph, map));
  return Opening(graph, map, options).run();
}

const char* option_of(Budget budget) {
  switch (budget) {
    case Budget::channels: return "`channels`";
    case Budget::params: return "`params`";
    case Budget::macs: return "`macs`";
    case Budget::bytes: return "`bytes`";
    case Budget::widths: break;
  }
  return "`widths`";
}

Error nothing_left(const std::vector<Candidate>& candidates) {
  std::string list;
  for (const auto& candidate : candidates)
    list += fmt::format("{}{} ({} channels): {}", list.empty() ? ": " : "; ", candidate.plan.name, candidate.plan.total,
                        candidate.plan.reason.empty() ? "the ratio rounds to nothing" : candidate.plan.reason);
  return Error(ErrorKind::usage, "prune", "nothing would be removed{}", list);
}

}  // namespace pare
