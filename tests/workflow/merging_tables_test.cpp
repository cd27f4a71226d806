// Merging against plain pruning where the paper has no proof: other activations than ReLU, and depthwise separable
// layers. Small networks that are trained here for a few seconds each; accuracy on 2,000 test images of Fashion-MNIST.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pare/data/data_options.h"
#include "pare/error.h"
#include "pare/train/train.h"
#include "pare/workflow/prune.h"
#include "pare/zoo/model.h"

namespace pare {
namespace {

struct Trained {
  std::string arch;
  std::string activation = "relu";
  int64_t images = 0;
  int64_t epochs = 0;
  uint64_t seed = 0;

  Graph make() const {
    const Dataset data = DataChoice{.data = "fashion-mnist", .split = "train", .limit = images}.load({});
    ModelOptions model{.arch = arch, .activation = activation, .width = 0.25};
    model.classes = static_cast<int64_t>(data.classes.size());
    model.image = {data.channels(), data.height(), data.width()};
    TrainOptions options{.epochs = epochs};
    options.optimizer.lr = 0.1;
    options.seed = seed;
    return train(load_model("", model, seed).graph, data, options).last;
  }
};

double top1_without(const Graph& graph, const std::vector<std::string>& layers, double ratio,
                    const std::string& compensation) {
  PruneJob options;
  options.channels = ratio;
  options.layers = layers;
  options.round_to = 1;
  options.compensate = compensation;
  options.unchecked = true;
  options.data = {.data = "fashion-mnist", .limit = 2000};
  return prune(graph, options).after.metrics.front().second;
}

// What one network of so little training loses is much a matter of luck: means of several, and no more removed than
// they can bear (at half, saturating activations are near chance, merged or not).
TEST(MergingTables, EveryActivationGains) {
  constexpr uint64_t kSeeds = 3;
  const std::vector<std::string> layers = {"features.0", "features.14", "features.17", "features.20", "features.23"};
  for (const char* activation : {"tanh", "softsign", "elu", "selu", "leaky-relu", "hardswish"}) {
    try {
      double pruned = 0, merged = 0;
      for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        const Graph vgg =
            Trained{.arch = "vgg9-bn", .activation = activation, .images = 6000, .epochs = 3, .seed = seed}.make();
        pruned += top1_without(vgg, layers, 0.3, "none") / kSeeds;
        merged += top1_without(vgg, layers, 0.3, "most-sim") / kSeeds;
      }
      std::printf("  %-10s 30 %% of five layers removed: %.4f, merged %.4f\n", activation, pruned, merged);
      EXPECT_GE(merged, pruned) << activation;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::file) throw;
      GTEST_SKIP() << error.what();
    }
  }
}

TEST(MergingTables, DepthwiseSeparableLayersGain) {
  try {
    const Graph mobilenet = Trained{.arch = "mobilenetv1", .images = 6000, .epochs = 3}.make();
    for (const double ratio : {0.4, 0.5, 0.6}) {
      const std::vector<std::string> layers = {"model.11.3", "model.12.3"};
      const double pruned = top1_without(mobilenet, layers, ratio, "none");
      const double merged = top1_without(mobilenet, layers, ratio, "most-sim");
      std::printf("  mobilenetv1, %.0f %% of the last layers removed: %.4f, merged %.4f\n", 100 * ratio, pruned,
                  merged);
      EXPECT_GT(merged, pruned) << ratio;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::file) throw;
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace pare
