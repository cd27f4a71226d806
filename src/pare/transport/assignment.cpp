#include "pare/transport/assignment.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "pare/error.h"
#include "pare/transport/plan.h"
#include "pare/transport/row_scan.h"

namespace pare {

namespace {

constexpr int64_t kNone = -1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class AssignmentSolver {
 public:
  AssignmentSolver(const double* cost, int64_t size)
      : cost_(cost),
        size_(size),
        core_(static_cast<size_t>(size)),
        minima_(static_cast<size_t>(transport::scan_blocks(size))),
        column_of_(static_cast<size_t>(size), kNone),
        row_of_(static_cast<size_t>(size), kNone),
        v_(static_cast<size_t>(size), kInfinity),
        distance_(static_cast<size_t>(size), kInfinity),
        previous_(static_cast<size_t>(size), kNone),
        scanned_(static_cast<size_t>(size), 0) {}

  Assignment run() {
    if (!reduce_columns()) {
      for (int64_t i = 0; i < size_; ++i) extend_core(i, kCoreSize, kInfinity);
      do {
        reduce_rows();
        for (int64_t i = 0; i < size_; ++i)
          if (column_of(i) == kNone) augment(i);
      } while (!price());
    }
    return result();
  }

 private:
  struct Edge {
    int64_t column;
    double cost;
  };
  static constexpr int64_t kCoreSize = 16;
  static constexpr int kReductions = 8;

  const double* row(int64_t i) const { return cost_ + i * size_; }
  double entry(int64_t i, int64_t j) const { return cost_[i * size_ + j]; }
  int64_t& column_of(int64_t i) { return column_of_[static_cast<size_t>(i)]; }
  int64_t& row_of(int64_t j) { return row_of_[static_cast<size_t>(j)]; }
  double& v(int64_t j) { return v_[static_cast<size_t>(j)]; }
  std::vector<Edge>& core(int64_t i) { return core_[static_cast<size_t>(i)]; }

  // v_j = min_i C[i, j], and each row that holds such a minimum takes the column. True when that settles every row.
  bool reduce_columns() {
    std::vector<int64_t> where(static_cast<size_t>(size_), 0);
    double magnitude = 0;
    for (int64_t i = 0; i < size_; ++i) {
      magnitude = std::max(magnitude, checked_magnitude(row(i), size_, "solve_assignment"));
      transport::lower_to_minimum(row(i), size_, i, v_.data(), where.data());
    }
    tolerance_ = 1e-13 * magnitude;
    int64_t taken = 0;
    for (int64_t j = 0; j < size_; ++j) {
      const int64_t i = where[static_cast<size_t>(j)];
      if (column_of(i) != kNone) continue;
      match(i, j);
      ++taken;
    }
    return taken == size_;
  }

  void match(int64_t i, int64_t j) {
    column_of(i) = j;
    row_of(j) = i;
  }

  // Adds the columns with the smallest C[i, j] − v_j below `limit` to the core of row i: about `count` of them, more on
  // equal block minima. Rows start at different blocks, so that ties do not lead them all to the same columns.
  void extend_core(int64_t i, int64_t count, double limit) {
    transport::block_minima(row(i), v_.data(), size_, minima_.data());
    add_below(i, count, limit);
  }

  void add_below(int64_t i, int64_t count, double limit) {
    const auto blocks = static_cast<int64_t>(minima_.size());
    double threshold = limit;
    if (count < blocks) {
      order_ = minima_;
      std::nth_element(order_.begin(), order_.begin() + count, order_.end());
      threshold = std::min(limit, order_[static_cast<size_t>(count)]);
    }
    std::vector<Edge>& edges = core(i);
    const size_t most = edges.size() + 2 * static_cast<size_t>(count);
    const size_t known = edges.size();
    for (int64_t k = 0; k < blocks && edges.size() < most; ++k) {
      const int64_t b = (k + i) % blocks;
      if (minima_[static_cast<size_t>(b)] > threshold) continue;
      const int64_t end = std::min(size_, (b + 1) * transport::kScanBlock);
      for (int64_t j = b * transport::kScanBlock; j < end && edges.size() < most; ++j) {
        if (entry(i, j) - v(j) > threshold) continue;
        const auto is_known = [&](const Edge& edge) { return edge.column == j; };
        const auto old = edges.begin() + static_cast<int64_t>(known);
        if (std::find_if(edges.begin(), old, is_known) == old) edges.push_back({j, entry(i, j)});
      }
    }
    if (column_of(i) != kNone) {  // the row's own column belongs to its core
      const int64_t own = column_of(i);
      const auto is_own = [&](const Edge& edge) { return edge.column == own; };
      if (std::none_of(edges.begin(), edges.end(), is_own)) edges.push_back({own, entry(i, own)});
    }
  }

  // Augmenting row reduction on the core: a free row takes its best column, at a price that makes it no better than the
  // second best; the row that had it is free.
  void reduce_rows() {
    std::vector<int64_t> free;
    for (int64_t i = 0; i < size_; ++i)
      if (column_of(i) == kNone) free.push_back(i);
    std::vector<int64_t> next;
    for (int pass = 0; pass < kReductions && !free.empty(); ++pass) {
      next.clear();
      int64_t steps = 4 * size_;
      for (size_t k = 0; k < free.size(); ++k) {
        int64_t i = free[k];
        while (i != kNone && steps-- > 0) {
          const auto [first, second] = two_smallest(i);
          if (first.column == kNone) break;
          const bool dearer = second.cost - first.cost > tolerance_ && second.cost < kInfinity;
          int64_t j = first.column;
          if (dearer)
            v(j) -= second.cost - first.cost;
          else if (row_of(j) != kNone && second.column != kNone && row_of(second.column) == kNone)
            j = second.column;
          const int64_t displaced = row_of(j);
          match(i, j);
          i = displaced;
          if (i == kNone) break;
          column_of(i) = kNone;
          if (!dearer) break;
        }
        if (i != kNone && column_of(i) == kNone) next.push_back(i);
      }
      free.swap(next);
    }
  }

  std::pair<Edge, Edge> two_smallest(int64_t i) {
    Edge first{kNone, kInfinity};
    Edge second{kNone, kInfinity};
    for (const Edge& edge : core(i)) {
      const double reduced = edge.cost - v(edge.column);
      if (reduced < first.cost)
        second = first, first = {edge.column, reduced};
      else if (reduced < second.cost)
        second = {edge.column, reduced};
    }
    return {first, second};
  }

  // Dijkstra's algorithm over reduced costs from the free row `start` to the nearest free column; then the path is
  // flipped and the columns inside the search sphere become dearer by their distance to its rim.
  void augment(int64_t start) {
    while (true) {
      const int64_t end = search(start);
      if (end == kNone) {  // the core has no way out of the rows reached: it grows there
        std::vector<int64_t> reached = {start};
        for (const int64_t j : touched_)
          if (scanned_[static_cast<size_t>(j)] != 0) reached.push_back(row_of(j));
        forget_search();
        for (const int64_t i : reached) extend_core(i, 2 * static_cast<int64_t>(core(i).size()) + 1, kInfinity);
        release_outpriced(reached);
        continue;
      }
      const double rim = distance_[static_cast<size_t>(end)];
      for (const int64_t j : touched_)
        if (scanned_[static_cast<size_t>(j)] != 0) v(j) += distance_[static_cast<size_t>(j)] - rim;
      for (int64_t j = end; j != kNone;) {
        const int64_t i = previous_[static_cast<size_t>(j)];
        std::swap(j, column_of(i));
        row_of(column_of(i)) = i;
        if (i == start) break;
      }
      forget_search();
      return;
    }
  }

  // Columns that entered a core may undercut the row's own: such a row is free again.
  void release_outpriced(const std::vector<int64_t>& reached) {
    for (const int64_t i : reached) {
      if (column_of(i) == kNone) continue;
      const double own = entry(i, column_of(i)) - v(column_of(i));
      if (two_smallest(i).first.cost >= own - tolerance_) continue;
      row_of(column_of(i)) = kNone;
      column_of(i) = kNone;
      released_.push_back(i);
    }
    std::vector<int64_t> again;
    again.swap(released_);
    for (const int64_t i : again) augment(i);
  }

  int64_t search(int64_t start) {
    heap_.clear();
    int64_t i = start;
    double base = 0;  // what the path to row i costs, less the reduced cost of its own column
    while (true) {
      for (const Edge& edge : core(i)) {
        const auto j = static_cast<size_t>(edge.column);
        if (scanned_[j] != 0) continue;
        const double through = base + (edge.cost - v_[j]);
        if (through >= distance_[j]) continue;
        if (distance_[j] == kInfinity) touched_.push_back(edge.column);
        distance_[j] = through;
        previous_[j] = i;
        heap_.push_back({edge.column, through});
        std::push_heap(heap_.begin(), heap_.end(), farther);
      }
      int64_t j = kNone;
      while (!heap_.empty() && j == kNone) {
        const Edge top = heap_.front();
        std::pop_heap(heap_.begin(), heap_.end(), farther);
        heap_.pop_back();
        if (scanned_[static_cast<size_t>(top.column)] == 0) j = top.column;
      }
      if (j == kNone || row_of(j) == kNone) return j;
      scanned_[static_cast<size_t>(j)] = 1;
      i = row_of(j);
      base = distance_[static_cast<size_t>(j)] - (entry(i, j) - v(j));
    }
  }

  static bool farther(const Edge& a, const Edge& b) { return a.cost > b.cost; }

  void forget_search() {
    for (const int64_t j : touched_) {
      distance_[static_cast<size_t>(j)] = kInfinity;
      scanned_[static_cast<size_t>(j)] = 0;
    }
    touched_.clear();
  }

  // Looks for entries outside the core that the dual solution does not allow. They enter it and their rows are free
  // again. True when there are none: the assignment is optimal for the whole matrix.
  bool price() {
    bool optimal = true;
    for (int64_t i = 0; i < size_; ++i) {
      const double own = entry(i, column_of(i)) - v(column_of(i));
      transport::block_minima(row(i), v_.data(), size_, minima_.data());
      if (*std::min_element(minima_.begin(), minima_.end()) >= own - 4 * tolerance_) continue;
      add_below(i, kCoreSize, own);
      row_of(column_of(i)) = kNone;
      column_of(i) = kNone;
      optimal = false;
    }
    return optimal;
  }

  Assignment result() {
    Assignment best;
    best.u.resize(static_cast<size_t>(size_));
    for (int64_t i = 0; i < size_; ++i) {
      best.cost += entry(i, column_of(i));
      best.u[static_cast<size_t>(i)] = entry(i, column_of(i)) - v(column_of(i));
    }
    best.column = std::move(column_of_);
    best.v = std::move(v_);
    return best;
  }

  const double* cost_;
  int64_t size_;
  double tolerance_ = 0;
  std::vector<std::vector<Edge>> core_;
  std::vector<double> minima_;
  std::vector<double> order_;
  std::vector<int64_t> column_of_;
  std::vector<int64_t> row_of_;
  std::vector<double> v_;
  // of one search
  std::vector<double> distance_;
  std::vector<int64_t> previous_;
  std::vector<char> scanned_;
  std::vector<int64_t> touched_;
  std::vector<Edge> heap_;
  std::vector<int64_t> released_;
};

}  // namespace

Assignment solve_assignment(const at::Tensor& cost) {
  const at::Tensor C = check_cost(cost, "solve_assignment");
  const int64_t rows = C.size(0);
  const int64_t columns = C.size(1);
  if (rows > columns)
    throw Error(ErrorKind::shape, "solve_assignment", "{} rows cannot each have one of {} columns", rows, columns);
  if (rows == columns) return AssignmentSolver(C.data_ptr<double>(), rows).run();

  // Rows of zeros take the columns left over. They bound every v by their common value there, which becomes zero.
  const at::Tensor square = at::cat({C, at::zeros({columns - rows, columns}, at::kDouble)});
  Assignment best = AssignmentSolver(square.data_ptr<double>(), columns).run();
  const double shift = *std::max_element(best.v.begin(), best.v.end());
  best.column.resize(static_cast<size_t>(rows));
  best.u.resize(static_cast<size_t>(rows));
  for (double& v : best.v) v -= shift;
  for (double& u : best.u) u += shift;
  return best;
}

}  // namespace pare
