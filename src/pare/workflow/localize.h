// How well models' attribution maps find the objects of a data set with masks, and how alike the maps are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pare/data/dataset.h"
#include "pare/explain.h"
#include "pare/graph.h"
#include "pare/metrics/localization.h"
#include "pare/metrics/multilabel.h"

namespace pare {

struct LocalizeOptions {
  AttributionOptions attribution;
  double tolerance = 0;            // of the pointing game, in pixels
  double threshold = 0.5;          // F1: a class is predicted where its logit is at least this
  int64_t batch = 32;              // images a thread explains at once
  std::vector<std::string> names;  // of the models, for errors; empty: as the graphs are called
  std::function<void(int64_t done, int64_t all)> progress;
};

// Pairs are (image, class) with at least one mask pixel of the class; void counts as background. Maps are enlarged
// bilinearly to the image before they are measured.
struct Localization {
  MultiLabelMetrics classification;
  LocalizationMetrics predicted;  // classes present and predicted (logit > 0), as published
  LocalizationMetrics present;    // all classes present
  LocalizationMetrics shared;     // classes present and predicted by the first model: the same pairs for every one
  DefinedMean cosine, rank_correlation;  // to the first model's map of the pair, over all classes present
  DefinedMean conservation_error;        // ebp, lrp, rap, ig
  std::string layer;                     // that maps are taken at
};

struct LocalizeResult {
  std::vector<Localization> models;
  int64_t samples = 0;
  int64_t pairs = 0;
  double seconds = 0;
};

// Error{usage} when the data has no masks or is not multi-label; every model is tried on an image first.
LocalizeResult localize(const std::vector<Graph>& models, const Dataset& data, const LocalizeOptions& options = {});

}  // namespace pare
