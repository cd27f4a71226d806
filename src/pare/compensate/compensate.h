// The compensations by name. A method finds a Merge for each group (compensate/merge.h) or for each reader of one
// (compensate/readers.h), or fuses the dense graph into the pruned one (fuse/compensate_by_transport.h), or solves the
// layers again on samples (layerwise/refit.h). One file each; the list is in compensate.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/compensate/gaussian.h"
#include "pare/compensate/merge.h"
#include "pare/compensate/most_sim.h"
#include "pare/compensate/nmf.h"
#include "pare/compensate/nnls.h"
#include "pare/graph.h"
#include "pare/layerwise/refit.h"
#include "pare/observer.h"

namespace pare {

// Where the images that a method needs come from.
enum class ImageSource { none, made, data };

struct CompensateOptions {
  MostSimOptions most_sim;
  NnlsOptions nnls;
  NmfOptions nmf;
  GaussianOptions gaussian;
  RefitOptions refit;
};

struct Compensation {
  std::string_view name;
  ImageSource images = ImageSource::none;
  Merge (*merge)(const MergeProblem&, const CompensateOptions&) = nullptr;
  bool by_reader = false;  // a merge for each reader of a group (compensate/readers.h), not one for all
  // After merging: what else changes in the pruned graph. `dense` has exact copies folded.
  Graph (*finish)(const Graph& dense, const Graph& pruned, const ChannelMap& map,
                  const std::set<ChannelId>& removed) = nullptr;
  // Channels are those of analyze_channels(dense). With neither a merge nor this a method solves.
  Graph (*fuse)(const Graph& dense, const std::set<ChannelId>& removed) = nullptr;
};

const std::vector<Compensation>& compensations();
// Error{usage} for an unknown name.
const Compensation& find_compensation(const std::string& name);

struct Compensated {
  Graph graph;
  std::set<ChannelId> removed;
  std::map<size_t, std::string> groups;  // what was done for a group, by its index
  std::vector<std::string> notes;
  int64_t judges = 0;  // samples of all ranks that judged
};

// The graph without the channels that `cuts` take, compensated. A method that solves needs samples, and a graph with
// places for offsets (layerwise/offset_places.h). Where there are `judges`, no group is compensated for which the
// answer on them comes no nearer to the original's than with plain removal (compensate/judge.h); notes say which.
Compensated compensate(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts,
                       const Compensation& method, const CompensateOptions& options, const Samples& samples,
                       Observer& observer, const Samples& judges = {});

}  // namespace pare
