// Fusion from end to end: models, samples, alignment, repair, and what it did to accuracy.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pare/data/data_options.h"
#include "pare/fuse/fuse.h"
#include "pare/metrics/evaluate.h"

namespace pare {

struct FuseRun {
  FusionResult result;
  // With data: accuracy of each model, of each as it is aligned, of the average of their predictions and of the fused
  // model.
  std::vector<MetricList> models;
  std::vector<MetricList> aligned;
  MetricList ensemble;
  MetricList fused;
  double fuse_seconds = 0;
  int64_t samples = 0;  // of the training part, used by alignment and repair
  std::string split;    // of the data that accuracy was measured on
};

struct FuseRunOptions {
  FuseOptions fuse;
  DataChoice data;        // what accuracy is measured on, where given
  int64_t samples = 200;  // images of its training part that the method may see; 0: it stays data-free
};

FuseRun run_fuse(const std::vector<Graph>& models, const FuseRunOptions& options, Observer& observer = unobserved());

// One grey image per class and model, white where the plan has its largest entry: DIR/MODEL-CLASS-LAYER.png. Fixed
// classes and the reference are left out.
struct PlanImage {
  size_t model = 0;
  std::string name;  // of the class
  std::filesystem::path file;
};
std::vector<PlanImage> write_plans(const FusionResult& result, size_t reference,
                                   const std::filesystem::path& directory);

}  // namespace pare
