#include "pare/allocate/allocate.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace pare {

namespace {

constexpr size_t kMostChoices = 20000;  // that are carried from part to part; beyond, near ones are taken together
constexpr int kRounds = 12;

// A choice of options for the parts so far that no other beats in both cost and loss.
struct Choice {
  double cost = 0;
  double loss = 0;
  size_t before = 0;  // in the list of the parts before
  size_t option = 0;
};

// Only the choices that are better than every cheaper one, cheapest first.
std::vector<Choice> undominated(std::vector<Choice> all) {
  std::sort(all.begin(), all.end(),
            [](const Choice& a, const Choice& b) { return a.cost != b.cost ? a.cost < b.cost : a.loss < b.loss; });
  std::vector<Choice> best;
  for (const Choice& choice : all)
    if (best.empty() || choice.loss < best.back().loss) best.push_back(choice);
  return best;
}

// Of many choices one for each of kMostChoices equal ranges of cost: the one that loses least.
std::vector<Choice> thinned(const std::vector<Choice>& choices) {
  if (choices.size() <= kMostChoices) return choices;
  const auto [low, high] = std::ranges::minmax(choices, {}, &Choice::cost);
  const double scale = static_cast<double>(kMostChoices) / std::max(high.cost - low.cost, 1e-300);
  std::vector<Choice> best(kMostChoices + 1, Choice{.loss = std::numeric_limits<double>::infinity()});
  for (const Choice& choice : choices) {
    Choice& own = best[static_cast<size_t>((choice.cost - low.cost) * scale)];
    if (choice.loss < own.loss) own = choice;
  }
  std::erase_if(best, [](const Choice& choice) { return choice.loss == std::numeric_limits<double>::infinity(); });
  return best;
}

double cheapest(const std::vector<AllocationOption>& options) {
  return std::ranges::min(options, {}, &AllocationOption::cost).cost;
}

}  // namespace

namespace {

// What the parts lose at least, for every budget up to the largest.
class Frontier {
 public:
  Frontier(const std::vector<std::vector<AllocationOption>>& parts, double largest) {
    double rest = 0;  // what the parts still to come cost at least
    for (const auto& options : parts) rest += cheapest(options);
    for (const auto& options : parts) {
      rest -= cheapest(options);
      std::vector<Choice> next;
      const auto& before = lists_.back();
      for (size_t b = 0; b < before.size(); ++b)
        for (size_t o = 0; o < options.size(); ++o)
          if (const double cost = before[b].cost + options[o].cost; cost + rest <= upper(largest))
            next.push_back({cost, before[b].loss + options[o].loss, b, o});
      lists_.push_back(undominated(thinned(next)));
    }
  }

  std::optional<std::vector<size_t>> within(double budget) const {
    const auto& last = lists_.back();
    // Dearer ones lose less.
    const auto end = std::ranges::upper_bound(last, upper(budget), {}, &Choice::cost);
    if (end == last.begin()) return {};
    std::vector<size_t> chosen(lists_.size() - 1);
    auto at = static_cast<size_t>(end - last.begin()) - 1;
    for (size_t p = chosen.size(); p-- > 0;) {
      const Choice& choice = lists_[p + 1][at];
      chosen[p] = choice.option;
      at = choice.before;
    }
    return chosen;
  }

 private:
  // Sums in another order must not be over the budget.
  static double upper(double budget) { return budget * (1 + 1e-12) + 1e-300; }

  std::vector<std::vector<Choice>> lists_ = {{Choice{}}};  // after each part
};

}  // namespace

std::optional<std::vector<size_t>> allocate(const std::vector<std::vector<AllocationOption>>& parts, double budget) {
  return Frontier(parts, budget).within(budget);
}

namespace {

class Linearised {
 public:
  Linearised(const std::vector<std::vector<double>>& losses,
             const std::function<double(const std::vector<size_t>&)>& cost, double budget)
      : losses_(losses), cost_(cost), budget_(budget) {}

  std::optional<std::vector<size_t>> run() {
    std::vector<size_t> least(losses_.size(), 0);
    if (cost_(least) > budget_ * (1 + 1e-12)) return {};
    best_ = least;
    best_loss_ = loss(least);
    std::vector<size_t> current(losses_.size());
    for (size_t p = 0; p < losses_.size(); ++p) current[p] = losses_[p].size() - 1;
    for (int round = 0; round < kRounds; ++round) {
      const auto next = about(current);
      if (next == current) break;
      current = next;
      take(trimmed(current));
    }
    take(filled(best_));
    return best_;
  }

 private:
  double loss(const std::vector<size_t>& choice) const {
    double sum = 0;
    for (size_t p = 0; p < choice.size(); ++p) sum += losses_[p][choice[p]];
    return sum;
  }

  void take(const std::vector<size_t>& choice) {
    if (cost_(choice) > budget_ * (1 + 1e-12) || loss(choice) >= best_loss_) return;
    best_ = choice;
    best_loss_ = loss(choice);
  }

  // The best choice where each part costs what changing it alone would, from `current` on.
  std::vector<size_t> about(const std::vector<size_t>& current) const {
    const double here = cost_(current);
    std::vector<std::vector<AllocationOption>> parts(losses_.size());
    for (size_t p = 0; p < losses_.size(); ++p)
      for (size_t o = 0; o < losses_[p].size(); ++o) {
        std::vector<size_t> other = current;
        other[p] = o;
        parts[p].push_back({losses_[p][o], cost_(other) - here});
      }
    // What changes together cost is not the sum of what they cost alone: the budget of the linearised problem is moved
    // until the choice costs what it may.
    double low = -2 * here, high = budget_ - here;
    const Frontier frontier(parts, high);
    std::vector<size_t> best = current;
    for (int i = 0; i < 12; ++i) {
      const double middle = i == 0 ? high : (low + high) / 2;
      const auto choice = frontier.within(middle);
      if (choice && cost_(*choice) <= budget_ * (1 + 1e-12)) {
        best = *choice;
        if (i == 0) break;
        low = middle;
      } else if (choice) {
        best = *choice;
        high = middle;
      } else {
        low = middle;
      }
    }
    return best;
  }

  // Goes down, by the step that loses least for what it saves, until the budget is met.
  std::vector<size_t> trimmed(std::vector<size_t> choice) const {
    double now = cost_(choice);
    while (now > budget_ * (1 + 1e-12)) {
      size_t best = choice.size();
      double least = std::numeric_limits<double>::infinity(), after = now;
      for (size_t p = 0; p < choice.size(); ++p) {
        if (choice[p] == 0) continue;
        std::vector<size_t> other = choice;
        --other[p];
        const double cost = cost_(other);
        const double price = (losses_[p][other[p]] - losses_[p][choice[p]]) / std::max(now - cost, 1e-300);
        if (cost < now && price < least) least = price, best = p, after = cost;
      }
      if (best == choice.size()) break;
      --choice[best];
      now = after;
    }
    return choice;
  }

  // Goes up, by the step that gains most for what it costs, while the budget allows.
  std::vector<size_t> filled(std::vector<size_t> choice) const {
    while (true) {
      const double now = cost_(choice);
      size_t best = choice.size();
      double most = 0;
      for (size_t p = 0; p < choice.size(); ++p) {
        if (choice[p] + 1 >= losses_[p].size()) continue;
        std::vector<size_t> other = choice;
        ++other[p];
        const double cost = cost_(other);
        if (cost > budget_ * (1 + 1e-12)) continue;
        const double gain = (losses_[p][choice[p]] - losses_[p][other[p]]) / std::max(cost - now, 1e-300);
        if (gain > most) most = gain, best = p;
      }
      if (best == choice.size()) return choice;
      ++choice[best];
    }
  }

  const std::vector<std::vector<double>>& losses_;
  const std::function<double(const std::vector<size_t>&)>& cost_;
  double budget_;
  std::vector<size_t> best_;
  double best_loss_ = 0;
};

}  // namespace

std::optional<std::vector<size_t>> allocate(const std::vector<std::vector<double>>& losses,
                                            const std::function<double(const std::vector<size_t>&)>& cost,
                                            double budget) {
  return Linearised(losses, cost, budget).run();
}

}  // namespace pare
