// Remove and retrain (ROAR, Hooker et al. 2019): which maps name the pixels that matter? The pixels of every training
// and test image are ranked by a model's map of its label (multi-label: of the classes present, each map scaled to the
// same maximum, the larger one at each pixel), the first t of them become the training images' mean colour, and a fresh
// classifier is trained on what is left. The worse it does, the better were the maps; a random ranking is the measure:
// of random maps as coarse as the models', because single pixels lost everywhere hurt another way than patches do.
// Each training is a run of its own, so that an interrupted comparison goes on where it was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pare/explain.h"
#include "pare/metrics/evaluate.h"
#include "pare/metrics/seed_mean.h"
#include "pare/workflow/maps.h"
#include "pare/workflow/train.h"

namespace pare {

struct PixelOrder {
  at::Tensor places;  // int32 [N, pixels]: the pixels of each image from the most relevant on, ties by place
  MapCounts counts;   // pixels of zero maps and of those with a NaN are all ties
};
PixelOrder pixel_order(const Graph& model, const Dataset& data, const AttributionOptions& options);
// Of random maps of height · width values, made as large as the images like any map.
at::Tensor random_pixel_order(const Dataset& data, int64_t height, int64_t width, uint64_t seed);

struct RoarOptions {
  AttributionOptions attribution;
  std::string random = "maps";                             // as coarse as the models', or "pixels"
  std::string fill = "mean";                               // of removed pixels, as PixelFill has it
  std::vector<double> levels = {0.1, 0.3, 0.5, 0.7, 0.9};  // parts removed
  int64_t seeds = 1;                                       // classifiers trained for each point
  TrainingOptions training;

  void describe(OptionVisitor& options);
  void check() const;  // Error{usage}
};

struct RoarData {
  const Dataset& train;
  const Dataset& test;
  std::function<Graph(uint64_t seed)> classifier;  // freshly initialised
};

using RoarPoint = std::vector<MetricList>;  // of its classifiers, one a seed
SeedMean mean_of(const RoarPoint& point, const std::string& metric);
MetricList means_of(const RoarPoint& point);

struct RoarCurve {
  std::string name;               // of the model, or "random"
  std::vector<RoarPoint> points;  // one a level
  MapCounts counts;               // of the maps of training and test images; none of random ones
  std::vector<SeedMean> figures(const std::string& metric) const;
  std::vector<double> means(const std::string& metric) const;
};

struct RoarResult {
  std::string metric;  // that counts: roar_metric()
  RoarPoint whole;     // with nothing removed
  std::vector<RoarCurve> curves;
};

std::string roar_metric(const Dataset& data);  // f1 where an image has several labels, else top1

// The order of the pixels of all images.
struct PixelRanking {
  std::string estimator;  // all that made it: a part of the definition of the runs
  at::Tensor train, test;
  MapCounts counts = {};
};
PixelRanking ranking_by(const Graph& model, const RoarData& data, const RoarOptions& options);
PixelRanking random_ranking(const Graph& like, const RoarData& data, const RoarOptions& options);

// The classifiers of the images as they are, and those of one curve: by one ranking for all of them or, so that means
// are over the rankings too, by one for each seed. Error{usage} for any other number.
RoarPoint roar_whole(const RoarData& data, const RoarOptions& options, const Trainer& trainer);
RoarCurve roar_curve(const std::string& name, const std::vector<PixelRanking>& rankings, const RoarData& data,
                     const RoarOptions& options, const Trainer& trainer);

// Curves of the models, at least one, then the random one. Every model is tried on an image before anything is trained.
RoarResult roar(const std::vector<std::pair<std::string, Graph>>& models, const RoarData& data,
                const RoarOptions& options, const Trainer& trainer);

// Mean distance of two curves, level by level.
double curve_distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace pare
