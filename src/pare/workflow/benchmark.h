// Latency of models, measured side by side.
#pragma once

#include <functional>
#include <vector>

#include "pare/graph.h"

namespace pare {

struct BenchmarkOptions {
  int64_t rounds = 30;  // turns of each
  double seconds = 5;   // or as many rounds as fit into this time, at least 5
  std::function<void(int64_t done, int64_t all)> progress;
};

struct Latency {
  double median = 0;  // seconds for a batch
  double p10 = 0;
  double p90 = 0;
  double p99 = 0;
  int64_t rounds = 0;

  // What a run takes that nothing gets in the way of: on a busy machine the median tells of its other programs, and two
  // models can't be told apart by it.
  double undisturbed() const { return p10; }
};

// One run, which gives the seconds it took.
using TimedRun = std::function<double()>;

// A graph prepared for inference (passes/for_inference.h) on random inputs.
TimedRun timed_run(const Graph& model, int64_t batch, uint64_t seed);

// Rounds in which every one has a turn: it runs for a while, at least once, and then again for as long, timed. A busy
// moment of the machine hits all alike, and what ran before hits none: threads of a runtime go on spinning for
// milliseconds after their work is done.
std::vector<Latency> benchmark(const std::vector<TimedRun>& runs, const BenchmarkOptions& options);

// The part of the elements of a graph's floating-point tensors of two or more axes that is zero.
double part_of_zeros(const Graph& graph);

}  // namespace pare
