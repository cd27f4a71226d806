#include "pare/fuse/align_to_barycentre.h"

#include <ATen/ATen.h>

#include "pare/transport/barycentre.h"

namespace pare {

std::vector<Alignment> align_to_barycentre(const AlignmentTask& task, const TransportFusionOptions& options) {
  const std::vector<Network>& networks = task.networks;
  const Network& reference = task.target();
  std::vector<Alignment> result(networks.size());
  for (size_t k = 0; k < networks.size(); ++k) result[k].maps.resize(networks[k].classes.size());
  const at::Tensor weights = at::tensor(task.shares, at::kDouble);
  for (size_t l = 0; l < reference.classes.size(); ++l) {
    task.observer.step("aligning", static_cast<int64_t>(l), static_cast<int64_t>(reference.classes.size()));
    std::vector<at::Tensor> measures;
    if (!reference.classes[l].fixed) {
      at::Tensor start;
      for (size_t k = 0; k < networks.size(); ++k) {
        const PointPair points = weight_points(networks[k], reference, l, result[k].maps, PointSides::incoming);
        measures.push_back(options.unit_rows ? unit_rows(points.source) : points.source);
        start = options.unit_rows ? unit_rows(points.target) : points.target;
      }
      const FreeSupportBarycentre found = free_support_barycentre(measures, weights, start, {.max_iterations = 50});
      for (size_t k = 0; k < networks.size(); ++k) {
        const at::Tensor D = ground_cost(measures[k].to(at::kDouble), found.points);
        result[k].maps[l] = make_map(found.plans[k], options.scaling);
        result[k].classes.push_back({.name = reference.classes[l].name,
                                     .source = networks[k].classes[l].size,
                                     .target = reference.classes[l].size,
                                     .cost = (found.plans[k] * D).sum().item<double>(),
                                     .split = mass_split(found.plans[k]),
                                     .converged = found.converged});
      }
      continue;
    }
    for (size_t k = 0; k < networks.size(); ++k) {
      const int64_t size = reference.classes[l].size;
      result[k].maps[l] = identity_map(size);
      result[k].classes.push_back({.name = reference.classes[l].name,
                                   .source = size,
                                   .target = size,
                                   .fixed = true,
                                   .reason = reference.classes[l].reason});
    }
  }
  return result;
}

}  // namespace pare
