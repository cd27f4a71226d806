// Widths of groups by allocation: all together lose least, by what was measured of each, within a budget.
#pragma once

#include <functional>
#include <set>

#include "pare/prune/candidates.h"
#include "pare/prune/channel_study.h"

namespace pare {

// What a network costs without some of its channels.
using ChannelCost = std::function<double(const std::set<ChannelId>& removed)>;

// The widths at which the cost is at most `budget`. Groups that have a ratio of their own are cut by it. Error{usage}
// when the budget can't be reached, and says how far it goes.
Selection allocate_channels(const std::vector<Candidate>& groups, const ChannelStudy& study, const ChannelCost& cost,
                            double budget, const BudgetOptions& options);

// The same for the budget of the options.
Selection allocate_channels(const Graph& graph, const ChannelMap& map, const std::vector<Candidate>& groups,
                            const ChannelStudy& study, const BudgetOptions& options);

}  // namespace pare
