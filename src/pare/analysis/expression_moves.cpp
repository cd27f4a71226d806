#include "pare/analysis/expression_moves.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "pare/ops/labels.h"

namespace pare {

namespace {

at::Tensor counted(const Shape& shape) {
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  return at::arange(count, at::kLong).reshape(shape);
}

bool in_order(const int64_t* from, int64_t count, int64_t all) {
  for (int64_t i = 0; i < count; ++i)
    if (from[i] != i) return false;
  return count == all;
}

MovedPlaces placed(const at::Tensor& places, const at::Tensor& positions, const Shape& inside, Patterns& patterns) {
  MovedPlaces result{.places = compress_ids(places).contiguous(), .patterns = {}};
  std::vector<int64_t> axes;  // along which places vary, then the others
  for (const bool varying : {true, false})
    for (int64_t a = 0; a < places.dim(); ++a)
      if ((result.places.size(a) > 1) == varying) axes.push_back(a);
  const at::Tensor rows = positions.permute(axes).reshape({result.places.numel(), -1}).contiguous();
  const int64_t all = std::accumulate(inside.begin(), inside.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const int64_t* row = rows.data_ptr<int64_t>() + i * rows.size(1);
    if (in_order(row, rows.size(1), all)) {
      result.patterns.push_back(-1);
      continue;
    }
    std::vector<int64_t> key(row, row + rows.size(1));
    key.insert(key.end(), inside.begin(), inside.end());
    result.patterns.push_back(patterns.intern(key));
  }
  return result;
}

}  // namespace

bool moves_data(const Node& node) {
  const OpKind kind = kind_of(node);
  return moves_elements(kind) && kind != OpKind::join && kind != OpKind::padding;
}

std::vector<MovedPlaces> move_places(const Node& node, std::vector<at::Tensor> others, const at::Tensor& ids,
                                     const Shape& dims, Patterns& patterns) {
  Shape inside = dims;
  for (size_t a = 0; a < dims.size(); ++a)
    if (ids.size(static_cast<int64_t>(a)) > 1) inside[a] = 1;
  const OpDef& op = require_op(node);
  const auto executed = [&](const at::Tensor& codes) {
    others[0] = codes.expand(dims);
    return op.evaluate({.node = node, .inputs = others});
  };
  const auto places = executed(counted(ids.sizes().vec()));
  const auto positions = executed(counted(inside));
  std::vector<MovedPlaces> result;
  for (size_t i = 0; i < places.size(); ++i) result.push_back(placed(places[i], positions[i], inside, patterns));
  return result;
}

}  // namespace pare
