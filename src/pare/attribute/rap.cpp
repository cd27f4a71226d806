#include "pare/attribute/rap.h"

#include <ATen/ATen.h>

#include "pare/attribute/lrp.h"

namespace pare {

namespace {

at::Tensor ratio(const at::Tensor& a, const at::Tensor& b) { return (a / b).masked_fill(b.eq(0), 0); }

// Sums over everything but the batch, in a shape that broadcasts back.
at::Tensor total(const at::Tensor& t) {
  std::vector<int64_t> dims(static_cast<size_t>(t.dim()), 1);
  dims[0] = -1;
  return t.flatten(1).sum(1).reshape(dims);
}

at::Tensor in_proportion_to_sizes(const LinearStep& l, const at::Tensor& R) {
  return share(l, {{l.x.abs(), l.weight.abs()}}, R);
}

at::Tensor rap_inner(const LinearStep& l, const at::Tensor& R) {
  const at::Tensor xp = l.x.clamp_min(0), xn = (-l.x).clamp_min(0);
  const at::Tensor wp = l.weight.clamp_min(0), wn = (-l.weight).clamp_min(0);
  std::vector<Operand> raising = {{xp, wp}}, lowering = {{xp, wn}};
  if (xn.gt(0).any().item<bool>()) {
    raising.push_back({xn, wn});
    lowering.push_back({xn, wp});
  }
  const auto apply = [&](const std::vector<Operand>& operands) {
    std::vector<Applied> applied;
    applied.reserve(operands.size());
    for (const auto& operand : operands) applied.emplace_back(l, operand.x, operand.weight);
    return applied;
  };
  const auto up = apply(raising), down = apply(lowering);
  at::Tensor Zp = up[0].z(), Zn = down[0].z();
  for (size_t t = 1; t < up.size(); ++t) Zp = Zp + up[t].z(), Zn = Zn + down[t].z();
  const at::Tensor Rp = R.clamp_min(0), Rn = R.clamp_max(0);
  const at::Tensor sp = ratio(Rp, Zp), sn = ratio(Rn, Zn) + ratio(R, Zp + Zn);
  at::Tensor C = at::zeros_like(l.x);
  for (size_t t = 0; t < up.size(); ++t)
    C = C + raising[t].x * up[t].transposed(sp) + lowering[t].x * down[t].transposed(sn);
  const at::Tensor there = C.ne(0).to(C.scalar_type());
  return C - there * ratio(total(C) - total(R), total(there));
}

}  // namespace

LinearRule rap_rule() {
  return [](const LinearStep& l, const at::Tensor& R) {
    if (l.kind == LinearKind::shift) return R.unsqueeze(0);
    if (!l.layer() || l.head) return in_proportion_to_sizes(l, R);
    if (l.first) {
      const Bounds image = bounds_of_images(l.x);
      return box_shares(l, R, image.low, image.high);
    }
    return rap_inner(l, R);
  };
}

}  // namespace pare
