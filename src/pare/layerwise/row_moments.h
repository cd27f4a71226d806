// Moments of rows x and of targets y beside them: all that least squares needs of its data.
//
// Each part is centred by its own mean before it is multiplied, and parts are joined by Chan's formula in double, so
// that nothing is lost where a mean is far larger than the deviation, and in whatever pieces the rows come:
//   S = S₁ + S₂ + n₁n₂/(n₁ + n₂) (m₁ − m₂)(m₁ − m₂)ᵀ
// Values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "pare/dist/process_group.h"

namespace pare {

struct RowMoments {
  int64_t count = 0;
  at::Tensor mean_x, mean_y;  // double [d], [q]
  at::Tensor xx, xy;          // double [d, d], [d, q]: sums of products about the means

  at::Tensor covariance_xx() const { return xx / static_cast<double>(count); }
  at::Tensor covariance_xy() const { return xy / static_cast<double>(count); }
};

// Of rows x [n, d] and y [n, q] of any floating type; without y only those of x.
RowMoments row_moments(const at::Tensor& x, const at::Tensor& y = {});
// Of no rows.
RowMoments no_rows(int64_t x_columns, int64_t y_columns);
RowMoments joined(const RowMoments& a, const RowMoments& b);

// Rows on their way into a sum: as they are where there are fewer of them than columns, as moments would be larger.
struct RowPart {
  at::Tensor x, y;
  RowMoments moments;  // of the rows, where x is not there
};
RowPart row_part(const at::Tensor& x, const at::Tensor& y = {});
// The sum becomes that of its rows and of these, in its own memory; where it has none yet, that of the part.
void add(RowMoments& sum, RowPart part);

// The moments of the rows of all ranks; each calls it.
RowMoments over_ranks(const RowMoments& own, ProcessGroup& ranks);

}  // namespace pare
