#include "pare/data/loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "pare/error.h"

namespace pare {
namespace {

// Image i is recognised by its first byte, and its label is i modulo 10.
Dataset numbered_images(int64_t count, int64_t channels = 3, int64_t side = 6) {
  Dataset data{.name = "numbers", .mean = {0.5}, .std = {0.25}, .split = "train"};
  data.images = at::empty({count, channels, side, side}, at::kByte);
  data.labels = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < data.images.numel(); ++i)
    data.images.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(i * 11 + i / 100);
  for (int64_t i = 0; i < count; ++i) {
    data.images[i][0][0][0] = i % 256;
    data.labels[i] = i % 10;
  }
  for (int i = 0; i < 10; ++i) data.classes.push_back(std::to_string(i));
  return data;
}

std::vector<Batch> epoch_of(Loader& loader) {
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

void expect_same(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].index, b[i].index);
    EXPECT_TRUE(at::equal(a[i].images, b[i].images)) << "batch " << i;
    EXPECT_TRUE(at::equal(a[i].labels, b[i].labels)) << "batch " << i;
  }
}

TEST(Loader, NormalisesAsTheFormulaSays) {
  auto data = numbered_images(10);
  data.mean = {0.1, 0.2, 0.3};
  data.std = {0.5, 0.25, 2};
  Loader loader(data, {.batch = 4});
  EXPECT_EQ(loader.batches(), 3);
  const auto batches = epoch_of(loader);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[2].images.size(0), 2);
  const auto mean = at::tensor(data.mean).view({1, 3, 1, 1}), std = at::tensor(data.std).view({1, 3, 1, 1});
  const auto expected = (data.images.to(at::kDouble) / 255 - mean) / std;
  const auto images = at::cat({batches[0].images, batches[1].images, batches[2].images});
  EXPECT_LT((images.to(at::kDouble) - expected).abs().max().item<double>(), 1e-6);
  EXPECT_TRUE(at::equal(at::cat({batches[0].labels, batches[1].labels, batches[2].labels}), data.labels));
  const auto direct = make_batch(loader.dataset(), 4, 8);
  EXPECT_TRUE(at::equal(direct.images, batches[1].images));
}

TEST(Loader, GivesEveryImageOncePerEpochInADifferentOrder) {
  const auto data = numbered_images(200);
  Loader loader(data, {.batch = 32, .shuffle = true, .seed = 4});
  std::vector<at::Tensor> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::multiset<int64_t> seen;
    std::vector<at::Tensor> labels;
    for (const auto& batch : epoch_of(loader)) {
      labels.push_back(batch.labels);
      for (int64_t i = 0; i < batch.images.size(0); ++i)
        seen.insert(std::lround((batch.images[i][0][0][0].item<double>() * 0.25 + 0.5) * 255));
    }
    EXPECT_EQ(seen.size(), 200u);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 200u);
    orders.push_back(at::cat(labels));
  }
  EXPECT_FALSE(at::equal(orders[0], orders[1]));
  EXPECT_FALSE(at::equal(orders[1], orders[2]));
  Loader other(data, {.batch = 32, .shuffle = true, .seed = 5});
  EXPECT_FALSE(at::equal(other.next()->labels, orders[0].slice(0, 0, 32)));
}

TEST(Loader, DependsOnTheSeedAloneWhateverTheThreads) {
  const auto data = numbered_images(150);
  LoaderOptions options{.batch = 16, .shuffle = true, .seed = 9, .threads = 0};
  options.augment = {.flip = true, .pad = 2, .cutout = 3};
  options.transform = [](at::Tensor images, Random& random) {
    images[0][0][0][0] = random.below(256);
    return images;
  };
  Loader reference(data, options);
  const std::vector<std::vector<Batch>> expected = {epoch_of(reference), epoch_of(reference)};
  for (const int threads : {1, 2, 5})
    for (const int64_t prefetch : {1, 3, 100}) {
      options.threads = threads;
      options.prefetch = prefetch;
      Loader loader(data, options);
      for (const auto& epoch : expected) expect_same(epoch_of(loader), epoch);
    }
}

// Images that are numbers already are augmented like bytes: the same drawings, and zeros where there is no image.
TEST(Loader, AugmentsNumbersAsBytes) {
  Dataset bytes = numbered_images(40);
  bytes.mean = {0};
  bytes.std = {1.0 / 255};
  Dataset numbers = bytes;
  numbers.images = bytes.images.to(at::kFloat);
  const LoaderOptions options{.batch = 16, .shuffle = true, .seed = 3, .augment = {.flip = true, .pad = 2}};
  Loader of_bytes(bytes, options), of_numbers(numbers, options);
  const auto expected = epoch_of(of_bytes), found = epoch_of(of_numbers);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::allclose(found[i].images, expected[i].images)) << i;
  EXPECT_THROW(Loader(numbers, {.augment = {.resized_crop = true}}), Error);
  numbers.images = numbers.images.slice(2, 0, 1).slice(3, 0, 1).contiguous();
  EXPECT_THROW(Loader(numbers, {.augment = {.flip = true}}), Error);
}

TEST(Loader, GoesBackToAStoredPosition) {
  const auto data = numbered_images(100);
  LoaderOptions options{.batch = 16, .shuffle = true, .seed = 2, .threads = 2};
  options.augment.flip = true;
  for (const int consumed : {0, 3, 7, 8, 11}) {  // seven batches an epoch, then the call that says it ended
    Loader first(data, options);
    for (int i = 0; i < consumed; ++i) first.next();
    const LoaderPosition stored = first.position();
    Loader second(data, options, stored);
    EXPECT_EQ(second.position(), stored);
    expect_same(epoch_of(first), epoch_of(second));
    first.seek(stored);
    second.seek(stored);
    expect_same(epoch_of(first), epoch_of(second));
    EXPECT_EQ(first.position(), (LoaderPosition{stored.epoch + 1, 0}));
  }
  Loader loader(data, options);
  EXPECT_THROW(loader.seek({0, 8}), Error);
  EXPECT_THROW(loader.seek({-1, 0}), Error);
  loader.seek({3, 7});
  EXPECT_FALSE(loader.next().has_value());
}

TEST(Loader, DropsTheLastBatchOnRequest) {
  Loader loader(numbered_images(10), {.batch = 4, .drop_last = true});
  EXPECT_EQ(loader.batches(), 2);
  EXPECT_EQ(epoch_of(loader).size(), 2u);
  EXPECT_THROW(Loader(numbered_images(3), {.batch = 4, .drop_last = true}), Error);
  EXPECT_THROW(Loader(numbered_images(3), {.batch = 0}), Error);
  EXPECT_THROW(Loader(numbered_images(3), {.prefetch = 0}), Error);
  EXPECT_THROW(Loader(numbered_images(3), {.threads = -1}), Error);
}

TEST(Loader, RethrowsWhatABackgroundThreadThrew) {
  for (const int threads : {0, 1, 3}) {
    LoaderOptions options{.batch = 2, .threads = threads};
    options.transform = [](at::Tensor images, Random&) {
      if (images[0][0][0][0].item<int>() == 6) throw Error(ErrorKind::failed, "test", "image six");
      return images;
    };
    Loader loader(numbered_images(12), options);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(loader.next().has_value());
    EXPECT_THROW(loader.next(), Error);
    EXPECT_THROW(loader.next(), Error);
    EXPECT_EQ(loader.position(), (LoaderPosition{0, 3}));
    loader.seek({0, 4});
    EXPECT_EQ(loader.next()->index, 4);
  }
  LoaderOptions options{.batch = 2};
  options.transform = [](at::Tensor images, Random&) { return images.slice(0, 0, 1); };
  Loader loader(numbered_images(12), options);
  EXPECT_THROW(loader.next(), Error);
}

TEST(Loader, KeepsABatchValidWhileItIsHeld) {
  Loader loader(numbered_images(400), {.batch = 8, .threads = 2});
  std::vector<Batch> held;
  std::vector<at::Tensor> copies, views;
  std::set<void*> blocks;
  int64_t seen = 0;
  while (auto batch = loader.next()) {
    blocks.insert(batch->images.data_ptr());
    copies.push_back(batch->images.clone());
    if (seen % 3 == 0) held.push_back(*batch);                       // the batch itself
    if (seen % 3 == 1) views.push_back(batch->images.select(0, 1));  // only a view of it
    ++seen;
  }
  for (size_t i = 0; i < held.size(); ++i) EXPECT_TRUE(at::equal(held[i].images, copies[3 * i])) << i;
  for (size_t i = 0; i < views.size(); ++i) EXPECT_TRUE(at::equal(views[i], copies[3 * i + 1][1])) << i;
  EXPECT_GE(blocks.size(), held.size() + views.size());
  held.clear();
  views.clear();
  blocks.clear();
  while (auto batch = loader.next()) blocks.insert(batch->images.data_ptr());
  EXPECT_LE(blocks.size(), 16u) << "memory was not used again";
}

TEST(Loader, LeavesBatchesBehind) {
  auto loader = std::make_unique<Loader>(numbered_images(20), LoaderOptions{.batch = 8});
  const auto first = loader->next()->images;
  const auto copy = first.clone();
  loader.reset();
  EXPECT_TRUE(at::equal(first, copy));
}

TEST(Loader, MakesNoMoreThanItIsAskedFor) {
  std::atomic<int> made = 0;
  LoaderOptions options{.batch = 1, .threads = 3, .prefetch = 4};
  options.transform = [&](at::Tensor images, Random&) {
    ++made;
    return images;
  };
  {
    Loader loader(numbered_images(100), options);
    loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LE(made, 5);
    while (loader.next()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(made, 100) << "an epoch nobody asked for was begun";
  }
}

TEST(Loader, StopsPromptly) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) {
    Loader loader(numbered_images(1000), {.batch = 10, .shuffle = true, .threads = 3});
    if (i % 2 == 0) loader.next();
    if (i % 5 == 0) loader.seek({i, 3});
    Loader moved = std::move(loader);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace pare
