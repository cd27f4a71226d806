#include "pare/workflow/benchmark.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "pare/passes/for_inference.h"
#include "pare/run.h"

namespace pare {

TimedRun timed_run(const Graph& model, int64_t batch, uint64_t seed) {
  const auto program = std::make_shared<Program>(for_inference(model));
  return [program, inputs = random_inputs(model, batch, seed)] {
    const at::NoGradGuard no_grad;
    const auto before = std::chrono::steady_clock::now();
    program->run(inputs);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  };
}

namespace {

// The seconds of each run.
std::vector<double> for_a_while(const TimedRun& run) {
  constexpr double kWhile = 0.01;
  std::vector<double> times;
  for (double spent = 0; spent < kWhile; spent += times.back()) times.push_back(std::max(run(), 1e-9));
  return times;
}

}  // namespace

std::vector<Latency> benchmark(const std::vector<TimedRun>& runs, const BenchmarkOptions& options) {
  std::vector<std::vector<double>> times(runs.size());
  const auto start = std::chrono::steady_clock::now();
  int64_t round = 0;
  for (; round < options.rounds; ++round) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (round >= 5 && spent.count() > options.seconds) break;
    for (size_t m = 0; m < runs.size(); ++m) {
      for_a_while(runs[m]);
      const auto own = for_a_while(runs[m]);
      times[m].insert(times[m].end(), own.begin(), own.end());
    }
    if (options.progress) options.progress(round + 1, options.rounds);
  }
  std::vector<Latency> result;
  for (auto& list : times) {
    std::sort(list.begin(), list.end());
    const auto at = [&](double part) {
      return list[static_cast<size_t>(std::lround(part * static_cast<double>(list.size() - 1)))];
    };
    result.push_back({at(0.5), at(0.1), at(0.9), at(0.99), round});
  }
  return result;
}

double part_of_zeros(const Graph& graph) {
  int64_t zeros = 0;
  int64_t all = 0;
  for (const auto& [name, tensor] : graph.tensors) {
    if (!tensor.is_floating_point() || tensor.dim() < 2) continue;
    all += tensor.numel();
    zeros += tensor.numel() - tensor.count_nonzero().item<int64_t>();
  }
  return all == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(all);
}

}  // namespace pare
