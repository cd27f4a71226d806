// Compression by its goal: a network that is so much faster or smaller, or as small as a drop in accuracy allows, and
// what was measured on the way.
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
  // How much at the least, one of them; with none the smallest network within max_drop is looked for.
  std::optional<double> faster;   // times
  std::optional<double> latency;  // milliseconds of a batch
  std::optional<double> macs;     // fractions removed
  std::optional<double> params;
  std::optional<double> bytes;
  // Of accuracy on samples that are not learned from, at the most: of top-1, without labels of agreement with the
  // original.
  std::optional<double> max_drop;

  Runtime runtime = Runtime::automatic;
  int64_t batch = 1;  // that is timed
  std::vector<std::string> layers, skip;
  int64_t round_to = 0;
  double floor = 0.1;
  bool inner_only = false;
  int64_t samples = 0;  // that are learned from and judged on; 0: all there are, 1,000 at the most
  bool no_mirror = false;
  double minutes = 0;  // of repair by distillation from the original at the end
  bool plan = false;   // only the first plan: nothing is solved
  bool int8 = false;   // then weights and activations become 8-bit integers (pare/quantize.h)
  uint64_t seed = 0;
  std::filesystem::path memory;  // directory that keeps what was learned, so that the same call goes on; empty: none

  void describe(OptionVisitor& options);  // all but seed and memory
};

// A network on the way, with what it was measured to be.
struct CompressPoint {
  std::map<std::string, int64_t> widths;  // of groups that were cut
  int64_t macs = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;
  double latency = 0;           // seconds of a batch, median
  double base_latency = 0;      // of the original in the same turns
  std::optional<double> score;  // on held-out samples
  double drop = 0;              // of it, and half the width of its 95 % interval
  double interval = 0;

  double speed_up() const { return latency > 0 ? base_latency / latency : 1; }
};

// What became of the model on the way: the original, pruned, as integers.
struct CompressStep {
  std::string name;
  Measured measured;
  double latency = 0;  // seconds of a batch, median, in the same turns as the others
};

struct CompressResult {
  Graph graph;  // the original where nothing reached the goal
  bool reached = true;
  std::string missed;                 // why not
  std::string metric;                 // of scores: top1, agreement or closeness
  int64_t held_out = 0;               // samples they are of
  std::string runtime;                // what latencies are of
  std::vector<CompressPoint> points;  // the original first, then from the largest on
  size_t chosen = 0;                  // among them
  std::vector<PrunedGroup> groups;
  std::vector<CompressStep> steps;  // int8: each for itself
  Measured before;                  // on data that is neither learned from nor searched on, where there is such
  Measured after;
  std::vector<std::string> notes;
  double seconds = 0;
};

// Some samples are held out to judge by; the network that is returned has learned from all. Error{usage} for a goal
// that can't be reached whatever it costs.
CompressResult compress(const Graph& graph, const Samples& samples, const CompressOptions& options,
                        Observer& observer = unobserved());

}  // namespace pare
