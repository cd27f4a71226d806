#include "pare/workflow/benchmark.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

#include "pare/exec/program.h"
#include "pare/passes/for_inference.h"

namespace pare {

std::vector<Latency> benchmark(const std::vector<Graph>& models, const BenchmarkOptions& options) {
  using Clock = std::chrono::steady_clock;
  const at::NoGradGuard no_grad;
  std::vector<Program> programs;
  std::vector<std::vector<at::Tensor>> inputs;
  for (const auto& model : models) {
    programs.emplace_back(for_inference(model));
    inputs.push_back(random_inputs(model, options.batch, options.seed));
    programs.back().run(inputs.back());
  }
  std::vector<std::vector<double>> times(models.size());
  const auto start = Clock::now();
  for (int64_t round = 0; round < options.rounds; ++round) {
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    if (round >= 5 && spent > options.seconds) break;
    for (size_t m = 0; m < programs.size(); ++m) {
      const auto before = Clock::now();
      programs[m].run(inputs[m]);
      times[m].push_back(std::chrono::duration<double>(Clock::now() - before).count());
    }
    if (options.progress) options.progress(round + 1, options.rounds);
  }
  std::vector<Latency> result;
  for (auto& list : times) {
    std::sort(list.begin(), list.end());
    const auto at = [&](double part) {
      return list[static_cast<size_t>(part * static_cast<double>(list.size() - 1) + 0.5)];
    };
    result.push_back({at(0.5), at(0.1), at(0.9), static_cast<int64_t>(list.size())});
  }
  return result;
}

}  // namespace pare
