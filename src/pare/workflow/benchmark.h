// Latency of models, measured side by side.
#pragma once

#include <functional>
#include <vector>

#include "pare/core/graph.h"

namespace pare {

struct BenchmarkOptions {
  int64_t batch = 1;
  int64_t rounds = 30;  // timed runs of each model, one of each in turn
  double seconds = 5;   // or as many rounds as fit into this time, at least 5
  uint64_t seed = 0;
  std::function<void(int64_t done, int64_t all)> progress;
};

struct Latency {
  double median = 0;  // seconds for a batch
  double p10 = 0;
  double p90 = 0;
  int64_t rounds = 0;
};

// One warm-up each, then rounds in which every model runs once, so that a busy moment of the machine hits all alike.
// The graphs are prepared for inference first (passes/for_inference.h).
std::vector<Latency> benchmark(const std::vector<Graph>& models, const BenchmarkOptions& options);

}  // namespace pare
