#include "pare/layerwise/column_sweep.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace pare {

at::Tensor inverse_of(const at::Tensor& H) { return at::cholesky_inverse(at::linalg_cholesky(H)); }

at::Tensor inverse_factor(const at::Tensor& H) {
  const at::Tensor P = inverse_of(H);
  return at::linalg_cholesky((P + P.t()) / 2).t().contiguous();
}

at::Tensor swept(const at::Tensor& W, const at::Tensor& U, int64_t block, const ColumnSweep& sweep) {
  at::Tensor moving = W.clone(), fixed = at::empty_like(moving);
  for (int64_t begin = 0; begin < W.size(1); begin += block) {
    const int64_t n = std::min(block, W.size(1) - begin), rest = W.size(1) - begin - n;
    at::Tensor own = moving.narrow(1, begin, n).contiguous(), errors = at::empty_like(own);
    const at::Tensor factor = U.narrow(0, begin, n).narrow(1, begin, n);
    if (sweep.enter) sweep.enter(begin, own);
    for (int64_t i = 0; i < n; ++i) {
      const at::Tensor w = own.select(1, i), q = sweep.fix(begin + i, w);
      fixed.select(1, begin + i).copy_(q);
      const at::Tensor error = (w - q) / factor[i][i];
      errors.select(1, i).copy_(error);
      own.narrow(1, i, n - i).addr_(error, factor[i].narrow(0, i, n - i), 1, -1);
    }
    // Columns after the block are moved by all of it at once.
    if (rest > 0)
      moving.narrow(1, begin + n, rest).addmm_(errors, U.narrow(0, begin, n).narrow(1, begin + n, rest), 1, -1);
  }
  return fixed;
}

}  // namespace pare
