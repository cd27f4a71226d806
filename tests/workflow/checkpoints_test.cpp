// The published checkpoints give their published accuracy, straight from the file and after every conversion.
#include <gtest/gtest.h>

#include <filesystem>

#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/zoo/model.h"
#include "support/paths.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

struct Checkpoint {
  std::string file;
  std::string arch;
  DataOptions data;
  double top1;
  double tolerance;
};

void expect_accuracy(const Checkpoint& checkpoint) {
  const fs::path path = shared_data(checkpoint.file);
  if (path.empty()) GTEST_SKIP() << checkpoint.file << " is not here: nothing was measured";
  Dataset data;
  try {
    data = load_dataset(checkpoint.data);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const ModelOptions arch{.arch = checkpoint.arch};
  const fs::path onnx = fs::path(testing::TempDir()) / (checkpoint.arch + ".onnx");
  const fs::path safetensors = fs::path(testing::TempDir()) / (checkpoint.arch + ".safetensors");
  const Model direct = load_model(path, arch);
  save(direct.graph, onnx, {.force = true});
  save(direct.graph, safetensors, {.force = true});
  const Evaluation whole = evaluate({direct.graph}, data, {.batch = 100});
  EXPECT_NEAR(whole.models[0].top1(), checkpoint.top1, checkpoint.tolerance);
  EXPECT_EQ(whole.samples, 10000);
  // The converted ones are the same function: same hits and same loss on some of the images.
  data.images = data.images.narrow(0, 0, 500);
  data.labels = data.labels.narrow(0, 0, 500);
  const std::vector<Graph> models = {direct.graph, load_model(onnx, {}).graph, load_model(safetensors, arch).graph};
  const Evaluation some = evaluate(models, data, {.batch = 100, .ensemble = true});
  for (const auto& metrics : some.models) {
    EXPECT_EQ(metrics.top1_correct, some.models[0].top1_correct);
    EXPECT_NEAR(metrics.loss(), some.models[0].loss(), 1e-5);
  }
}

TEST(Checkpoints, LeNetOnFashionMnist) {
  expect_accuracy({"lenet-300-100.fashion-mnist.pth.tar",
                   "lenet-300-100",
                   {.data = "fashion-mnist", .split = "test", .mean = {0.5}, .std = {0.5}},
                   0.8980,
                   1e-9});
}

TEST(Checkpoints, ResNet20OnCifar10) {
  expect_accuracy({"resnet20.cifar10.th",
                   "resnet20",
                   {.data = "cifar10", .split = "test", .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}},
                   0.9173,
                   0.0005});
}

TEST(LoadModel, SaysWhatIsMissing) {
  const fs::path path = shared_data("resnet20.cifar10.th");
  if (path.empty()) GTEST_SKIP() << "the checkpoint is not here";
  EXPECT_THROW(load_model(path, {}), Error);                    // no --arch
  EXPECT_THROW(load_model(path, {.arch = "resnet32"}), Error);  // another depth
  EXPECT_THROW(load_model(path, {.arch = "resnet20", .width = 0.5}), Error);
}

}  // namespace
}  // namespace pare
