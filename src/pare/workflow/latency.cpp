#include "pare/workflow/latency.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include "pare/error.h"
#include "pare/io.h"

namespace pare {

namespace fs = std::filesystem;

RuntimeFiles::RuntimeFiles() {
  std::string name = (fs::temp_directory_path() / "pare-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw Error(ErrorKind::file, name, "cannot be made");
  directory_ = name;
}

RuntimeFiles::~RuntimeFiles() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

fs::path RuntimeFiles::write(const Graph& graph) {
  fs::path file = directory_ / fmt::format("{}.onnx", written_++);
  save(graph, file, {.force = true});
  return file;
}

LatencyMeter::LatencyMeter(Runtime runtime, int64_t batch, uint64_t seed)
    : runtime_(runtime), modules_(OnnxRuntime::find()), batch_(batch), seed_(seed) {
  if (batch < 1) throw Error(ErrorKind::usage, OptionName{"batch"}, "expected 1 or more, found {}", batch);
  if (runtime == Runtime::onnxruntime && modules_.empty())
    throw Error(ErrorKind::usage, OptionName{"runtime"},
                "ONNX Runtime is not installed here; npm install onnxruntime-node --ignore-scripts in ./data gets it");
  if (runtime == Runtime::automatic) runtime_ = modules_.empty() ? Runtime::pare : Runtime::onnxruntime;
  if (runtime_ == Runtime::onnxruntime) version_ = OnnxRuntime(modules_, batch_, at::get_num_threads()).version();
}

std::string LatencyMeter::description() const {
  return fmt::format("{}, {} threads, batch {}",
                     runtime_ == Runtime::pare ? std::string("pare") : "ONNX Runtime " + version_,
                     at::get_num_threads(), batch_);
}

std::vector<Latency> LatencyMeter::measure(const std::vector<Graph>& graphs, const BenchmarkOptions& options) const {
  std::vector<TimedRun> runs;
  if (runtime_ == Runtime::pare) {
    for (const auto& graph : graphs) runs.push_back(timed_run(graph, batch_, seed_));
    return benchmark(runs, options);
  }
  RuntimeFiles files;
  OnnxRuntime peer(modules_, batch_, at::get_num_threads());
  for (const auto& graph : graphs)
    runs.emplace_back([&peer, model = peer.add({files.write(graph), graph})] { return peer.run(model); });
  return benchmark(runs, options);
}

}  // namespace pare
