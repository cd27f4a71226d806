// What it costs to choose and to solve one wide group of channels: a network N → N → N → OUTPUTS with random weights.
//   bench_elimination N [LAYERS [SAMPLES [OUTPUTS]]]     (2 256 N) seconds and the peak of memory until each step has
//   ended
#include <ATen/ATen.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "pare/layerwise/refit.h"
#include "pare/prune/channel_study.h"
#include "pare/run.h"

namespace {

using namespace pare;

Graph wide_network(int64_t width, int64_t layers, int64_t outputs) {
  at::manual_seed(0);
  Graph graph;
  graph.inputs = {{.name = "x0", .dims = std::vector<Dim>{{-1, "N"}, {width, ""}}}};
  for (int64_t i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    const int64_t out = i + 1 == layers ? outputs : width;
    graph.tensors["w" + n] = at::randn({out, width}) / std::sqrt(static_cast<double>(width));
    graph.tensors["b" + n] = at::zeros({out});
    graph.nodes.push_back({.name = "layer" + n,
                           .op = "Gemm",
                           .inputs = {"x" + n, "w" + n, "b" + n},
                           .outputs = {"y" + n},
                           .attributes = {{"transB", int64_t{1}}}});
    if (i + 1 < layers)
      graph.nodes.push_back({.name = "relu" + n, .op = "Relu", .inputs = {"y" + n}, .outputs = {"x" + next}});
  }
  graph.outputs = {{.name = "y" + std::to_string(layers - 1)}};
  verify(graph);
  return graph;
}

double peak_gigabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024e-9;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The time of each step by what it reports.
class Steps : public Observer {
 public:
  void progress(std::string_view what, int64_t done, int64_t all) override {
    if (done < all) return;
    const double cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    std::printf("  %-18s until %7.1f s, %7.1f CPU-seconds, %5.2f GB\n", std::string(what).c_str(),
                seconds_since(begin_), cpu, peak_gigabytes());
    std::fflush(stdout);
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  const int64_t width = number(1, 0), layers = number(2, 2), samples = number(3, 256);
  if (width < 2) return 2;
  const at::NoGradGuard no_grad;
  const Graph graph = wide_network(width, layers, number(4, width));
  const ChannelMap map = analyze_channels(graph);
  const Samples inputs = samples_of({at::randn({samples, width})});
  std::printf("%lld wide: the network and its samples, %.2f GB\n", static_cast<long long>(width), peak_gigabytes());
  Steps steps;
  std::vector<Candidate> groups = candidates(graph, map, {});
  const ChannelStudy study = study_channels(graph, map, groups, inputs, {.sensitivity = false}, steps);
  std::vector<GroupCut> cuts;
  for (const auto& elimination : study.eliminations)
    cuts.push_back({elimination.group, elimination.order, width / 2, /*choose=*/true});
  RefitOptions options;
  options.fisher = study.fisher;
  const Refitted result = refit(graph, map, cuts, inputs, options, steps);
  for (const auto& layer : result.left) std::printf("  left: %s\n", layer.c_str());
}
