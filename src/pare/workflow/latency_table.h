// What a network would take without some of its channels, from what its layers take at several widths.
//
// The layers (each with the activation after it) are timed at a few common widths of all groups: where they stand, if
// the runtime has a profile, else each by itself. Between them a layer's time goes linearly with its
// multiply-accumulates. The sum is scaled to what the whole network takes, and what is in no layer stays as it is.
#pragma once

#include <set>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/observer.h"
#include "pare/prune/candidates.h"
#include "pare/prune/pruned_cost.h"
#include "pare/workflow/latency.h"

namespace pare {

// Time against the part of a layer's multiply-accumulates that is left, both rising.
struct LatencyCurve {
  std::vector<double> left;
  std::vector<double> seconds;

  double at(double part) const;
};

// Rising seconds over rising parts: a time longer than that of a wider layer is taken for noise.
LatencyCurve latency_curve(std::vector<std::pair<double, double>> points);

class LatencyTable {
 public:
  // Refers to the map. `groups` are those that may be cut.
  LatencyTable(const Graph& graph, const ChannelMap& map, const std::vector<Candidate>& groups,
               const LatencyMeter& meter, Observer& observer);

  double whole() const { return whole_; }  // measured
  double operator()(const std::set<ChannelId>& removed) const;

 private:
  PrunedCost macs_;
  std::map<size_t, LatencyCurve> layers_;  // by node
  double whole_ = 0;
  double scale_ = 1;  // of the layers' times
};

// A node by itself, and the activation that alone reads it; `shapes` are the graph's.
Graph layer_alone(const Graph& graph, const Shapes& shapes, size_t node);

}  // namespace pare
