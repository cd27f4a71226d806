// The groups of a network that may be cut, as the options of a budget say, and why the others may not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pare/error.h"
#include "pare/prune/budget.h"

namespace pare {

struct Candidate {
  GroupPlan plan;  // nothing removed yet; its reason, where there is one, says why the group is left alone
  std::vector<ChannelId> removable;
  int64_t width = 0;            // its channels in the whole network
  std::optional<double> ratio;  // its own
  std::optional<int64_t> kept;  // its width by the budget `widths`
  int64_t unit = 1;             // the kept number is a multiple of this

  bool open() const { return plan.reason.empty(); }
  int64_t gone() const { return width - plan.total; }  // by earlier steps
};

// All groups of the map, in its order. Error{usage}: a ratio outside (0, 1), a glob that matches no group.
std::vector<Candidate> candidates(const Graph& graph, const ChannelMap& map, const BudgetOptions& options);

// How a budget is asked for.
const char* option_of(Budget budget);

// Why nothing can be removed: every group with its reason.
Error nothing_left(const std::vector<Candidate>& candidates);

}  // namespace pare
