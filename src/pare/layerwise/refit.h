// Sequential reconstruction: every layer that loses inputs is solved again, one after another, so that it gives what it
// gave in the original.
//
// At a layer with rows h in the network as compressed so far and targets t,
//   W minimises  Σ ‖W h + b − t‖² / n + λ ‖W − W₀‖²      (layerwise/solve_layer.h; W₀ the weights that are there)
// over weights that are zero at the channels that go; t is what the layer gives in the original, and where an addition
// with a shortcut z follows (a batch norm between them or not), what the shortcut lost is asked of the layer too:
// t + (z − z')·σ/γ. A layer that reads the average over all places of a value is solved on the places themselves, of
// which there are many more. A group whose readers do not depend on each other is cut at the first of them: elimination
// (layerwise/eliminate.h) on the moments of what the compressed network really gives them.
//
// The network keeps its shape on the way, with zeros where channels go; they are removed at the end. Moments need
// memory for two (channels·kernel)² matrices of each layer that is read at once; a layer whose moments would take more
// than `moments` only gets the zeros, and the report says so. Batch norms that see something other than before but
// follow no solved layer get running statistics with which their output has the mean and variance it had.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"
#include "pare/layerwise/layer_reader.h"
#include "pare/layerwise/moments_memory.h"
#include "pare/layerwise/side_by_side.h"
#include "pare/layerwise/solve_layer.h"
#include "pare/observer.h"

namespace pare {

// So many channels of a group go: the first of `order`, or the best found on the way.
struct GroupCut {
  size_t group = 0;              // index into ChannelMap::groups
  std::vector<ChannelId> order;  // at least `count` of them
  int64_t count = 0;
  bool choose = false;  // those that elimination finds where the group is read
};

// One for each group that has any of these channels.
std::vector<GroupCut> cuts_of(const ChannelMap& map, const std::set<ChannelId>& removed);

struct RefitOptions {
  SolveOptions solve;
  double own_ridge = 0.1;  // smallest ρ of layers that lost no channel but read something else; 0: those stay
  // Largest ρ of layers that lost channels and that an activation follows, where there are ten rows and more for an
  // unknown. What a ridge keeps from a layer is missing everywhere, what the noise of few samples adds differs from
  // place to place and is averaged out on the way: the network wants less of a ridge than the layer's own error on
  // other samples does.
  double activated_ridge = 1e-2;
  int64_t moments = moments_memory();  // bytes, of layers that are read at once
  LayerReaderOptions read;             // the ridge is chosen on the samples that it keeps apart
  bool norms = true;                   // move the statistics of batch norms that follow no solved layer
  SideBySideOptions side_by_side;      // pieces and memory
  // Weighs the outputs of layers where elimination chooses (layerwise/fisher.h).
  std::map<size_t, at::Tensor> fisher;
};

struct Refitted {
  Graph graph;
  std::set<ChannelId> removed;
  std::vector<std::string> solved;  // layers
  std::vector<std::string> left;    // those that lost channels and could not be solved, with the reason
};

// `graph` has places for offsets (layerwise/offset_places.h); `map` is of it.
Refitted refit(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts, const Samples& samples,
               const RefitOptions& options, Observer& observer);

}  // namespace pare
