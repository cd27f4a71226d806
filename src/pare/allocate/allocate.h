// Allocation: how much to take from each part of a network so that all together lose least within a budget.
//
// Every part has options, each with a loss; losses add up. Where costs add up too, the best choice is found exactly, by
// joining part after part the choices that no other beats in both loss and cost. Where costs of parts multiply (widths
// of neighbouring layers), the cost is linearised about the choice so far, again and again, and the best choice within
// the budget that was met is improved step by step.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace pare {

struct AllocationOption {
  double loss = 0;
  double cost = 0;
};

// One option of each part such that costs sum to at most `budget` and losses to as little as possible; nothing when the
// cheapest options already cost more.
std::optional<std::vector<size_t>> allocate(const std::vector<std::vector<AllocationOption>>& parts, double budget);

// The same where the cost of a choice (an option for each part) is any function that grows with every width. Options
// are ordered from the cheapest; losses fall with their number.
std::optional<std::vector<size_t>> allocate(const std::vector<std::vector<double>>& losses,
                                            const std::function<double(const std::vector<size_t>&)>& cost,
                                            double budget);

}  // namespace pare
