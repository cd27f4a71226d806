#include "pare/data/preprocess.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bytes.h"
#include "pare/data/dataset.h"
#include "pare/data/image.h"
#include "pare/data/loader.h"
#include "pare/error.h"

namespace pare {
namespace {

at::Tensor photograph(int64_t height, int64_t width) {
  return at::randint(256, {3, height, width}, at::TensorOptions(at::kByte));
}

// One row of values resampled to `to` places, as the definition of a triangle filter says, one place after the other.
std::vector<double> resampled(const std::vector<double>& row, int64_t to) {
  const double scale = static_cast<double>(row.size()) / static_cast<double>(to), support = std::max(scale, 1.0);
  std::vector<double> out;
  for (int64_t i = 0; i < to; ++i) {
    double sum = 0, weights = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      const double distance = std::abs(static_cast<double>(k) + 0.5 - (static_cast<double>(i) + 0.5) * scale) / support;
      const double weight = std::max(0.0, 1 - distance);
      sum += weight * row[k];
      weights += weight;
    }
    out.push_back(std::round(sum / weights));
  }
  return out;
}

// torchvision's Resize(256 · size / 224), CenterCrop(size), slowly: rows, then columns, then the pixels one by one.
at::Tensor slow_imagenet(const at::Tensor& image, int64_t size) {
  const int64_t h = image.size(1), w = image.size(2);
  const auto shorter = static_cast<int64_t>(std::lround(256.0 * static_cast<double>(size) / 224));
  const auto longer =
      static_cast<int64_t>(static_cast<double>(shorter * std::max(h, w)) / static_cast<double>(std::min(h, w)));
  const int64_t tall = h <= w ? shorter : longer, wide = w <= h ? shorter : longer;
  const auto first = [](int64_t extent, int64_t part) {  // int(round((extent - part) / 2.0)) of Python
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(extent - part) / 2));
  };
  at::Tensor out = at::zeros({3, size, size}, at::kDouble);
  for (int64_t c = 0; c < 3; ++c) {
    std::vector<std::vector<double>> rows;
    for (int64_t y = 0; y < h; ++y) {
      std::vector<double> row;
      for (int64_t x = 0; x < w; ++x) row.push_back(image[c][y][x].item<double>());
      rows.push_back(resampled(row, wide));
    }
    for (int64_t x = 0; x < size; ++x) {
      std::vector<double> column;
      for (const auto& row : rows) column.push_back(row[static_cast<size_t>(x + first(wide, size))]);
      const auto all = resampled(column, tall);
      for (int64_t y = 0; y < size; ++y) out[c][y][x] = all[static_cast<size_t>(y + first(tall, size))];
    }
  }
  return out;
}

TEST(Preprocess, ImagenetIsTheConventionWrittenSlowly) {
  for (const auto& [h, w, size] : {std::tuple{40, 60, 28}, {61, 37, 28}, {20, 20, 21}, {33, 90, 14}, {57, 29, 7}}) {
    const at::Tensor image = photograph(h, w);
    const at::Tensor fast = fit_image(image, {size, size}, ImageFit::imagenet).to(at::kDouble);
    const at::Tensor slow = slow_imagenet(image, size);
    // Coefficients in fixed point may round a half the other way, and up to one place in twelve is just a half (20 to
    // 24).
    EXPECT_LE((fast - slow).abs().max().item<double>(), 1) << h << " x " << w << " to " << size;
    EXPECT_LE((fast - slow).ne(0).to(at::kDouble).mean().item<double>(), 1.0 / 12) << h << " x " << w << " to " << size;
  }
}

TEST(Preprocess, ImagenetTakesTheCentreOfWhatIsScaledTo256) {
  const at::Tensor image = photograph(300, 451);
  const at::Tensor scaled = resize_bilinear(image, 256, 384);  // int(256 · 451 / 300) = 384
  EXPECT_TRUE(at::equal(fit_image(image, {224, 224}, ImageFit::imagenet), scaled.slice(1, 16, 240).slice(2, 80, 304)));
}

TEST(Preprocess, OfAnInputThatIsNotSquareKeepsTheProportions) {
  const at::Tensor image = photograph(100, 100);
  EXPECT_TRUE(at::equal(fit_image(image, {20, 40}, ImageFit::crop), resize_bilinear(image.slice(1, 25, 75), 20, 40)));
  const at::Tensor scaled = resize_bilinear(image, 46, 46);  // 256 · 40 / 224
  EXPECT_TRUE(at::equal(fit_image(image, {20, 40}, ImageFit::imagenet), scaled.slice(1, 13, 33).slice(2, 3, 43)));
  for (const ImageFit fit : {ImageFit::stretch, ImageFit::crop, ImageFit::imagenet}) {
    EXPECT_EQ(fit_image(photograph(3, 50), {7, 9}, fit).sizes(), at::IntArrayRef({3, 7, 9})) << to_string(fit);
    EXPECT_EQ(fit_mask(photograph(50, 3)[0], {9, 7}, fit).sizes(), at::IntArrayRef({9, 7})) << to_string(fit);
    EXPECT_EQ(image_fit_of(to_string(fit)), fit);
  }
  EXPECT_THROW(image_fit_of("squeeze"), Error);
}

TEST(Preprocess, MasksGoWithTheirPictures) {
  // A picture of large flat squares: wherever it is flat, the mask that is cut the same way has the same class.
  at::Tensor mask = at::zeros({60, 90}, at::kByte);
  mask.slice(0, 10, 40).slice(1, 20, 70).fill_(200);
  const at::Tensor image = mask.unsqueeze(0).expand({3, 60, 90}).contiguous();
  for (const ImageFit fit : {ImageFit::stretch, ImageFit::crop, ImageFit::imagenet}) {
    const at::Tensor seen = fit_image(image, {30, 30}, fit)[0], classes = fit_mask(mask, {30, 30}, fit);
    const at::Tensor flat = seen.eq(0).logical_or(seen.eq(200));
    EXPECT_GT(flat.sum().item<int64_t>(), 600) << to_string(fit);
    EXPECT_TRUE(at::equal(seen.masked_select(flat), classes.masked_select(flat))) << to_string(fit);
  }
}

TEST(Preprocess, AGuessGoesByTheSizeOfTheInput) {
  EXPECT_EQ(usual_fit(3, 224, 224), ImageFit::imagenet);
  EXPECT_EQ(usual_fit(3, 32, 32), ImageFit::crop);
  EXPECT_EQ(usual_fit(1, 224, 224), ImageFit::crop);
}

TEST(ImageFolder, TakesClassesInTheOrderOfAMap) {
  const TemporaryDirectory directory("mapped");
  directory.write("dog/1.png", encode_png(photograph(4, 4)));
  directory.write("n02/1.png", encode_png(photograph(4, 4)));
  directory.write("classes.txt", "hen\nn02 tabby, tabby cat\r\n\ndog\n");
  const std::string name = "folder:" + directory.path.string();
  const auto data = load_dataset({.data = name});
  EXPECT_EQ(data.classes, (std::vector<std::string>{"hen", "n02 tabby, tabby cat", "dog"}));
  EXPECT_TRUE(at::equal(data.labels, at::tensor({2, 1}, at::kLong))) << data.labels;
  directory.write("other.txt", "dog\nn02\n");
  const auto other = load_dataset({.data = name, .class_map = (directory.path / "other.txt").string()});
  EXPECT_TRUE(at::equal(other.labels, at::tensor({0, 1}, at::kLong)));
  directory.write("other.txt", "dog\n");
  EXPECT_THROW(load_dataset({.data = name, .class_map = (directory.path / "other.txt").string()}), Error);
  std::filesystem::remove(directory.path / "classes.txt");
  const auto known = load_dataset({.data = name, .known_classes = {"x", "n02", "dog"}});
  EXPECT_TRUE(at::equal(known.labels, at::tensor({2, 1}, at::kLong)));
  // Names that the model does not know are not forced into its order.
  EXPECT_EQ(load_dataset({.data = name, .known_classes = {"x", "dog"}}).classes.size(), 2u);
}

// A picture whose right half is white: an image fitted by `crop` never shows its right end, a crop of the full one
// does.
TEST(Loader, CropsAtRandomOutOfTheFullPicture) {
  const TemporaryDirectory directory("full");
  at::Tensor wide = at::zeros({3, 16, 64}, at::kByte);
  wide.slice(2, 48, 64).fill_(255);
  for (const char* file : {"a/1.png", "a/2.png", "a/3.png", "a/4.png"}) directory.write(file, encode_png(wide));
  const auto data = load_dataset({.data = "folder:" + directory.path.string(), .mean = {0}, .std = {1}, .size = 8});
  EXPECT_EQ(data.preprocess, "crop");
  ASSERT_EQ(data.files.size(), 4u);
  EXPECT_EQ(data.images.max().item<int>(), 0);
  const LoaderOptions options{.batch = 2, .seed = 3, .threads = 0, .augment = {.resized_crop = true}};
  Loader loader(data, options);
  double brightest = 0;
  for (int epoch = 0; epoch < 8; ++epoch)
    while (const auto batch = loader.next()) brightest = std::max(brightest, batch->images.max().item<double>());
  EXPECT_GT(brightest, 0.99);
  // Parts of a batch are drawn as the whole.
  Loader whole(data, options);
  LoaderOptions half = options;
  half.parts = 2;
  half.part = 1;
  Loader second(data, half);
  EXPECT_TRUE(at::equal(whole.next()->images[1], second.next()->images[0]));
  // Places, not files, move when samples are chosen.
  EXPECT_EQ(samples_at(data, at::tensor({2, 0}, at::kLong)).files[0].path.filename(), "3.png");
}

}  // namespace
}  // namespace pare
