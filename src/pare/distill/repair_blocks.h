// Repair block by block: between two values that everything passes through and that were not cut, a network that was
// cut learns to make of what it is given there by now what the original makes of what the original is given (Li et al.,
// BRECQ, ICLR 2021, has this for rounding).
//
//   min over the weights of a block   Σ over samples ‖f'(x') − f(x)‖² / Σ ‖f(x)‖²
//
// x and x' are what reaches the block in the original and in the network as repaired so far. Blocks follow each other
// from the input on, so each also makes up for what those before it lost; nothing outside a block runs while it learns,
// so that a step costs little. A block stays as it was unless samples that it did not learn from say that it is better.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct BlockRepairOptions {
  double minutes = 0;   // of work, shared out by what blocks cost; 0: `steps` for each
  int64_t steps = 200;  // where no time is given
  int64_t batch = 16;
  double rate = 1e-3;                 // of AveragedAdam, falling to nothing as a cosine
  double held_out = 0.15;             // of the samples
  int64_t memory = int64_t{1} << 29;  // bytes of what a block is given and has to make: where they are large, fewer
  uint64_t seed = 0;
};

struct RepairedBlock {
  std::string from, to;          // values; `from` may be the network's input
  double before = 0, after = 0;  // the loss on the samples that were held out
  int64_t steps = 0;
  bool better() const { return after < before; }
};

struct RepairedBlocks {
  Graph graph;
  std::vector<RepairedBlock> blocks;
};

// The stretches of a network that differ from the original's between two values of the same shape, such that everything
// passes through either: none where there are several inputs.
std::vector<RepairedBlock> repairable_blocks(const Graph& original, const Graph& cut);

// `cut` takes what the original takes, and its values are known by the same names.
RepairedBlocks repair_blocks(const Graph& original, const Graph& cut, const Samples& samples,
                             const BlockRepairOptions& options, Observer& observer);

}  // namespace pare
