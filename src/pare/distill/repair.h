// Repair by distillation: a network that was cut learns from the original, on samples without labels.
//
//   loss = T² KL(z/T ‖ z'/T) + β Σ_l ‖a_l − a'_l‖² / ‖a_l‖² / L
//
// First block by block (distill/repair_blocks.h), which costs little, then end to end: z and z' are the answers of
// original and student, a_l and a'_l what both compute under the same name and shape where branches meet. Batch norms
// keep their statistics. To make few samples go a long way, images are moved and mirrored, and most get a rectangle of
// another one: the original says what it sees in the mixture, too (Yun et al., CutMix, ICCV 2019). In the second half
// the divergence is measured now and then on samples that nothing learns from, and the best network so far is returned:
// never one that is worse there than the network it began with.
#pragma once

#include <cstdint>
#include <string>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct RepairOptions {
  double minutes = 0;      // of work; 0: `steps`
  int64_t steps = 200;     // of each block, and then of the whole, where no time is given
  double in_blocks = 0.6;  // of the time
  int64_t batch = 32;
  double rate = 1e-3;  // of AveragedAdam, falling to nothing as a cosine
  double temperature = 2;
  double features = 1;   // β
  double shift = 0.125;  // images are moved by up to this part of their size, and mirrored
  bool mirror = true;
  double mixtures = 0.9;  // the share of images that get a rectangle of another one
  int64_t checks = 12;    // to a whole run; they begin half way
  uint64_t seed = 0;
};

struct Repaired {
  Graph graph;
  double before = 0;      // divergence on the held-out samples
  double after = 0;       // of the graph
  int64_t blocks = 0;     // that are better for being repaired
  int64_t steps = 0;      // that were made with the whole
  int64_t best_step = 0;  // after which it was best; 0: it is as the blocks were, or as it was given
};

// What a user should know about it.
std::string repair_note(const Repaired& repaired, int64_t held_out);

// `cut` takes what `original` takes. Error{failed} when the loss is not finite at the first step.
Repaired repair(const Graph& original, const Graph& cut, const Samples& learned, const Samples& held_out,
                const RepairOptions& options, Observer& observer);

}  // namespace pare
