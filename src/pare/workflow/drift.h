// Attribution drift: does a compressed model still look where the original looks? How alike their Grad-CAM maps are, of
// the original's top class of each image.
#pragma once

#include <cstdint>
#include <string>

#include "pare/data/dataset.h"
#include "pare/graph.h"
#include "pare/metrics/localization.h"
#include "pare/workflow/maps.h"

namespace pare {

struct AttributionDrift {
  DefinedMean cosine, rank_correlation;  // 1: nothing has changed; undefined where both maps are all zero
  MapCounts counts;                      // of the compressed model's maps
  std::string layer;                     // of the original, its last spatial activation
};

// Error{shape} when the model has no layer with a spatial extent.
void check_drift(const Graph& model);

// Maps of different size are compared at the images' size.
AttributionDrift attribution_drift(const Graph& original, const Graph& compressed, const Dataset& data);

}  // namespace pare
