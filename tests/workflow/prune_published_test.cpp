// The published figures on the published checkpoint, and what is past them. Accuracy on the full test sets.
#include <gtest/gtest.h>

#include <string>

#include "pare/error.h"
#include "pare/workflow/prune.h"
#include "pare/zoo/model.h"
#include "support/paths.h"

namespace pare {
namespace {

struct Published {
  std::string criterion;
  double ratio;
  double pruned;
  double merged;
};

// Neuron merging on LeNet-300-100 and Fashion-MNIST, threshold 0.45.
constexpr double kPoints = 0.0003 + 1e-9;
const Published kLeNet[] = {
    {"l1", 0.5, 0.8840, 0.8869}, {"l1", 0.6, 0.8517, 0.8692}, {"l1", 0.7, 0.7126, 0.8275}, {"l1", 0.8, 0.6676, 0.8002},
    {"l1", 0.9, 0.3180, 0.5212}, {"l2", 0.5, 0.8786, 0.8838}, {"l2", 0.6, 0.8303, 0.8807}, {"l2", 0.7, 0.7121, 0.8327},
    {"l2", 0.8, 0.6390, 0.7711}, {"l2", 0.9, 0.2812, 0.4343}, {"gm", 0.5, 0.8808, 0.8857}, {"gm", 0.6, 0.8582, 0.8810},
    {"gm", 0.7, 0.7838, 0.8639}, {"gm", 0.8, 0.6419, 0.7749}, {"gm", 0.9, 0.2985, 0.4876},
};

// Skips the test, and says so, where the checkpoint or the data are not here.
#define LOAD_OR_SKIP(model, file, architecture)                                              \
  const auto path_of_##model = shared_data(file);                                            \
  if (path_of_##model.empty()) GTEST_SKIP() << file << " is not here: nothing was measured"; \
  const Graph model = load_model(path_of_##model, {.arch = architecture}).graph

PruneJob lenet_options(const std::string& criterion, double ratio, const std::string& compensation) {
  PruneJob options;
  options.channels = ratio;
  options.criterion = criterion;
  options.compensate = compensation;
  options.unchecked = true;
  options.round_to = 1;
  options.most_sim.threshold = 0.45;
  options.data = {.data = "fashion-mnist", .mean = {0.5}, .std = {0.5}};
  return options;
}

TEST(Published, LeNet) {
  LOAD_OR_SKIP(lenet, "lenet-300-100.fashion-mnist.pth.tar", "lenet-300-100");
  for (const auto& row : kLeNet) {
    const auto top1 = [&](const std::string& compensation) {
      return prune(lenet, lenet_options(row.criterion, row.ratio, compensation)).after.metrics.front().second;
    };
    try {
      EXPECT_NEAR(top1("none"), row.pruned, kPoints) << row.criterion << " " << row.ratio;
      EXPECT_NEAR(top1("most-sim"), row.merged, kPoints) << row.criterion << " " << row.ratio;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::file) throw;
      GTEST_SKIP() << error.what();
    }
  }
}

// Past it, from the checkpoint alone: images distilled from the classes choose the neurons and solve the layers.
TEST(Published, LeNetPastItWithoutData) {
  LOAD_OR_SKIP(lenet, "lenet-300-100.fashion-mnist.pth.tar", "lenet-300-100");
  for (const uint64_t seed : {0U, 1U}) {
    PruneJob options = lenet_options("subset", 0.8, "synthetic");
    options.seed = seed;
    try {
      EXPECT_GE(prune(lenet, options).after.metrics.front().second, 0.815) << "seed " << seed;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::file) throw;
      GTEST_SKIP() << error.what();
    }
  }
}

TEST(Published, ResNet20AsPublished) {
  LOAD_OR_SKIP(resnet, "resnet20.cifar10.th", "resnet20");
  PruneJob options;
  options.channels = 0.3;
  options.round_to = 1;
  options.inner_only = true;
  options.data = {.data = "cifar10", .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  const auto top1 = [&](const std::string& compensation, bool as_published) {
    options.compensate = compensation;
    options.unchecked = true;
    options.most_sim.as_published = as_published;
    return prune(resnet, options).after.metrics.front().second;
  };
  try {
    EXPECT_NEAR(top1("none", false), 0.6104, 0.0005);
    EXPECT_NEAR(top1("most-sim", true), 0.6992, 0.0005);
    EXPECT_GE(top1("calibrated", false), 0.885);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::file) throw;
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace pare
