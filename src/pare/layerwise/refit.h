// Sequential reconstruction: every layer of the compressed network that lost inputs is solved again, one after another,
// so that it gives what it gave in the original.
//
// At a layer with rows h in the network as compressed so far and targets t,
//   W minimises  Σ ‖W h + b − t‖² / n + λ ‖W − W₀‖²      λ = ρ · mean variance of h,   W₀ the weights that are there
// with t what the layer gives in the original; where an addition with a shortcut z follows (a batch norm between them
// or not), what the shortcut lost is asked of the layer too: t + (z − z')·σ/γ. A layer that reads the average over all
// places of a value is solved on the places themselves, of which there are many more.
// Moments need memory for one (channels·kernel)² matrix; a layer with more unknowns than `largest` is left as it is,
// and the report says so. Batch norms that see something else than before but follow no solved layer get running
// statistics with which their output has the mean and variance it had.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/core/graph.h"
#include "pare/dist/process_group.h"
#include "pare/layerwise/side_by_side.h"

namespace pare {

struct RefitOptions {
  double ridge = 1e-2;             // ρ
  double own_ridge = 0;            // ρ of layers that lost no channel but read something else; 0: those stay
  int64_t places = 196;            // of an image that are looked at, at the most
  int64_t largest = 4608;          // unknowns of an output up to which a layer is solved
  bool shortcut = true;            // ask what a shortcut lost of the layer beside it
  bool norms = true;               // move the statistics of batch norms that follow no solved layer
  uint64_t seed = 0;               // of the places
  SideBySideOptions side_by_side;  // pieces and memory
  ProcessGroup* ranks = &alone();  // each has its own part of the samples
  std::function<void(int64_t done, int64_t all)> progress;
};

struct RefitReport {
  std::vector<std::string> solved;  // layers
  std::vector<std::string> left;    // those that lost channels and could not be solved, with the reason
};

// `compressed` is `original` without the channels `removed` of `map`.
Graph refit(const Graph& original, const Graph& compressed, const ChannelMap& map, const std::set<ChannelId>& removed,
            const Samples& samples, const RefitOptions& options, RefitReport& report);

}  // namespace pare
