// Compression towards a goal: a network that is so much faster or smaller, or as small as an allowed drop in accuracy
// permits, with what was measured on the way.
//
//   pare::CompressResult small = pare::compress(model, samples, {.faster = 1.5});
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/prune.h"
#include "pare/samples.h"

namespace pare {

// Whose latency counts; automatic: ONNX Runtime where it is installed.
enum class Runtime { automatic, pare, onnxruntime };
template <>
struct NamesOf<Runtime> {
  static constexpr std::string_view names[] = {"auto", "pare", "onnxruntime"};
};

struct CompressOptions {
  // How much at least; one of these. With none of them the smallest network within max_drop is looked for.
  std::optional<double> faster;   // times
  std::optional<double> latency;  // milliseconds per batch
  std::optional<double> macs;     // fractions removed
  std::optional<double> params;
  std::optional<double> bytes;
  // The most that accuracy may fall on samples that nothing learned from: top-1, or without labels the agreement with
  // the original.
  std::optional<double> max_drop;

  Runtime runtime = Runtime::automatic;
  int64_t batch = 1;  // samples in the batch that is timed
  std::vector<std::string> layers, skip;
  int64_t round_to = 0;
  double floor = 0.1;
  bool inner_only = false;
  int64_t samples = 0;  // how many are learned from and judged on; 0: all there are, at most 1,000
  bool no_mirror = false;
  double minutes = 0;  // spent on repair at the end: distillation from the original
  bool plan = false;   // only the first plan: nothing is solved
  bool int8 = false;   // afterwards weights and activations become 8-bit integers (pare/quantize.h)
  uint64_t seed = 0;
  std::filesystem::path memory;  // a directory that keeps what was learned, so that the same call goes on; empty: none

  void describe(OptionVisitor& options);  // all but seed and memory
};

// A network on the way, with what it was measured to be.
struct CompressPoint {
  std::map<std::string, int64_t> widths;  // of groups that were cut
  int64_t macs = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;
  double latency = 0;           // median seconds per batch
  double base_latency = 0;      // of the original, measured in turns with it
  std::optional<double> score;  // on held-out samples
  double drop = 0;              // of the score
  double interval = 0;          // half the width of the drop's 95 % interval

  double speed_up() const { return latency > 0 ? base_latency / latency : 1; }
};

// What became of the model on the way: the original, pruned, as integers.
struct CompressStep {
  std::string name;
  Measured measured;
  double latency = 0;  // median seconds per batch, measured in turns with the others
};

struct CompressResult {
  Graph graph;  // the original where nothing reached the goal
  bool reached = true;
  std::string missed;                 // why not
  std::string metric;                 // of scores: top1, agreement or closeness
  int64_t held_out = 0;               // samples that they were measured on
  std::string runtime;                // whose latencies these are
  std::vector<CompressPoint> points;  // the original first, then from the largest on
  size_t chosen = 0;                  // among them
  std::vector<PrunedGroup> groups;
  std::vector<CompressStep> steps;  // with int8: after each step
  Measured before;                  // on data used neither for learning nor for the search, where there is any
  Measured after;
  std::vector<std::string> notes;
  double seconds = 0;
};

// Some samples are held out to judge by; the network that is returned has learned from all. Error{usage} for a goal
// that can't be reached at any cost.
CompressResult compress(const Graph& graph, const Samples& samples, const CompressOptions& options,
                        Observer& observer = unobserved());

}  // namespace pare
