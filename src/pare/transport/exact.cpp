#include "pare/transport/exact.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "pare/transport/assignment.h"
#include "pare/transport/row_scan.h"

namespace pare {

namespace {

// Marginals in whole units. A row has `scale` times its share plus one, the last column the ones of all rows: then no
// partial sum of rows equals one of columns, so no tree has an arc without flow.
struct UnitMarginals {
  std::vector<int64_t> a, b;
  int64_t scale = 1;
  double total = 1;  // units of the whole mass, before scaling
};

std::vector<int64_t> rounded_shares(const at::Tensor& marginal, int64_t total) {
  const auto count = static_cast<size_t>(marginal.size(0));
  const double* share = marginal.data_ptr<double>();
  std::vector<int64_t> units(count);
  int64_t given = 0;
  for (size_t i = 0; i < count; ++i) given += units[i] = std::llround(share[i] * static_cast<double>(total));
  const auto largest = std::max_element(units.begin(), units.end());
  *largest += total - given;
  return units;
}

bool is_uniform(const at::Tensor& marginal) {
  const double share = 1.0 / static_cast<double>(marginal.size(0));
  return (marginal - share).abs().max().item<double>() <= 4 * std::numeric_limits<double>::epsilon() * share;
}

UnitMarginals unit_marginals(const at::Tensor& a, const at::Tensor& b) {
  const int64_t m = a.size(0);
  const int64_t n = b.size(0);
  UnitMarginals units;
  while (units.scale <= 2 * (m + n)) units.scale *= 2;
  if (is_uniform(a) && is_uniform(b)) {
    const int64_t divisor = std::gcd(m, n);
    const int64_t each = n / divisor;
    units.a.assign(static_cast<size_t>(m), each);
    units.b.assign(static_cast<size_t>(n), m / divisor);
    units.total = static_cast<double>(m) * static_cast<double>(each);
  } else {
    const int64_t total = (int64_t{1} << 60) / units.scale;
    units.a = rounded_shares(a, total);
    units.b = rounded_shares(b, total);
    units.total = static_cast<double>(total);
  }
  for (int64_t& supply : units.a) supply = supply * units.scale + 1;
  for (int64_t& demand : units.b) demand *= units.scale;
  units.b.back() += m;
  return units;
}

// The spanning tree of basic arcs. Nodes are the rows 0…m−1 and the columns m…m+n−1; row 0 is the root.
class NetworkSimplex {
 public:
  NetworkSimplex(const double* cost, int64_t rows, int64_t columns, UnitMarginals units)
      : cost_(cost),
        rows_(rows),
        columns_(columns),
        units_(std::move(units)),
        nodes_(static_cast<size_t>(rows + columns)),
        potential_(static_cast<size_t>(rows + columns), 0.0),
        minima_(static_cast<size_t>(transport::scan_blocks(columns))) {
    double magnitude = 0;
    for (int64_t i = 0; i < rows_; ++i)
      magnitude = std::max(magnitude, checked_magnitude(cost_ + i * columns_, columns_, "solve_transport"));
    tolerance_ = 1e-13 * magnitude;
  }

  TransportPlan run() {
    start_greedily();
    do {
      compute_potentials();
    } while (improve());
    return result();
  }

 private:
  struct TreeNode {
    int64_t parent = -1;
    int64_t flow = 0;  // on the arc to the parent
    int64_t depth = 0;
    int64_t child = -1;  // first of its children, which are a list
    int64_t next = -1;
    int64_t previous = -1;
  };
  struct Arc {
    int64_t row, column;
  };

  TreeNode& node(int64_t x) { return nodes_[static_cast<size_t>(x)]; }
  double& potential(int64_t x) { return potential_[static_cast<size_t>(x)]; }
  bool is_row(int64_t x) const { return x < rows_; }
  double entry(int64_t i, int64_t j) const { return cost_[i * columns_ + j]; }
  const double* v() const { return potential_.data() + rows_; }
  double reduced_cost(const Arc& arc) { return entry(arc.row, arc.column) - potential(arc.row) - v()[arc.column]; }

  void attach(int64_t x, int64_t parent) {
    TreeNode& above = node(parent);
    TreeNode& here = node(x);
    here.parent = parent;
    here.previous = -1;
    here.next = above.child;
    if (above.child >= 0) node(above.child).previous = x;
    above.child = x;
  }

  void detach(int64_t x) {
    TreeNode& here = node(x);
    if (here.previous >= 0)
      node(here.previous).next = here.next;
    else
      node(here.parent).child = here.next;
    if (here.next >= 0) node(here.next).previous = here.previous;
    here.parent = -1;
  }

  // Each row in turn ships to its cheapest column that is still open, the column's least cost taken off. Every shipment
  // closes the row or the column, so the arcs used are a spanning tree.
  void start_greedily() {
    std::vector<double> price(static_cast<size_t>(columns_), std::numeric_limits<double>::infinity());
    std::vector<int64_t> where(static_cast<size_t>(columns_), 0);
    for (int64_t i = 0; i < rows_; ++i)
      transport::lower_to_minimum(cost_ + i * columns_, columns_, i, price.data(), where.data());
    std::vector<std::vector<std::pair<int64_t, int64_t>>> arcs(nodes_.size());  // (node, flow)
    std::vector<int64_t> open = units_.b;
    int64_t open_columns = columns_;
    for (const int64_t i : rows_by_regret(price)) {
      int64_t left = units_.a[static_cast<size_t>(i)];
      while (left > 0) {
        const int64_t j = cheapest(i, price);
        int64_t& room = open[static_cast<size_t>(j)];
        const int64_t flow = std::min(left, room);
        arcs[static_cast<size_t>(i)].push_back({rows_ + j, flow});
        arcs[static_cast<size_t>(rows_ + j)].push_back({i, flow});
        left -= flow;
        room -= flow;
        if (room == 0 && --open_columns > 0) price[static_cast<size_t>(j)] = -std::numeric_limits<double>::infinity();
      }
    }
    std::vector<int64_t> stack = {0};
    std::vector<char> seen(nodes_.size(), 0);
    seen[0] = 1;
    while (!stack.empty()) {
      const int64_t x = stack.back();
      stack.pop_back();
      for (const auto& [y, flow] : arcs[static_cast<size_t>(x)]) {
        if (seen[static_cast<size_t>(y)] != 0) continue;
        seen[static_cast<size_t>(y)] = 1;
        attach(y, x);
        node(y).flow = flow;
        stack.push_back(y);
      }
    }
  }

  // Rows that lose most by their second choice come first.
  std::vector<int64_t> rows_by_regret(const std::vector<double>& price) {
    std::vector<double> regret(static_cast<size_t>(rows_));
    for (int64_t i = 0; i < rows_; ++i) {
      transport::block_minima(cost_ + i * columns_, price.data(), columns_, minima_.data());
      order_ = minima_;
      const auto second = order_.begin() + std::min<int64_t>(1, static_cast<int64_t>(order_.size()) - 1);
      std::nth_element(order_.begin(), second, order_.end());
      regret[static_cast<size_t>(i)] = *second - *std::min_element(order_.begin(), second + 1);
    }
    std::vector<int64_t> rows(static_cast<size_t>(rows_));
    std::iota(rows.begin(), rows.end(), 0);
    std::stable_sort(rows.begin(), rows.end(), [&](int64_t i, int64_t k) {
      return regret[static_cast<size_t>(i)] > regret[static_cast<size_t>(k)];
    });
    return rows;
  }

  int64_t cheapest(int64_t i, const std::vector<double>& price) {
    return cheapest_column(cost_ + i * columns_, price.data());
  }

  int64_t cheapest_column(const double* row, const double* price) {
    transport::block_minima(row, price, columns_, minima_.data());
    const int64_t block = std::min_element(minima_.begin(), minima_.end()) - minima_.begin();
    const int64_t end = std::min(columns_, (block + 1) * transport::kScanBlock);
    int64_t best = block * transport::kScanBlock;
    for (int64_t j = best + 1; j < end; ++j)
      if (row[j] - price[j] < row[best] - price[best]) best = j;
    return best;
  }

  // Depths and potentials of everything below a node from its own: the cost of an arc is the sum of its ends.
  void update_below(int64_t top) {
    stack_.assign(1, top);
    while (!stack_.empty()) {
      const int64_t x = stack_.back();
      stack_.pop_back();
      for (int64_t y = node(x).child; y >= 0; y = node(y).next) {
        node(y).depth = node(x).depth + 1;
        potential(y) = (is_row(y) ? entry(y, x - rows_) : entry(x, y - rows_)) - potential(x);
        stack_.push_back(y);
      }
    }
  }

  void compute_potentials() {
    potential(0) = 0;
    node(0).depth = 0;
    update_below(0);
  }

  // Prices the rows in turn, some at a time; the best arc of each is a candidate, and the candidates enter in the order
  // of what they gain as long as they gain anything. False when a whole round finds none.
  bool improve() {
    bool any = false;
    int64_t idle = 0;
    const int64_t batch = std::max<int64_t>(1, std::min<int64_t>(rows_, kBatch));
    for (int64_t next = 0; idle < rows_;) {
      candidates_.clear();
      for (int64_t k = 0; k < batch; ++k, next = next + 1 == rows_ ? 0 : next + 1) {
        const int64_t j = cheapest_column(cost_ + next * columns_, v());
        if (reduced_cost({next, j}) < -tolerance_) candidates_.push_back({next, j});
      }
      if (candidates_.empty()) {
        idle += batch;
        continue;
      }
      idle = 0;
      any = true;
      while (!candidates_.empty()) {
        size_t best = 0;
        double gain = -tolerance_;
        for (size_t k = 0; k < candidates_.size();) {
          const double reduced = reduced_cost(candidates_[k]);
          if (reduced >= -tolerance_) {
            candidates_[k] = candidates_.back();
            candidates_.pop_back();
            continue;
          }
          if (reduced < gain) gain = reduced, best = k;
          ++k;
        }
        if (candidates_.empty()) break;
        pivot(candidates_[best]);
        ++pivots_;
      }
    }
    return any;
  }

  // The arc enters with as much flow as the cycle it closes allows; the arc that runs empty leaves.
  void pivot(const Arc& arc) {
    const int64_t from = arc.row;
    const int64_t to = rows_ + arc.column;
    // Along the cycle an arc loses flow when its lower end is a row on the way up from the entering arc's row, or a
    // column on the way up from its column.
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t leaving = -1;
    bool on_row_side = true;
    int64_t x = from;
    int64_t y = to;
    while (x != y) {
      const bool climb_x = node(x).depth >= node(y).depth;
      int64_t& z = climb_x ? x : y;
      if (is_row(z) == climb_x && node(z).flow < least) least = node(z).flow, leaving = z, on_row_side = climb_x;
      z = node(z).parent;
    }
    for (int64_t z = from; z != x; z = node(z).parent) node(z).flow += is_row(z) ? -least : least;
    for (int64_t z = to; z != x; z = node(z).parent) node(z).flow += is_row(z) ? least : -least;

    // What hangs below the leaving arc is hung up anew at the entering one.
    int64_t below = on_row_side ? from : to;
    int64_t above = on_row_side ? to : from;
    int64_t flow = least;
    while (true) {
      const int64_t parent = node(below).parent;
      const int64_t old_flow = node(below).flow;
      detach(below);
      attach(below, above);
      node(below).flow = flow;
      if (below == leaving) break;
      flow = old_flow;
      above = below;
      below = parent;
    }
    const int64_t top = on_row_side ? from : to;
    const int64_t joint = on_row_side ? to : from;
    node(top).depth = node(joint).depth + 1;
    potential(top) = entry(arc.row, arc.column) - potential(joint);
    update_below(top);
  }

  TransportPlan result() {
    TransportPlan best;
    best.plan = at::zeros({rows_, columns_}, at::kDouble);
    auto* plan = best.plan.data_ptr<double>();
    for (int64_t x = 1; x < rows_ + columns_; ++x) {
      const int64_t i = is_row(x) ? x : node(x).parent;
      const int64_t j = (is_row(x) ? node(x).parent : x) - rows_;
      const int64_t units = (node(x).flow + units_.scale / 2) / units_.scale;  // the perturbation is far below one
      const double mass = static_cast<double>(units) / units_.total;
      plan[i * columns_ + j] = mass;
      best.cost += mass * entry(i, j);
    }
    best.u = at::empty({rows_}, at::kDouble);
    best.v = at::empty({columns_}, at::kDouble);
    std::copy_n(potential_.begin(), rows_, best.u.data_ptr<double>());
    std::copy_n(v(), columns_, best.v.data_ptr<double>());
    best.iterations = pivots_;
    return best;
  }

  static constexpr int64_t kBatch = 64;

  const double* cost_;
  int64_t rows_;
  int64_t columns_;
  UnitMarginals units_;
  std::vector<TreeNode> nodes_;
  std::vector<double> potential_;  // of rows, then of columns
  std::vector<double> minima_;
  std::vector<double> order_;
  std::vector<int64_t> stack_;
  std::vector<Arc> candidates_;
  double tolerance_ = 0;
  int64_t pivots_ = 0;
};

// Below this a column's mass is less than a unit: nothing is shipped there, and it has no arc in the tree.
constexpr double kNoMass = 1e-13;

TransportPlan by_network_simplex(const at::Tensor& C, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor used = (b > kNoMass).nonzero().squeeze(1);
  if (used.size(0) == b.size(0))
    return NetworkSimplex(C.data_ptr<double>(), C.size(0), C.size(1), unit_marginals(a, b)).run();
  const at::Tensor own = b.index_select(0, used);
  TransportPlan best = by_network_simplex(C.index_select(1, used).contiguous(), a, own / own.sum());
  best.plan = at::zeros_like(C).index_copy(1, used, best.plan);
  best.v = (C - best.u.unsqueeze(1)).amin(0);  // of a used column as before: an arc to it binds
  return best;
}

TransportPlan plan_of(const Assignment& best, int64_t size) {
  TransportPlan result;
  result.plan = at::zeros({size, size}, at::kDouble);
  const double share = 1.0 / static_cast<double>(size);
  for (int64_t i = 0; i < size; ++i)
    result.plan.data_ptr<double>()[i * size + best.column[static_cast<size_t>(i)]] = share;
  result.cost = best.cost * share;
  result.u = at::tensor(best.u, at::kDouble);
  result.v = at::tensor(best.v, at::kDouble);
  return result;
}

}  // namespace

TransportPlan solve_transport(const at::Tensor& cost, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor C = check_cost(cost, "solve_transport");
  const int64_t m = C.size(0);
  const int64_t n = C.size(1);
  const at::Tensor alpha = normalized_marginal(a, m, "solve_transport");
  const at::Tensor beta = normalized_marginal(b, n, "solve_transport");
  TransportPlan best = m == n && is_uniform(alpha) && is_uniform(beta) ? plan_of(solve_assignment(C), n)
                                                                       : by_network_simplex(C, alpha, beta);
  check_plan(best.plan, alpha, beta, 1e-9, "solve_transport");
  return best;
}

TransportPlan solve_transport(const at::Tensor& cost) {
  const at::Tensor C = check_cost(cost, "solve_transport");
  return solve_transport(C, uniform_marginal(C.size(0)), uniform_marginal(C.size(1)));
}

}  // namespace pare
