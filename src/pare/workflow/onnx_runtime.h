// ONNX Runtime as a peer to measure with: a Node process with the npm package onnxruntime-node, which runs a model once
// whenever it is asked to, so that its runs and ours take turns.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

class OnnxRuntime {
 public:
  struct Model {
    std::filesystem::path file;  // .onnx
    Graph graph;                 // for the names and types of its inputs
  };

  // The node_modules directory that has the package: of $PARE_DATA, ./data or here. Empty where there is none.
  static std::filesystem::path find();

  // Error{failed} when it cannot be started.
  OnnxRuntime(const std::filesystem::path& modules, int64_t batch, int threads);
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  const std::string& version() const { return version_; }
  // Opens a model and runs it once; returns its number. Error{failed} when it is refused, with ONNX Runtime's own
  // words: those that were added before can still be run.
  size_t add(const Model& model);
  double run(size_t model);  // seconds
  struct NodeTime {
    std::string name, op;
    double seconds = 0;
  };
  // What each node of a model takes in the fastest tenth of many runs, as the runtime's own profile has it. A node that
  // it joined to others may be known by the name of any of them, or of a value between them, with something before or
  // after it.
  std::vector<NodeTime> node_times(const Model& model);

 private:
  std::string ask(const std::string& line);

  int64_t batch_;
  int threads_;
  pid_t child_ = -1;
  int socket_ = -1;
  std::string unread_;
  std::string version_;
};

}  // namespace pare
