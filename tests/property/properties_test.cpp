// What must hold for any input, on inputs that rapidcheck makes up and shrinks when something fails.
//   RC_PARAMS="max_success=10000 seed=1"   more of them, or the same ones again
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pare/core/glob.h"
#include "pare/io/npy.h"
#include "pare/io/safetensors.h"
#include "pare/prune/budget.h"
#include "pare/sparsify/gradual.h"
#include "pare/sparsify/mask.h"
#include "pare/train/schedule.h"
#include "pare/transport/assignment.h"
#include "pare/transport/exact.h"
#include "pare/transport/sinkhorn.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargest = 12;

int64_t extent() { return *rc::gen::inRange<int64_t>(1, kLargest + 1); }

// Numbers with few digits, so that ties are common.
at::Tensor numbers(at::IntArrayRef shape, int64_t low, int64_t high) {
  at::Tensor x = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data_ptr<double>()[i] = static_cast<double>(*rc::gen::inRange<int64_t>(low, high + 1)) / 4;
  return x;
}

// At least one is positive.
at::Tensor masses(int64_t count) {
  at::Tensor x = numbers({count}, 0, 8);
  x[*rc::gen::inRange<int64_t>(0, count)] += 1;
  return x / x.sum();
}

// A file of this process, gone at the end.
struct Scratch {
  fs::path path = fs::temp_directory_path() / ("pare-property-" + std::to_string(::getpid()));
  ~Scratch() { fs::remove(path); }
};

double least_slack(const at::Tensor& cost, const at::Tensor& u, const at::Tensor& v) {
  return (cost - u.unsqueeze(1) - v.unsqueeze(0)).min().item<double>();
}

RC_GTEST_PROP(Properties, TransportIsFeasibleAndCertified, ()) {
  const int64_t m = extent(), n = extent();
  const at::Tensor cost = numbers({m, n}, -20, 20), a = masses(m), b = masses(n);
  const TransportPlan found = solve_transport(cost, a, b);
  RC_ASSERT((found.plan.sum(1) - a).abs().max().item<double>() < 1e-9);
  RC_ASSERT((found.plan.sum(0) - b).abs().max().item<double>() < 1e-9);
  RC_ASSERT(found.plan.min().item<double>() >= 0);
  RC_ASSERT(least_slack(cost, found.u, found.v) > -1e-9);  // the dual is feasible: no plan is cheaper than its value
  const double bound = (found.u * a).sum().item<double>() + (found.v * b).sum().item<double>();
  RC_ASSERT(std::abs(found.cost - bound) < 1e-8);
  RC_ASSERT(found.cost <= (at::outer(a, b) * cost).sum().item<double>() + 1e-9);
}

RC_GTEST_PROP(Properties, UniformTransportIsAnAssignment, ()) {
  const int64_t n = extent();
  const at::Tensor cost = numbers({n, n}, -20, 20);
  const Assignment best = solve_assignment(cost);
  std::vector<bool> taken(static_cast<size_t>(n));
  for (const int64_t column : best.column) {
    RC_ASSERT(!taken.at(static_cast<size_t>(column)));
    taken[static_cast<size_t>(column)] = true;
  }
  RC_ASSERT(std::abs(solve_transport(cost).cost * static_cast<double>(n) - best.cost) < 1e-8);
}

// Converged or not: two halves that hardly see each other take it long.
RC_GTEST_PROP(Properties, EntropyCostsNoLessThanTheBest, ()) {
  const int64_t m = extent(), n = extent();
  const at::Tensor cost = numbers({m, n}, 0, 20), a = uniform_marginal(m), b = uniform_marginal(n);
  const TransportPlan soft = sinkhorn(cost, a, b, {.regularization = 0.1});
  RC_ASSERT((soft.plan.sum(1) - a).abs().max().item<double>() < 1e-6);
  RC_ASSERT(soft.cost >= solve_transport(cost, a, b).cost - 1e-6);
}

RC_GTEST_PROP(Properties, SafetensorsComeBack, ()) {
  const std::vector<at::ScalarType> types = {at::kFloat, at::kDouble, at::kHalf, at::kByte, at::kLong, at::kBool};
  NamedTensors written;
  const auto text = rc::gen::container<std::string>(rc::gen::inRange<char>(' ', 127));
  for (const auto& name : *rc::gen::unique<std::vector<std::string>>(text)) {
    if (name == "__metadata__") continue;
    std::vector<int64_t> shape(*rc::gen::inRange<size_t>(0, 4));
    for (int64_t& size : shape) size = *rc::gen::inRange<int64_t>(0, 4);
    written.tensors.emplace_back(name, numbers(shape, 0, 40).to(*rc::gen::elementOf(types)));
  }
  const Scratch file;
  write_safetensors(file.path, written);
  const NamedTensors read = read_safetensors(file.path);
  RC_ASSERT(read.tensors.size() == written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) {
    const at::Tensor* found = read.find(name);
    RC_ASSERT(found != nullptr);
    RC_ASSERT(found->scalar_type() == tensor.scalar_type());
    RC_ASSERT(at::equal(*found, tensor));
  }
}

RC_GTEST_PROP(Properties, ArraysComeBack, ()) {
  std::vector<int64_t> shape(*rc::gen::inRange<size_t>(0, 5));
  for (int64_t& size : shape) size = *rc::gen::inRange<int64_t>(0, 4);
  const at::Tensor x = numbers(shape, -40, 40);
  const Scratch file;
  write_npy(file.path, x);
  RC_ASSERT(at::equal(read_npy(file.path), x));
}

RC_GTEST_PROP(Properties, MasksComeBackBitByBit, ()) {
  MaskFile written{.masks = {}, .recipe = "{}"};
  const auto count = *rc::gen::inRange<int>(1, 4);
  for (int i = 0; i < count; ++i)
    written.masks["layer" + std::to_string(i)] = numbers({extent(), extent()}, 0, 1).to(at::kBool);
  const Scratch file;
  write_masks(file.path, written);
  const MaskFile read = read_masks(file.path);
  RC_ASSERT(read.masks.size() == written.masks.size());
  for (const auto& [name, mask] : written.masks) RC_ASSERT(at::equal(read.masks.at(name), mask));
}

// round((1 − S)·d) weights stay, ties or not; and none that is worse than one that goes.
RC_GTEST_PROP(Properties, MasksKeepTheBestAndExactlyAsMany, ()) {
  TensorMap scores;
  int64_t all = 0;
  const auto count = *rc::gen::inRange<int>(1, 4);
  for (int i = 0; i < count; ++i) {
    at::Tensor& score = scores["layer" + std::to_string(i)] = numbers({extent(), extent()}, 0, 6).abs();
    all += score.numel();
  }
  const double sparsity = *rc::gen::inRange<int>(0, 100) / 100.0;
  const TensorMap masks = masks_by_score(scores, {}, sparsity, {.allow_empty = true});
  int64_t kept = 0;
  double worst = 1e300, best = -1;
  for (const auto& [name, mask] : masks) {
    kept += mask.sum().item<int64_t>();
    const at::Tensor stays = scores.at(name).masked_select(mask),
                     goes = scores.at(name).masked_select(mask.logical_not());
    if (stays.numel() > 0) worst = std::min(worst, stays.min().item<double>());
    if (goes.numel() > 0) best = std::max(best, goes.max().item<double>());
  }
  RC_ASSERT(kept == std::llround((1 - sparsity) * static_cast<double>(all)));
  RC_ASSERT(worst >= best);
}

RC_GTEST_PROP(Properties, DensitiesOfErdosRenyiSpendTheBudget, ()) {
  std::vector<std::vector<int64_t>> shapes(*rc::gen::inRange<size_t>(1, 5));
  double all = 0, spent = 0;
  for (auto& shape : shapes) shape = {extent(), extent(), 3, 3};
  const double sparsity = *rc::gen::inRange<int>(0, 100) / 100.0;
  const std::vector<double> densities = erk_densities(shapes, sparsity);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto size = static_cast<double>(shapes[i][0] * shapes[i][1] * 9);
    RC_ASSERT(densities[i] >= 0 && densities[i] <= 1 + 1e-12);
    all += size;
    spent += densities[i] * size;
  }
  RC_ASSERT(std::abs(spent - (1 - sparsity) * all) < 1e-6 * all);
}

RC_GTEST_PROP(Properties, GradualSparsityNeverFalls, ()) {
  const auto steps = *rc::gen::inRange<int64_t>(1, 400);
  const GradualOptions options{.sparsity = *rc::gen::inRange<int>(0, 100) / 100.0,
                               .begin = *rc::gen::inRange<int>(0, 50) / 100.0,
                               .end = *rc::gen::inRange<int>(50, 101) / 100.0,
                               .every = *rc::gen::inRange<int64_t>(1, 50)};
  double before = 0;
  for (int64_t step = 0; step <= steps; ++step) {
    const double now = gradual_sparsity(options, step, steps);
    RC_ASSERT(now >= before - 1e-12);
    RC_ASSERT(now <= options.sparsity + 1e-12);
    before = now;
  }
}

RC_GTEST_PROP(Properties, LearningRatesStayBelowTheirPeak, ()) {
  ScheduleOptions options;
  options.schedule =
      *rc::gen::element(ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine, ScheduleKind::one_cycle);
  options.milestones = {1, 2};
  const RunLength run{.steps = *rc::gen::inRange<int64_t>(1, 500),
                      .steps_per_epoch = *rc::gen::inRange<int64_t>(1, 100)};
  for (int64_t step = 0; step < run.steps; ++step) {
    const double rate = learning_rate(options, 0.1, step, run);
    RC_ASSERT(rate >= 0);
    RC_ASSERT(rate <= 0.1 + 1e-12);
  }
}

RC_GTEST_PROP(Properties, ABudgetLeavesSomethingAndNoMore, ()) {
  const auto total = *rc::gen::inRange<int64_t>(1, 3000), unit = *rc::gen::inRange<int64_t>(1, 33);
  const double ratio = *rc::gen::inRange<int>(1, 100) / 100.0;
  const int64_t kept = kept_count(total, ratio, unit);
  RC_ASSERT(kept >= 1 && kept <= total);
  RC_ASSERT(kept == total || kept % unit == 0);
  RC_ASSERT(kept_count(total, std::min(ratio + 0.1, 0.99), unit) <= kept);
}

RC_GTEST_PROP(Properties, ANameMatchesItselfAndEveryPrefix, ()) {
  const auto name = *rc::gen::container<std::string>(rc::gen::element('a', 'b', '.', '1'));
  const auto cut = *rc::gen::inRange<size_t>(0, name.size() + 1);
  RC_ASSERT(glob_matches(name, name));
  RC_ASSERT(glob_matches(name.substr(0, cut) + "*", name));
  RC_ASSERT(glob_matches("*" + name.substr(cut), name));
}

}  // namespace
}  // namespace pare
