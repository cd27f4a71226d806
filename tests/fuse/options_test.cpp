// Every option with every method: honoured, or refused by its name.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

#include "pare/error.h"
#include "pare/fuse/fuse.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

// What a method made of two networks, as one list of numbers; the refused option where it refused.
struct Outcome {
  at::Tensor weights;
  std::string refused;
};

// Neurons of very different lengths: distances and masses that look at them matter.
Graph uneven_net(double width, uint64_t seed) {
  Graph graph = build("convnet", {.width = width}, seed);
  at::manual_seed(seed);
  for (auto& [name, tensor] : graph.tensors) {
    if (!tensor.is_floating_point() || tensor.dim() < 2) continue;
    std::vector<int64_t> per_row(static_cast<size_t>(tensor.dim()), 1);
    per_row[0] = tensor.size(0);
    tensor = tensor * (at::rand(per_row) * 3).exp() + at::randn(per_row);
  }
  return graph;
}

Outcome outcome(const FuseOptions& options) {
  static const std::vector<Graph> models = {uneven_net(0.5, 1), uneven_net(0.75, 2)};
  static const auto samples = random_inputs(models[0], 12, 1);
  try {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : fuse(models, options, samples).fused.tensors)
      if (tensor.is_floating_point()) all.push_back(tensor.flatten());
    return {at::cat(all), ""};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return {{}, error.where()};
  }
}

struct Change {
  std::string option;
  std::function<void(FuseOptions&)> change;
};

TEST(FuseOptions, AreHonouredOrRefusedByName) {
  const std::vector<Change> changes = {
      {"`align`", [](FuseOptions& o) { o.align = AlignBy::activations; }},
      {"`solver`", [](FuseOptions& o) { o.solver = TransportSolver::sinkhorn; }},
      {"`regularization`", [](FuseOptions& o) { o.regularization = 0.5; }},
      {"`ground`", [](FuseOptions& o) { o.ground = NeuronDistance::euclidean; }},
      {"`ground`", [](FuseOptions& o) { o.ground = NeuronDistance::squared; }},
      {"`ground`", [](FuseOptions& o) { o.ground = NeuronDistance::correlation; }},
      {"`importance`", [](FuseOptions& o) { o.importance = NeuronMass::l1; }},
      {"`scaling`", [](FuseOptions& o) { o.scaling = ColumnScaling::published; }},
      {"`rho`", [](FuseOptions& o) { o.rho = 0.5; }},
      {"`inputs`", [](FuseOptions& o) { o.inputs = 7; }},
      {"`reference`", [](FuseOptions& o) { o.reference = 1; }},
      {"`repair`", [](FuseOptions& o) { o.repair = FusionRepair::rescale; }},
  };
  int64_t honoured = 0;
  for (const std::string method : {"ot", "average", "hungarian", "greedy", "rebasin", "merge-many", "barycentre"}) {
    FuseOptions plain;
    plain.method = method;
    const Outcome before = outcome(plain);
    ASSERT_EQ(before.refused, "") << method;
    for (const Change& change : changes) {
      FuseOptions options = plain;
      change.change(options);
      const Outcome after = outcome(options);
      const bool starts_elsewhere = method == "rebasin" || method == "merge-many";  // and may end at the same
      if (!after.refused.empty())
        EXPECT_EQ(after.refused, change.option) << method;
      else if (!starts_elsewhere)
        EXPECT_FALSE(before.weights.sizes() == after.weights.sizes() && at::equal(before.weights, after.weights))
            << method << " takes " << change.option << " and does nothing with it";
      honoured += after.refused.empty() ? 1 : 0;
    }
  }
  EXPECT_GE(honoured, 30);
}

TEST(FuseOptions, OfTheRegressionAndOfSinkhornAreTakenWithThem) {
  FuseOptions options;
  options.repair = FusionRepair::regression;
  const at::Tensor plain = outcome(options).weights;
  FuseOptions other = options;
  other.rho = 0.5;
  EXPECT_FALSE(at::equal(plain, outcome(other).weights));
  other = options;
  other.inputs = 7;
  EXPECT_FALSE(at::equal(plain, outcome(other).weights));
  options = {};
  options.solver = TransportSolver::sinkhorn;
  other = options;
  other.regularization = 0.5;
  EXPECT_FALSE(at::equal(outcome(options).weights, outcome(other).weights));
}

}  // namespace
}  // namespace pare
