#include "pare/layerwise/zero_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pare/data/in_order.h"
#include "pare/layerwise/column_sweep.h"
#include "pare/layerwise/zero_cells.h"

namespace pare {

namespace {

// What each cell of a row costs: w_Bᵀ P_BB⁻¹ w_B over its columns B. Rows [n, d] that share P, or one row.
at::Tensor cell_losses(const at::Tensor& weight, const at::Tensor& P, const at::Tensor& columns) {
  if (columns.size(1) == 1) {
    const at::Tensor own = columns.squeeze(1);
    return weight.index_select(1, own).square() / P.diagonal().index_select(0, own);
  }
  if (columns.size(0) == 0) return at::zeros({weight.size(0), 0}, at::kDouble);
  const at::Tensor blocks = P.index({columns.unsqueeze(2), columns.unsqueeze(1)});  // [cells, width, width]
  const at::Tensor factors = at::linalg_cholesky(blocks);
  const at::Tensor w = weight.index_select(1, columns.flatten()).reshape({weight.size(0), columns.size(0), -1});
  const at::Tensor each = w.permute({1, 2, 0});  // [cells, width, n]
  return (each * at::cholesky_solve(each, factors)).sum(1).t();
}

// One row over the weights that are there: H_SS w_S = (H w*)_S.
struct RowSolution {
  at::Tensor weight;  // [columns]
  at::Tensor losses;  // [cells], infinite where a cell is not there; undefined unless asked for
};

RowSolution solve_row(const at::Tensor& target, const at::Tensor& H, const at::Tensor& mask, const ZeroCells* cells) {
  RowSolution row{.weight = at::zeros_like(target)};
  if (cells != nullptr) row.losses = at::full({cells->count()}, std::numeric_limits<double>::infinity(), at::kDouble);
  const at::Tensor S = mask.nonzero().squeeze(1);
  if (S.numel() == 0) return row;
  const at::Tensor factor = at::linalg_cholesky(H.index_select(0, S).index_select(1, S));
  const at::Tensor w = at::cholesky_solve(target.index_select(0, S).unsqueeze(1), factor).squeeze(1);
  row.weight.index_copy_(0, S, w);
  if (cells == nullptr) return row;
  const at::Tensor here = mask.index({cells->columns.select(1, 0)}).nonzero().squeeze(1);
  at::Tensor place = at::zeros({target.numel()}, at::kLong);
  place.index_copy_(0, S, at::arange(S.numel()));
  const at::Tensor columns = place.index({cells->columns.index_select(0, here)});
  row.losses.index_copy_(0, here, cell_losses(w.unsqueeze(0), at::cholesky_inverse(factor), columns).squeeze(0));
  return row;
}

struct Solved {
  at::Tensor weight;  // [rows, columns]
  at::Tensor losses;  // [rows, cells]
};

Solved solve_rows(const at::Tensor& targets, const at::Tensor& H, const at::Tensor& mask, const ZeroCells* cells) {
  Solved all;
  std::vector<at::Tensor> weights, losses;
  in_order<RowSolution>(
      static_cast<size_t>(targets.size(0)),
      [&](size_t i) {
        const auto row = static_cast<int64_t>(i);
        return solve_row(targets[row], H, mask[row], cells);
      },
      [&](const RowSolution& row) {
        weights.push_back(row.weight);
        if (cells != nullptr) losses.push_back(row.losses);
      });
  all.weight = at::stack(weights);
  if (cells != nullptr) all.losses = at::stack(losses);
  return all;
}

// In `steps` steps, the rows solved after each but the last.
at::Tensor mask_in_steps(const at::Tensor& best, const at::Tensor& H, const ZeroPattern& pattern, int64_t steps) {
  const ZeroCells cells = zero_cells(best.size(0), best.size(1), pattern);
  const at::Tensor targets = at::mm(best, H);
  at::Tensor losses = cell_losses(best, inverse_of(H), cells.columns), mask;
  at::Tensor gone = at::zeros({cells.row_tiles, cells.count()}, at::kBool);
  for (int64_t step = 1; step <= steps; ++step) {
    const double done = static_cast<double>(step) / static_cast<double>(steps);
    gone = cheapest_tiles(over_tile_rows(losses, cells).narrow(0, 0, cells.row_tiles), gone,
                          tiles_gone(cells, pattern, best.numel(), done), cells, pattern.by_row);
    mask = mask_of_tiles(cells, gone, best.size(0), best.size(1));
    if (step < steps) losses = solve_rows(targets, H, mask, &cells).losses;
  }
  return mask;
}

// SparseGPT: zeros are chosen for some columns at a time, by what the columns after them can make up for.
at::Tensor swept_zeros(const at::Tensor& best, const at::Tensor& H, const ZeroPattern& pattern, int64_t block) {
  const ZeroCells cells = zero_cells(best.size(0), best.size(1), pattern);
  const int64_t together = cells.width() * std::max<int64_t>(cells.among, 1), d = best.size(1);
  // Columns that may go first, cell after cell; those that fill none come last.
  const at::Tensor order =
      at::cat({cells.columns.flatten(),
               mask_of_tiles(cells, at::ones({cells.row_tiles, cells.count()}, at::kBool), best.size(0), d)[0]
                   .nonzero()
                   .squeeze(1)});
  const at::Tensor U = inverse_factor(H.index_select(0, order).index_select(1, order));
  const at::Tensor price = U.diagonal().square();
  const int64_t may = cells.columns.numel();
  at::Tensor kept = at::ones(best.sizes(), best.options());
  int64_t before = 0;
  const auto enter = [&](int64_t begin, const at::Tensor& own) {
    const int64_t n = std::min(own.size(1), may - begin);
    if (n <= 0) return;
    ZeroCells here = cells;
    here.columns = at::arange(n).reshape({-1, cells.width()});
    const at::Tensor each =
        (own.narrow(1, 0, n).square() / price.narrow(0, begin, n)).reshape({best.size(0), -1, cells.width()}).sum(2);
    const at::Tensor losses = over_tile_rows(each, cells).narrow(0, 0, cells.row_tiles);
    const at::Tensor none = at::zeros(losses.sizes(), at::kBool);
    // The block's share of all that go, with what was left over before.
    const double part = static_cast<double>(begin + n) / static_cast<double>(may);
    int64_t count =
        cells.among > 0
            ? losses.numel() / pattern.among * (pattern.among - pattern.keep)
            : std::llround(part * static_cast<double>(tiles_gone(cells, pattern, best.numel(), 1))) - before;
    count = std::min(count, losses.numel());
    before += count;
    const at::Tensor gone = cheapest_tiles(losses, none, count, cells, pattern.by_row);
    kept.narrow(1, begin, n).copy_(mask_of_tiles(here, gone, best.size(0), n));
  };
  const auto fix = [&](int64_t column, const at::Tensor& w) { return w * kept.select(1, column); };
  const at::Tensor W =
      swept(best.index_select(1, order), U, std::max<int64_t>(block / together, 1) * together, {enter, fix});
  at::Tensor result = at::empty_like(best);
  return result.index_copy_(1, order, W);
}

double cube(double x) { return x * x * x; }

}  // namespace

at::Tensor row_errors(const at::Tensor& weight, const at::Tensor& best, const at::Tensor& H) {
  const at::Tensor lost = weight - best;
  return (at::mm(lost, H) * lost).sum(1);
}

at::Tensor mask_by_score(const at::Tensor& scores, const ZeroPattern& pattern) {
  const ZeroCells cells = zero_cells(scores.size(0), scores.size(1), pattern);
  const at::Tensor each = scores.to(at::kDouble).index_select(1, cells.columns.flatten()).square();
  const at::Tensor losses = over_tile_rows(each.reshape({scores.size(0), cells.count(), cells.width()}).sum(2), cells)
                                .narrow(0, 0, cells.row_tiles);
  const at::Tensor none = at::zeros(losses.sizes(), at::kBool);
  const at::Tensor gone =
      cheapest_tiles(losses, none, tiles_gone(cells, pattern, scores.numel(), 1), cells, pattern.by_row);
  return mask_of_tiles(cells, gone, scores.size(0), scores.size(1));
}

at::Tensor solve_masked(const at::Tensor& best, const at::Tensor& H, const at::Tensor& mask) {
  return solve_rows(at::mm(best, H), H, mask, nullptr).weight;
}

at::Tensor wanda_scores(const at::Tensor& weight, const at::Tensor& second_moments) {
  return weight.abs() * second_moments.clamp_min(0).sqrt().unsqueeze(0);
}

ZeroedWeights zero_weights(const at::Tensor& best, const at::Tensor& H, const ZeroPattern& pattern,
                           const ZeroOptions& options) {
  const auto q = static_cast<double>(best.size(0)), d = static_cast<double>(best.size(1));
  const double left =
      pattern.keep > 0 ? static_cast<double>(pattern.keep) / static_cast<double>(pattern.among) : 1 - pattern.sparsity;
  const double last = q * cube(left * d) / 3, each = q * cube(d);
  const int64_t most = pattern.keep > 0 ? pattern.among - pattern.keep : options.steps;
  ZeroedWeights zeroed;
  if (last > options.work) {
    zeroed.weight = swept_zeros(best, H, pattern, options.sweep);
    zeroed.mask = zeroed.weight.ne(0);
  } else {
    const auto more = static_cast<int64_t>(std::min((options.work - last) / each, static_cast<double>(most)));
    zeroed.mask = mask_in_steps(best, H, pattern, std::clamp<int64_t>(more + 1, 1, most));
    zeroed.weight = solve_masked(best, H, zeroed.mask);
  }
  zeroed.error = row_errors(zeroed.weight, best, H).sum().item<double>();
  // Greed is seldom beaten by the scores that know less, but it can be.
  for (const at::Tensor& scores : {best.abs(), wanda_scores(best, H.diagonal())}) {
    const at::Tensor mask = mask_by_score(scores, pattern);
    const double error = row_errors(best * mask, best, H).sum().item<double>();
    if (!(error < zeroed.error)) continue;
    zeroed = {.weight = last > options.work ? best * mask : solve_masked(best, H, mask), .mask = mask};
    zeroed.error = row_errors(zeroed.weight, best, H).sum().item<double>();
  }
  return zeroed;
}

}  // namespace pare
