// Valid random graphs of the supported operators: images through layers, branches that meet again, and sequences.
// What a seed makes is the same everywhere.
#pragma once

#include "pare/graph.h"

namespace pare {

struct RandomGraphOptions {
  int64_t batch = 2;
  int layers = 12;  // at the most
};

// One input "x" [N, C, H, W], float32; one output or two.
Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace pare
