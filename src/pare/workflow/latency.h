// How long networks take in a runtime: our own, or ONNX Runtime where it is installed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pare/compress.h"
#include "pare/graph.h"
#include "pare/workflow/benchmark.h"
#include "pare/workflow/onnx_runtime.h"

namespace pare {

// ONNX files for another runtime, for the lifetime of this object.
class RuntimeFiles {
 public:
  RuntimeFiles();
  ~RuntimeFiles();
  RuntimeFiles(const RuntimeFiles&) = delete;
  RuntimeFiles& operator=(const RuntimeFiles&) = delete;

  std::filesystem::path write(const Graph& graph);

 private:
  std::filesystem::path directory_;
  int written_ = 0;
};

struct NodeTime {
  size_t node = 0;  // or, of nodes that the runtime joined, one of them
  std::string op;   // as the runtime calls it
  double seconds = 0;
};

class LatencyMeter {
 public:
  // Error{usage} for ONNX Runtime where it is not installed; `automatic` takes it where it is.
  LatencyMeter(Runtime runtime, int64_t batch, uint64_t seed);

  Runtime runtime() const { return runtime_; }
  int64_t batch() const { return batch_; }
  std::string description() const;  // "ONNX Runtime 1.2.3, 2 threads, batch 1"

  // In turns. Error{failed} when the runtime refuses one.
  std::vector<Latency> measure(const std::vector<Graph>& graphs, const BenchmarkOptions& options) const;
  // What the nodes take where they stand in the graph. Nothing where the runtime doesn't tell. Error{failed} when it
  // refuses the graph.
  std::vector<NodeTime> node_times(const Graph& graph) const;

 private:
  Runtime runtime_;
  std::filesystem::path modules_;
  int64_t batch_;
  uint64_t seed_;
  std::string version_;
};

}  // namespace pare
