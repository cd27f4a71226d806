#include "pare/ops/indices.h"

#include <ATen/ATen.h>

namespace pare {

at::Tensor checked_indices(const at::Tensor& indices, int64_t extent, const Node& node) {
  if (indices.is_floating_point() || indices.scalar_type() == at::kBool)
    throw Error(ErrorKind::format, describe(node), "takes indices that are not integers");
  at::Tensor list = indices.to(at::kLong);
  if (list.numel() == 0) return list;
  const int64_t low = list.min().item<int64_t>();
  const int64_t high = list.max().item<int64_t>();
  if (low < -extent || high >= extent)
    throw Error(ErrorKind::format, describe(node), "index {} is outside an axis of {} entries",
                low < -extent ? low : high, extent);
  return low < 0 ? at::where(list < 0, list + extent, list) : list;
}

at::Tensor flat_positions(const at::Tensor& tuples, at::IntArrayRef dims, int64_t first, const Node& node) {
  at::Tensor position = at::zeros(tuples.sizes().slice(0, tuples.sizes().size() - 1), at::kLong);
  for (int64_t k = 0; k < tuples.size(-1); ++k) {
    const int64_t extent = dims[static_cast<size_t>(first + k)];
    position = position * extent + checked_indices(tuples.select(-1, k), extent, node);
  }
  return position;
}

}  // namespace pare
