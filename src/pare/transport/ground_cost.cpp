#include "pare/transport/ground_cost.h"

#include <ATen/ATen.h>

#include "pare/error.h"

namespace pare {

namespace {

// |x_i|² + |y_j|² − 2⟨x_i, y_j⟩ keeps less than three digits of its own below this fraction of |x_i|² + |y_j|².
constexpr double kCancellation = 1e-3;

template <typename Scalar>
void refine_close_pairs(at::Tensor& squared, const at::Tensor& scale, const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor close = (squared < kCancellation * scale).nonzero().contiguous();
  const int64_t* pair = close.data_ptr<int64_t>();
  const int64_t d = x.size(1);
  auto* out = squared.data_ptr<double>();
  for (int64_t k = 0; k < close.size(0); ++k) {
    const Scalar* p = x.data_ptr<Scalar>() + pair[2 * k] * d;
    const Scalar* q = y.data_ptr<Scalar>() + pair[2 * k + 1] * d;
    double sum = 0;
    for (int64_t i = 0; i < d; ++i) {
      const double difference = static_cast<double>(p[i]) - static_cast<double>(q[i]);
      sum += difference * difference;
    }
    out[pair[2 * k] * y.size(0) + pair[2 * k + 1]] = sum;
  }
}

at::Tensor squared_distances(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor xx = x.to(at::kDouble).square().sum(1).unsqueeze(1);
  const at::Tensor yy = y.to(at::kDouble).square().sum(1).unsqueeze(0);
  const at::Tensor scale = xx + yy;
  at::Tensor squared = (scale - 2 * at::mm(x, y.t()).to(at::kDouble)).contiguous();
  if (x.scalar_type() == at::kFloat)
    refine_close_pairs<float>(squared, scale, x, y);
  else
    refine_close_pairs<double>(squared, scale, x, y);
  return squared.clamp_min(0);
}

}  // namespace

at::Tensor unit_rows(const at::Tensor& x) {
  const at::Tensor norm = x.norm(2, 1, /*keepdim=*/true);
  return x / at::where(norm > 0, norm, at::ones_like(norm));
}

at::Tensor ground_cost(const at::Tensor& x, const at::Tensor& y, GroundCost kind) {
  if (x.dim() != 2 || y.dim() != 2 || x.size(1) != y.size(1))
    throw Error(ErrorKind::shape, "ground_cost", "points of {} against points of {}", fmt::join(x.sizes(), "x"),
                fmt::join(y.sizes(), "x"));
  const auto dtype = x.scalar_type() == at::kFloat && y.scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  at::Tensor p = x.to(dtype).contiguous();
  at::Tensor q = y.to(dtype).contiguous();
  if (kind != GroundCost::cosine) {
    const at::Tensor squared = squared_distances(p, q);
    return kind == GroundCost::squared ? squared : squared.sqrt();
  }
  // For unit vectors 1 − cos = |p − q|²/2, which keeps its digits where they are close.
  const at::Tensor zero = at::logical_or((p.norm(2, 1) == 0).unsqueeze(1), (q.norm(2, 1) == 0).unsqueeze(0));
  const at::Tensor half = squared_distances(unit_rows(p), unit_rows(q)) / 2;
  return at::where(zero, at::ones_like(half), half);
}

}  // namespace pare
