// ONNX Runtime as a peer to measure with: a Node process with the npm package onnxruntime-node, which runs a model once
// whenever it is asked to, so that its runs and ours take turns.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pare/core/graph.h"

namespace pare {

class OnnxRuntime {
 public:
  struct Model {
    std::filesystem::path file;  // .onnx
    Graph graph;                 // for the names and types of its inputs
  };

  // The node_modules directory that has the package: of $PARE_DATA, ./data or here. Empty where there is none.
  static std::filesystem::path find();

  // Error{failed} when it cannot be started or refuses a model, with its own words.
  OnnxRuntime(const std::filesystem::path& modules, const std::vector<Model>& models, int64_t batch, int threads);
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  const std::string& version() const { return version_; }
  double run(size_t model);  // seconds

 private:
  std::string ask(const std::string& line);

  pid_t child_ = -1;
  int socket_ = -1;
  std::string unread_;
  std::string version_;
};

}  // namespace pare
