// The time of one distillation step by each matching, in turns: `distill ROUNDS THREADS` prints medians in milliseconds
// and their ratio to a step with soft targets alone. Teacher vgg9-bn, student a quarter as wide, batch 64 of 56 x 56.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "pare/distill/distillation.h"
#include "pare/passes/relu_after_max_pool.h"
#include "pare/train/train.h"
#include "pare/zoo/zoo.h"

namespace {

struct Contender {
  std::string match;
  std::unique_ptr<pare::Distillation> objective;
  std::unique_ptr<pare::Program> program;
  std::vector<double> seconds = {};
};

double step_seconds(Contender& contender, const pare::TensorMap& parameters, const pare::Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  pare::TensorMap statistics;
  (*contender.objective)({*contender.program, parameters, batch, &statistics, {}}).value.backward();
  for (const auto& [name, tensor] : parameters) tensor.mutable_grad() = at::Tensor();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int rounds = std::stoi(argv[1]);
  at::set_num_threads(std::stoi(argv[2]));
  at::globalContext().setFlushDenormal(true);
  const pare::Graph teacher = pare::build("vgg9-bn", {.dropout = 0.5}, 1);
  const pare::Graph student = pare::build("vgg9-bn", {.width = 0.25, .dropout = 0.5}, 2);
  const pare::Batch batch{.images = at::randn({64, 3, 56, 56}), .labels = at::randint(0, 2, {64, 10}).to(at::kFloat)};
  pare::TensorMap parameters;
  for (const auto& name : pare::trained_tensors(student))
    parameters[name] = student.tensor(name).clone().requires_grad_();
  std::vector<Contender> contenders;
  for (const char* match : {"none", "ewa", "swa", "sswa", "at", "at-grad"}) {
    auto objective = std::make_unique<pare::Distillation>(teacher, student, pare::DistillationOptions{.match = match});
    const auto taps = objective->taps();
    auto program = std::make_unique<pare::Program>(pare::relu_after_max_pool(student, {taps.begin(), taps.end()}));
    contenders.push_back({match, std::move(objective), std::move(program)});
  }
  for (auto& contender : contenders) step_seconds(contender, parameters, batch);  // warms up
  for (int round = 0; round < rounds; ++round)
    for (auto& contender : contenders) contender.seconds.push_back(step_seconds(contender, parameters, batch));
  double reference = 0;
  for (auto& [match, objective, program, seconds] : contenders) {
    std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
    const double median = seconds[static_cast<size_t>(rounds) / 2];
    if (reference == 0) reference = median;
    std::printf("%-8s %8.1f ms %6.2f\n", match.c_str(), 1000 * median, median / reference);
  }
  return 0;
}
