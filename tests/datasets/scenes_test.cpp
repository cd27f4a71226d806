#include "pare/data/scenes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "datasets/bytes.h"
#include "pare/data/loader.h"
#include "pare/error.h"

namespace pare {
namespace {

// Objects that are filled squares with a frame of nothing, ten classes in turn.
Dataset square_objects() {
  Dataset data{.name = "squares", .mean = {0.5}, .std = {0.5}, .split = "train"};
  data.images = at::zeros({40, 1, 28, 28}, at::kByte);
  data.images.slice(2, 6, 22).slice(3, 6, 22).fill_(200);
  data.labels = at::arange(40, at::kLong).remainder(10);
  data.classes = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                  "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return data;
}

Dataset flat_backgrounds() {
  Dataset data{.name = "flat", .mean = {0.5}, .std = {0.5}, .split = "train"};
  data.images = (at::arange(8, at::kLong).view({8, 1, 1, 1}) * 16).expand({8, 3, 32, 32}).to(at::kByte);
  data.labels = at::zeros({8}, at::kLong);
  data.classes = {"any"};
  return data;
}

TEST(Scenes, DependOnTheSeedTheSplitAndTheIndexAlone) {
  const auto objects = square_objects(), backgrounds = flat_backgrounds();
  const auto one = compose_scenes(objects, backgrounds, {.count = 60, .seed = 3, .threads = 1});
  const auto many = compose_scenes(objects, backgrounds, {.count = 90, .seed = 3, .threads = 7});
  EXPECT_TRUE(at::equal(one.images, many.images.slice(0, 0, 60)));
  EXPECT_TRUE(at::equal(one.labels, many.labels.slice(0, 0, 60)));
  EXPECT_TRUE(at::equal(one.masks, many.masks.slice(0, 0, 60)));
  const auto test = compose_scenes(objects, backgrounds, {.count = 60, .seed = 3, .test = true});
  const auto other = compose_scenes(objects, backgrounds, {.count = 60, .seed = 4});
  EXPECT_FALSE(at::equal(one.images, test.images));
  EXPECT_FALSE(at::equal(one.images, other.images));
}

TEST(Scenes, LabelsAndMasksAgree) {
  const auto data = compose_scenes(square_objects(), flat_backgrounds(), {.count = 400, .seed = 1});
  EXPECT_EQ(data.images.sizes(), at::IntArrayRef({400, 3, 56, 56}));
  EXPECT_TRUE(data.multi_label());
  const auto counts = data.labels.sum(1);
  EXPECT_EQ(counts.min().item<int>(), 1);
  EXPECT_EQ(counts.max().item<int>(), 3);
  EXPECT_NEAR(counts.to(at::kDouble).mean().item<double>(), 1.95, 0.15);
  for (int64_t c = 0; c < 10; ++c) {
    const auto drawn = data.masks.eq(c + 1).flatten(1).any(1);
    EXPECT_TRUE(at::equal(drawn, data.labels.select(1, c).ne(0))) << "class " << c;
  }
  // At most a tenth of an object covers earlier ones: of these squares at least 8 rows and columns stay of any.
  const auto areas = data.masks.ne(0).flatten(1).sum(1);
  EXPECT_GE(areas.min().item<int>(), 100);
  // Objects are brighter than what an unlit background could be.
  const auto inside = data.images.to(at::kFloat).mean(1).masked_select(data.masks.ne(0)).mean().item<double>();
  EXPECT_GT(inside, 90);
}

TEST(Scenes, AreWrittenAndReadBack) {
  const TemporaryDirectory directory("scenes");
  const auto data = compose_scenes(square_objects(), flat_backgrounds(), {.count = 20, .test = true});
  write_scenes(data, directory.path);
  const std::string name = "scenes:" + directory.path.string();
  const auto back = load_dataset({.data = name, .split = "test", .limit = 15});
  EXPECT_TRUE(at::equal(back.images, data.images.slice(0, 0, 15)));
  EXPECT_TRUE(at::equal(back.labels, data.labels.slice(0, 0, 15)));
  EXPECT_TRUE(at::equal(back.masks, data.masks.slice(0, 0, 15)));
  EXPECT_EQ(back.mean, (std::vector<double>{0.45, 0.45, 0.45}));
  EXPECT_THROW(load_dataset({.data = name}), Error);
  directory.write("test-labels-idx2-ubyte", idx_of({20, 10}, std::string(200, '\2')));
  EXPECT_THROW(load_dataset({.data = name, .split = "test"}), Error);
  directory.write("test-labels-idx2-ubyte", idx_of({20, 9}, std::string(180, '\1')));
  EXPECT_THROW(load_dataset({.data = name, .split = "test"}), Error);
  directory.write("test-labels-idx2-ubyte", idx_of({20, 10}, std::string(200, '\1')));
  directory.write("test-masks-idx3-ubyte", idx_of({20, 56, 56}, std::string(20 * 56 * 56, '\x0b')));
  EXPECT_THROW(load_dataset({.data = name, .split = "test"}), Error);
}

TEST(Scenes, RefuseWhatTheyCannotBeMadeOf) {
  EXPECT_THROW(compose_scenes(square_objects(), flat_backgrounds(), {.count = 0}), Error);
  auto few = square_objects();
  few.labels = few.labels.remainder(2);
  EXPECT_THROW(compose_scenes(few, flat_backgrounds(), {}), Error);
  auto small = flat_backgrounds();
  small.images = small.images.slice(3, 0, 31);
  EXPECT_THROW(compose_scenes(square_objects(), small, {}), Error);
}

TEST(Loader, HandsOverSeveralLabelsWhateverTheThreads) {
  const auto data = compose_scenes(square_objects(), flat_backgrounds(), {.count = 50});
  std::vector<std::vector<at::Tensor>> seen;
  for (const int threads : {0, 1, 3}) {
    Loader loader(data, {.batch = 16, .shuffle = true, .seed = 2, .threads = threads});
    auto& labels = seen.emplace_back();
    while (auto batch = loader.next()) {
      EXPECT_EQ(batch->labels.scalar_type(), at::kFloat);
      labels.push_back(batch->labels);
    }
    ASSERT_EQ(labels.size(), 4u);
    EXPECT_EQ(labels[3].sizes(), at::IntArrayRef({2, 10}));
    EXPECT_TRUE(at::equal(at::cat(labels).sum(0), data.labels.sum(0).to(at::kFloat)));
    EXPECT_TRUE(at::equal(at::cat(labels), at::cat(seen[0])));
  }
}

}  // namespace
}  // namespace pare
