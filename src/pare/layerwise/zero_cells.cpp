#include "pare/layerwise/zero_cells.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace pare {

ZeroCells zero_cells(int64_t outputs, int64_t columns, const ZeroPattern& pattern) {
  const bool among = pattern.keep > 0;
  const int64_t together = among ? pattern.among : pattern.tile_inputs;
  const int64_t channels = columns / pattern.kernel, groups = channels / together;
  // Column of channel c and place p of the kernel: c·kernel + p. Those of one place lie side by side here.
  const at::Tensor all = at::arange(columns).reshape({channels, pattern.kernel}).t();
  const at::Tensor whole = all.narrow(1, 0, groups * together).reshape({pattern.kernel * groups, together});
  return {.columns = (among ? whole.reshape({-1, 1}) : whole).contiguous(),
          .rows = pattern.tile_outputs,
          .row_tiles = outputs / pattern.tile_outputs,
          .among = among ? pattern.among : 0};
}

int64_t tiles_gone(const ZeroCells& cells, const ZeroPattern& pattern, int64_t weights, double done) {
  const int64_t tiles = cells.row_tiles * cells.count();
  if (cells.among > 0) {
    const auto each = static_cast<int64_t>(std::ceil(done * static_cast<double>(pattern.among - pattern.keep) - 1e-9));
    return tiles / cells.among * each;
  }
  // What is left falls by the same factor in every step.
  const double sparsity = 1 - std::pow(1 - pattern.sparsity, done);
  const auto kept = static_cast<int64_t>(std::llround((1 - sparsity) * static_cast<double>(weights)));
  return std::clamp<int64_t>((weights - kept) / (cells.rows * cells.width()), 0, tiles);
}

at::Tensor cheapest_tiles(const at::Tensor& losses, const at::Tensor& gone, int64_t count, const ZeroCells& cells,
                          bool by_row) {
  if (losses.numel() == 0) return gone;
  const at::Tensor ranked = losses.masked_fill(gone, -std::numeric_limits<double>::infinity());
  const at::Tensor rivals = ranked.reshape({-1, cells.among > 0 ? cells.among
                                                : by_row        ? losses.size(1)
                                                                : losses.numel()});
  const at::Tensor order = std::get<1>(rivals.sort(/*stable=*/true, -1, /*descending=*/false));
  at::Tensor next = at::zeros(rivals.sizes(), at::kBool);
  // Where there are several lists of rivals, what does not divide goes to the first of them.
  const int64_t each = count / rivals.size(0), more = count % rivals.size(0);
  next.scatter_(1, order.narrow(1, 0, each), true);
  if (more > 0) next.narrow(0, 0, more).scatter_(1, order.narrow(0, 0, more).narrow(1, each, 1), true);
  return next.reshape(losses.sizes());
}

at::Tensor over_tile_rows(const at::Tensor& losses, const ZeroCells& cells) {
  if (cells.rows == 1) return losses;
  return losses.narrow(0, 0, cells.row_tiles * cells.rows)
      .reshape({cells.row_tiles, cells.rows, losses.size(1)})
      .sum(1);
}

at::Tensor mask_of_tiles(const ZeroCells& cells, const at::Tensor& gone, int64_t outputs, int64_t columns) {
  at::Tensor mask = at::ones({outputs, columns}, at::kBool);
  if (gone.numel() == 0) return mask;
  const at::Tensor kept = gone.logical_not().repeat_interleave(cells.rows, 0).repeat_interleave(cells.width(), 1);
  mask.narrow(0, 0, kept.size(0)).index_copy_(1, cells.columns.flatten(), kept);
  return mask;
}

}  // namespace pare
