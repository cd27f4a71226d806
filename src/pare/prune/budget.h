// How many channels of each group go, and which: a selection.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

enum class Budget { channels, params, macs, bytes, widths };
enum class Scope {
  uniform,   // the same fraction of every group
  global,    // the least important channels of the whole network; equally important ones are spread over the groups
  allocate,  // by what each width of each group costs the network's answer (prune/allocate_channels.h)
};

// A network before the first of several steps: what the ratios of each of them are parts of.
struct WholeNetwork {
  std::map<std::string, int64_t> widths;  // channels of each group, by its name
  double cost = 0;                        // of the budget `params`, `macs` or `bytes`
};

struct BudgetOptions {
  Budget budget = Budget::channels;
  Scope scope = Scope::uniform;
  double ratio = 0.5;                          // fraction removed, in (0, 1)
  std::vector<std::string> layers;             // GLOB or GLOB=RATIO: only these groups, with their own ratio
  std::vector<std::string> skip;               // GLOB: not these
  std::map<std::string, int64_t> widths = {};  // of the budget `widths`: channels kept, by a group's name
  int64_t round_to = 8;                        // widths that are left are multiples of this
  bool finer = false;                          // allocate: of at most an eighth of its width in a narrow group
  double floor = 0.1;                          // global, allocate: at least this fraction of a group stays
  bool comparable = false;  // global: scores of groups are on one scale; else each is relative to its mean
  bool inner_only = false;  // leave residual streams alone
  double part = 1;          // of all ratios: what is to be gone after this step, i/n at step i of n
  std::optional<WholeNetwork> whole = std::nullopt;  // none: the graph itself
};

WholeNetwork whole_network(const Graph& graph, const ChannelMap& map, Budget budget);

// What happens to one group.
struct GroupPlan {
  size_t group = 0;  // index into ChannelMap::groups
  std::string name;
  int64_t total = 0;
  int64_t kept = 0;
  std::string reason;              // why it was left alone, or whole, or not cut as far as asked; empty otherwise
  std::vector<ChannelId> removed;  // the first to go first, where they have an order
  double loss = 0;                 // allocate: of the network's answer, when this group alone is cut so
};

struct Selection {
  std::vector<GroupPlan> groups;  // all groups of the map, in its order
  std::set<ChannelId> removed() const;
};

// Gives the importance of the channels of a group, larger = keep; undefined with a reason where it has none.
using Importance = std::function<at::Tensor(const ChannelGroup& group, std::string& reason)>;

// With the budget `params`, `macs` or `bytes` the ratio of channels is found by bisection: the smallest that removes at
// least the fraction asked for. Counts are parts of the whole network's, so that several steps end with the widths of
// one. Error{usage}: a ratio outside (0, 1), a glob that matches no group, a budget that can't be reached, or nothing
// to remove in all steps together (then every group's reason is in the message).
Selection select_channels(const Graph& graph, const ChannelMap& map, const BudgetOptions& options,
                          const Importance& importance);

// Does the glob match the group's name, or that of any layer that makes its channels?
bool matches_group(const std::string& glob, const Graph& graph, const ChannelMap& map, const ChannelGroup& group);

// Does an Add of two computed values join channels of this group?
bool is_residual_stream(const Graph& graph, const ChannelMap& map, const ChannelGroup& group);

// The number of channels kept of `total` when `ratio` of them goes: floor(total·(1 − ratio)), rounded to a multiple of
// `unit` (at least one unit), never more than total.
int64_t kept_count(int64_t total, double ratio, int64_t unit);

}  // namespace pare
