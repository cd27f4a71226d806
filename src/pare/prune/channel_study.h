// What is learned of a network's channels from samples, once, for any budget: which of each group would go first, and
// what the network's answer loses at every width of the group.
//
// Samples are divided: most are solved on, the others judge (layerwise/sensitivity.h). Where the statistics of all
// layers would take too much memory, some groups are studied after others; what is learned is the same.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/layerwise/group_elimination.h"
#include "pare/layerwise/moments_memory.h"
#include "pare/layerwise/sensitivity.h"
#include "pare/observer.h"
#include "pare/prune/candidates.h"
#include "pare/samples/samples.h"

namespace pare {

struct StudyOptions {
  double held_out = 0.3;              // the part of the samples that judges
  int64_t most_held = 75;             // at most so many
  double ridge = 1e-2;                // of elimination and of what is solved for the judgement
  bool sensitivity = true;            // also what each width costs; else only the order
  int64_t memory = moments_memory();  // bytes of the statistics that are held at once
  uint64_t seed = 0;
};

struct ChannelStudy {
  std::vector<GroupElimination> eliminations;  // of the groups that may be cut, in their order
  std::vector<GroupSensitivity> sensitivity;   // beside them; empty unless asked for
  std::map<size_t, at::Tensor> fisher;         // roots (layerwise/fisher.h) of the layers that read channels

  const GroupElimination* find(size_t group) const;
};

// Groups that can't be ordered get a reason in `groups`.
ChannelStudy study_channels(const Graph& graph, const ChannelMap& map, std::vector<Candidate>& groups,
                            const Samples& samples, const StudyOptions& options, Observer& observer);

}  // namespace pare
