#include "pare/workflow/drift.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "pare/attribute/attributor.h"
#include "pare/attribute/explained.h"
#include "pare/core/error.h"
#include "pare/data/loader.h"
#include "pare/workflow/evaluate.h"

namespace pare {

void check_drift(const Graph& original) {
  try {
    last_spatial_activation(explained_graph(original));
  } catch (const Error& error) {
    throw Error(error.kind(), "--attribution-drift", "{}: {}", error.where(), error.message());
  }
}

AttributionDrift attribution_drift(const Graph& original, const Graph& compressed, const Dataset& data) {
  constexpr int64_t kAtOnce = 32;
  check_drift(original);
  check_images(original, data);
  const Attributor before(original, {}), after(compressed, {});
  AttributionDrift drift{.layer = before.layer()};
  for (int64_t begin = 0; begin < data.size(); begin += kAtOnce) {
    const at::Tensor images = make_batch(data, begin, std::min(begin + kAtOnce, data.size())).images;
    const Attribution theirs = before.explain(images);
    const at::Tensor a = theirs.maps, b = after.explain(images, {}, theirs.classes).maps;
    const at::NoGradGuard no_grad;
    const int64_t height = std::max(a.size(1), b.size(1)), width = std::max(a.size(2), b.size(2));
    const at::Tensor old_maps = resize_maps(a, height, width), new_maps = resize_maps(b, height, width);
    for (int64_t n = 0; n < old_maps.size(0); ++n) {
      drift.cosine.add(map_cosine(old_maps[n], new_maps[n]));
      drift.rank_correlation.add(map_rank_correlation(old_maps[n], new_maps[n]));
      drift.zero_maps += !new_maps[n].ne(0).any().item<bool>();
    }
  }
  return drift;
}

}  // namespace pare
