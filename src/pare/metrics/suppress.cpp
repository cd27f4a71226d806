#include <ATen/ATen.h>

#include <algorithm>

#include "pare/metrics/box_decoder.h"
#include "pare/metrics/rectangle.h"

namespace pare {

std::vector<int64_t> suppressed(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& classes,
                                double overlap, int64_t most) {
  constexpr size_t kCandidates = 3000;  // the best; a network that sees more has found nothing
  const at::Tensor corner = boxes.to(at::kFloat).contiguous(), label = classes.to(at::kLong).contiguous();
  const at::Tensor best = std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true)).contiguous();
  const auto box = [&](int64_t i) {
    const float* at = corner.data_ptr<float>() + 4 * i;
    return Rectangle{at[0], at[1], at[2], at[3]};
  };
  std::vector<int64_t> kept;
  const size_t candidates = std::min(static_cast<size_t>(best.numel()), kCandidates);
  for (size_t k = 0; k < candidates && static_cast<int64_t>(kept.size()) < most; ++k) {
    const int64_t i = best.data_ptr<int64_t>()[k];
    const bool hidden = std::ranges::any_of(kept, [&](int64_t better) {
      return label.data_ptr<int64_t>()[better] == label.data_ptr<int64_t>()[i] &&
             pare::overlap(box(better), box(i)) > overlap;
    });
    if (!hidden) kept.push_back(i);
  }
  return kept;
}

}  // namespace pare
