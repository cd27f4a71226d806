#include "pare/workflow/maps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "pare/data/loader.h"
#include "pare/metrics/evaluate.h"
#include "pare/metrics/localization.h"

namespace pare {

Attributor tried_attributor(const std::string& name, const Graph& model, const Dataset& data,
                            const AttributionOptions& options) {
  return of_model(name, [&] {
    check_images(model, data);
    Attributor attributor(model, options);
    if (data.size() == 0) return attributor;
    const int64_t scores = attributor.explain(make_batch(data, 0, 1).images).scores.size(1);
    check_score_count(model.outputs.at(0).name, scores, data);
    return attributor;
  });
}

void MapCounts::add(const at::Tensor& map) {
  ++maps;
  if (map.isnan().any().item<bool>())
    ++nan;
  else
    zero += !map.ne(0).any().item<bool>();
}

void MapCounts::merge(const MapCounts& other) {
  maps += other.maps;
  zero += other.zero;
  nan += other.nan;
}

std::vector<MapSimilarity> map_similarity(const at::Tensor& a, const at::Tensor& b, int64_t height, int64_t width) {
  const at::NoGradGuard no_grad;
  const bool alike = a.sizes() == b.sizes();
  const at::Tensor x = alike ? a : resize_maps(a, height, width), y = alike ? b : resize_maps(b, height, width);
  std::vector<MapSimilarity> pairs;
  for (int64_t p = 0; p < x.size(0); ++p) pairs.push_back({map_cosine(x[p], y[p]), map_rank_correlation(x[p], y[p])});
  return pairs;
}

}  // namespace pare
