#include "pare/layerwise/round_weights.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/layerwise/column_sweep.h"
#include "pare/layerwise/zero_weights.h"

namespace pare {

namespace {

constexpr int64_t kSweep = 128;

// [rows, blocks, block] with zeros after the last column.
at::Tensor in_blocks(const at::Tensor& W, int64_t block) {
  const int64_t d = W.size(1), width = block == 0 ? d : block, blocks = (d + width - 1) / width;
  return at::constant_pad_nd(W, {0, blocks * width - d}).reshape({W.size(0), blocks, width});
}

}  // namespace

at::Tensor WeightGrid::scales(int64_t columns) const {
  if (block == 0) return scale.expand({scale.size(0), columns});
  return scale.repeat_interleave(block, 1).narrow(1, 0, columns);
}

at::Tensor WeightGrid::codes(const at::Tensor& W) const {
  return at::round(W / scales(W.size(1))).clamp(-highest, highest);
}

at::Tensor WeightGrid::values(const at::Tensor& codes) const { return codes * scales(codes.size(1)); }

WeightGrid weight_grid(const at::Tensor& W, int64_t bits, int64_t block, const at::Tensor& importance) {
  WeightGrid grid{.block = block, .highest = (int64_t{1} << (bits - 1)) - 1};
  const at::Tensor parts = in_blocks(W, block);
  const at::Tensor largest = parts.abs().amax(2);
  const auto highest = static_cast<double>(grid.highest);
  const at::Tensor whole = at::where(largest > 0, largest / highest, at::ones_like(largest));
  grid.scale = whole;
  if (!importance.defined()) return grid;
  const at::Tensor weighs = in_blocks(importance.unsqueeze(0), block);
  at::Tensor least;
  for (int64_t percent = 100; percent >= 40; percent -= 2) {
    const at::Tensor scale = whole * (static_cast<double>(percent) / 100);
    const at::Tensor rounded = at::round(parts / scale.unsqueeze(2)).clamp(-highest, highest) * scale.unsqueeze(2);
    const at::Tensor error = ((parts - rounded).square() * weighs).sum(2);
    if (!least.defined()) {
      least = error;
      continue;
    }
    grid.scale = at::where(error < least, scale, grid.scale);
    least = at::minimum(error, least);
  }
  return grid;
}

at::Tensor round_weights(const at::Tensor& best, const at::Tensor& H, const WeightGrid& grid) {
  const at::Tensor order = std::get<1>(H.diagonal().sort(/*stable=*/true, 0, /*descending=*/true));
  const at::Tensor scales = grid.scales(best.size(1)).index_select(1, order).t().contiguous();
  const auto highest = static_cast<double>(grid.highest);
  at::Tensor swept_codes = at::empty_like(best);
  swept(best.index_select(1, order), inverse_factor(H.index_select(0, order).index_select(1, order)), kSweep,
        {.fix = [&](int64_t column, const at::Tensor& w) {
          const at::Tensor code = at::round(w / scales[column]).clamp(-highest, highest);
          swept_codes.select(1, column).copy_(code);
          return code * scales[column];
        }});
  at::Tensor codes = at::empty_like(best);
  codes.index_copy_(1, order, swept_codes);
  const at::Tensor nearest = grid.codes(best);
  const at::Tensor better = row_errors(grid.values(codes), best, H) < row_errors(grid.values(nearest), best, H);
  return at::where(better.unsqueeze(1), codes, nearest);
}

}  // namespace pare
