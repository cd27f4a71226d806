// What the network's output loses when one group alone is cut: measured, because errors of different depths can't be
// compared.
//
// Each group is cut by elimination to a few widths, its readers are solved again, and the divergence of the network's
// answer from the original's is measured on samples that were not solved on. Answers are softened by a temperature:
// a network is so sure of pictures it was trained on that few of them would decide. Between the measured widths log
// divergence goes linearly with log elimination error; above the widest of them in proportion to it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/layerwise/group_elimination.h"
#include "pare/layerwise/statistics.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct SensitivityOptions {
  std::vector<double> kept = {0.8, 0.6, 0.35, 0};  // fractions of a group's width that are measured; one channel stays
  double ridge = 1e-2;
  double temperature = 4;
};

struct SensitivityPoint {
  int64_t removed = 0;
  double divergence = 0;
};

struct GroupSensitivity {
  size_t group = 0;
  std::vector<SensitivityPoint> measured;  // fewest removed first
  std::vector<double> divergence;          // without the first i channels of the elimination's order, i = 0 …
};

std::vector<GroupSensitivity> measure_sensitivity(const Graph& graph, const ChannelMap& map,
                                                  const std::vector<GroupElimination>& groups,
                                                  const std::map<size_t, ReaderStatistics>& statistics,
                                                  const Samples& held_out, const SensitivityOptions& options,
                                                  Observer& observer);

// The divergence at every number of removed channels, from the elimination's errors and the measured points.
std::vector<double> interpolated(const std::vector<double>& error, const std::vector<SensitivityPoint>& measured);

// How far answers z' are from z, summed over images: T² KL(z/T ‖ z'/T) of class scores [N, K]; of other outputs the
// squared distance relative to the square of z.
double divergence(const at::Tensor& z, const at::Tensor& other, double temperature = 1);

}  // namespace pare
