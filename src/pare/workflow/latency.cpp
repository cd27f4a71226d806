#include "pare/workflow/latency.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

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

namespace {

constexpr const char* kMark = "node-number-";

// Nodes named by their numbers, and the values that they make too: the runtime names what it joins by either.
Graph numbered(Graph graph) {
  std::set<std::string> kept = {""};  // subgraphs and the outside know these
  for (const auto& output : graph.outputs) kept.insert(output.name);
  for (const auto& node : graph.nodes) kept.insert(node.captures.begin(), node.captures.end());
  std::map<std::string, std::string> names;
  const auto renamed = [&](std::string& value) {
    if (const auto found = names.find(value); found != names.end()) value = found->second;
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    node.name = fmt::format("{}{}-", kMark, n);
    std::ranges::for_each(node.inputs, renamed);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!kept.contains(node.outputs[i])) names[node.outputs[i]] = fmt::format("{}{}-{}", kMark, n, i);
    std::ranges::for_each(node.outputs, renamed);
  }
  for (const auto& [from, to] : names)
    if (auto stated = graph.stated.extract(from); !stated.empty()) {
      stated.key() = stated.mapped().name = to;
      graph.stated.insert(std::move(stated));
    }
  return graph;
}

}  // namespace

std::vector<NodeTime> LatencyMeter::node_times(const Graph& graph) const {
  if (runtime_ == Runtime::pare) return {};
  const Graph marked = numbered(graph);
  RuntimeFiles files;
  std::vector<NodeTime> times;
  for (const auto& [name, op, seconds] :
       OnnxRuntime(modules_, batch_, at::get_num_threads()).node_times({files.write(marked), marked})) {
    const size_t mark = name.find(kMark);
    if (mark == std::string::npos) continue;
    const size_t node = std::strtoul(name.c_str() + mark + std::strlen(kMark), nullptr, 10);
    if (node < graph.nodes.size()) times.push_back({node, op, seconds});
  }
  return times;
}

}  // namespace pare
