#include "pare/workflow/drift.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/attribute/explained.h"
#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/explain.h"
#include "pare/metrics/evaluate.h"

namespace pare {

void check_drift(const Graph& model) {
  try {
    last_spatial_activation(explained_graph(model));
  } catch (const Error& error) {
    throw Error(error.kind(), OptionName{"attribution-drift"}, "{}: {}", error.where(), error.message());
  }
}

AttributionDrift attribution_drift(const Graph& original, const Graph& compressed, const Dataset& data) {
  constexpr int64_t kAtOnce = 32;
  check_drift(original);
  check_drift(compressed);
  check_images(original, data);
  const Attributor before(original, {}), after(compressed, {});
  AttributionDrift drift{.layer = before.layer()};
  for (int64_t begin = 0; begin < data.size(); begin += kAtOnce) {
    const at::Tensor images = make_batch(data, begin, std::min(begin + kAtOnce, data.size())).images;
    const Attribution theirs = before.explain(images);
    const at::Tensor a = theirs.maps, b = after.explain(images, {}, theirs.classes).maps;
    for (const MapSimilarity& pair : map_similarity(a, b, data.height(), data.width())) {
      drift.cosine.add(pair.cosine);
      drift.rank_correlation.add(pair.rank_correlation);
    }
    for (int64_t n = 0; n < b.size(0); ++n) drift.counts.add(b[n]);
  }
  return drift;
}

}  // namespace pare
