// Allocation against trying every choice.
#include "pare/allocate/allocate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace pare {
namespace {

// Calls `visit` with every choice of one option for each part.
void each_choice(const std::vector<size_t>& sizes, const std::function<void(const std::vector<size_t>&)>& visit) {
  std::vector<size_t> choice(sizes.size(), 0);
  while (true) {
    visit(choice);
    size_t p = 0;
    while (p < sizes.size() && ++choice[p] == sizes[p]) choice[p++] = 0;
    if (p == sizes.size()) return;
  }
}

struct Sum {
  double loss = 0;
  double cost = 0;
};

TEST(Allocate, IsTheBestOfAllChoicesWhereCostsAddUp) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<AllocationOption>> parts(1 + static_cast<size_t>(trial) % 5);
    std::vector<size_t> sizes;
    for (auto& options : parts) {
      sizes.push_back(1 + random() % 5);
      for (size_t o = 0; o < sizes.back(); ++o) options.push_back({uniform(random), uniform(random)});
    }
    const auto sum = [&](const std::vector<size_t>& choice) {
      Sum all;
      for (size_t p = 0; p < choice.size(); ++p)
        all.loss += parts[p][choice[p]].loss, all.cost += parts[p][choice[p]].cost;
      return all;
    };
    const double budget = uniform(random) * static_cast<double>(parts.size());
    double best = std::numeric_limits<double>::infinity();
    each_choice(sizes, [&](const std::vector<size_t>& choice) {
      if (const Sum own = sum(choice); own.cost <= budget) best = std::min(best, own.loss);
    });
    const auto chosen = allocate(parts, budget);
    ASSERT_EQ(chosen.has_value(), std::isfinite(best));
    if (!chosen) continue;
    EXPECT_NEAR(sum(*chosen).loss, best, 1e-12);
    EXPECT_LE(sum(*chosen).cost, budget * (1 + 1e-9));
  }
}

// A chain of layers: the cost of each is the product of the widths on both sides.
double chain_cost(const std::vector<size_t>& choice) {
  double sum = 0, before = 3;
  for (const size_t o : choice) {
    const auto width = static_cast<double>(o + 1);
    sum += before * width;
    before = width;
  }
  return sum + before * 2;
}

TEST(Allocate, IsNearTheBestOfAllChoicesWhereCostsMultiply) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  int exact = 0;
  constexpr int kTrials = 100;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<std::vector<double>> losses(3);
    for (auto& options : losses) {
      const double scale = uniform(random);
      for (int o = 0; o < 6; ++o) options.push_back(scale * (5 - o) * (5 - o));
    }
    const double budget = 10 + 90 * uniform(random);
    const auto loss = [&](const std::vector<size_t>& choice) {
      double sum = 0;
      for (size_t p = 0; p < choice.size(); ++p) sum += losses[p][choice[p]];
      return sum;
    };
    double best = std::numeric_limits<double>::infinity();
    each_choice({6, 6, 6}, [&](const std::vector<size_t>& choice) {
      if (chain_cost(choice) <= budget) best = std::min(best, loss(choice));
    });
    const auto chosen = allocate(losses, chain_cost, budget);
    ASSERT_EQ(chosen.has_value(), std::isfinite(best));
    if (!chosen) continue;
    EXPECT_LE(chain_cost(*chosen), budget * (1 + 1e-9));
    EXPECT_LE(loss(*chosen), 1.5 * best + 1e-9);
    exact += loss(*chosen) <= best + 1e-9 ? 1 : 0;
  }
  EXPECT_GE(exact, kTrials * 6 / 10);
}

TEST(Allocate, NothingFitsABudgetBelowTheCheapest) {
  EXPECT_FALSE(allocate({{{0, 2}, {1, 1}}, {{0, 3}}}, 3.9));
  EXPECT_TRUE(allocate({{{0, 2}, {1, 1}}, {{0, 3}}}, 4));
}

}  // namespace
}  // namespace pare
