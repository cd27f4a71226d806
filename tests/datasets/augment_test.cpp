#include "pare/data/augment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "pare/data/image.h"
#include "pare/error.h"

namespace pare {
namespace {

at::Tensor augment_images(int64_t count, int64_t channels, int64_t height, int64_t width) {
  auto images = at::empty({count, channels, height, width}, at::kByte);
  for (int64_t i = 0; i < images.numel(); ++i) images.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(1 + i * 37 % 251);
  return images;
}

at::Tensor as_numbers(const at::Tensor& bytes) { return bytes.to(at::kFloat); }

// Pixel by pixel, from the meaning of each drawing.
at::Tensor oracle(
    const at::Tensor& images, const std::vector<ImageAugmentation>& drawn,
    const std::function<int(const ImageAugmentation&, int64_t n, int64_t c, int64_t y, int64_t x)>& pixel) {
  auto out = at::empty_like(images);
  for (int64_t n = 0; n < images.size(0); ++n)
    for (int64_t c = 0; c < images.size(1); ++c)
      for (int64_t y = 0; y < images.size(2); ++y)
        for (int64_t x = 0; x < images.size(3); ++x) out[n][c][y][x] = pixel(drawn[static_cast<size_t>(n)], n, c, y, x);
  return out;
}

TEST(Augment, PadsAndCropsAsTheDefinitionSays) {
  const auto images = augment_images(12, 2, 5, 7);
  for (const int64_t pad : {1, 2, 9}) {
    Random random(5);
    const auto drawn = draw_augmentations({.pad = pad}, 12, 5, 7, random);
    const auto padded = at::constant_pad_nd(images, {pad, pad, pad, pad}, 0);
    const auto expected = oracle(images, drawn, [&](const auto& one, int64_t n, int64_t c, int64_t y, int64_t x) {
      return padded[n][c][one.crop.top + y][one.crop.left + x].template item<int>();
    });
    EXPECT_TRUE(at::equal(pad_and_crop(images, pad, drawn), expected)) << pad;
    EXPECT_TRUE(at::equal(pad_and_crop(as_numbers(images), pad, drawn), as_numbers(expected))) << pad;
  }
}

TEST(Augment, FlipsAsTheDefinitionSays) {
  const auto images = augment_images(16, 3, 4, 5);
  Random random(1);
  const auto drawn = draw_augmentations({.flip = true}, 16, 4, 5, random);
  const auto expected = oracle(images, drawn, [&](const auto& one, int64_t n, int64_t c, int64_t y, int64_t x) {
    return images[n][c][y][one.flip ? 4 - x : x].template item<int>();
  });
  EXPECT_TRUE(at::equal(flip_horizontally(images, drawn), expected));
  EXPECT_TRUE(at::equal(flip_horizontally(as_numbers(images), drawn), as_numbers(expected)));
  EXPECT_FALSE(at::equal(expected, images));
}

TEST(Augment, CutsOutAsTheDefinitionSays) {
  const auto images = augment_images(10, 2, 6, 7);
  for (const int64_t side : {1, 3, 4, 20}) {
    Random random(2);
    const auto drawn = draw_augmentations({.cutout = side}, 10, 6, 7, random);
    const auto expected = oracle(images, drawn, [&](const auto& one, int64_t n, int64_t c, int64_t y, int64_t x) {
      const int64_t top = one.cut_y - side / 2, left = one.cut_x - side / 2;
      const bool cut = y >= top && y < top + side && x >= left && x < left + side;
      return cut ? (c == 0 ? 7 : 9) : images[n][c][y][x].template item<int>();
    });
    EXPECT_TRUE(at::equal(cut_out(images, side, drawn, {7, 9}), expected)) << side;
    EXPECT_TRUE(at::equal(cut_out(as_numbers(images), side, drawn, {7, 9}), as_numbers(expected))) << side;
  }
  EXPECT_THROW(cut_out(images, 2, std::vector<ImageAugmentation>(10), {7}), Error);
}

TEST(Augment, CropsAndScalesEachImageOnItsOwn) {
  const auto images = augment_images(10, 3, 9, 8);
  Random random(4);
  const auto drawn = draw_augmentations({.resized_crop = true}, 10, 9, 8, random);
  const auto result = resized_crop(images, drawn);
  for (int64_t n = 0; n < 10; ++n) {
    const Box& box = drawn[static_cast<size_t>(n)].crop;
    const auto crop = images[n].slice(1, box.top, box.top + box.height).slice(2, box.left, box.left + box.width);
    EXPECT_TRUE(at::equal(result[n], resize_bilinear(crop.contiguous(), 9, 8))) << n;
  }
  EXPECT_THROW(resized_crop(as_numbers(images), drawn), Error);
}

TEST(Augment, DrawsWithinBoundsAndReachesThem) {
  Random random(8);
  std::set<int64_t> tops, cuts;
  int64_t flips = 0;
  const auto drawn = draw_augmentations({.flip = true, .pad = 2, .cutout = 3}, 4000, 6, 5, random);
  for (const auto& one : drawn) {
    tops.insert(one.crop.top);
    cuts.insert(one.cut_x);
    flips += one.flip;
  }
  EXPECT_EQ(tops, (std::set<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(cuts, (std::set<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_NEAR(static_cast<double>(flips) / 4000, 0.5, 0.04);  // five standard deviations
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{32, 32}, {3, 60}, {60, 3}, {1, 1}})
    for (const auto& one : draw_augmentations({.resized_crop = true}, 500, h, w, random)) {
      const Box& box = one.crop;
      ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1);
      ASSERT_TRUE(box.top + box.height <= h && box.left + box.width <= w);
    }
}

TEST(Augment, AppliesCropThenFlipThenCut) {
  const auto images = augment_images(6, 1, 5, 5);
  const AugmentOptions options{.flip = true, .pad = 1, .cutout = 2};
  Random random(3), again(3);
  const auto result = augment(images, options, {4}, random);
  const auto drawn = draw_augmentations(options, 6, 5, 5, again);
  const auto expected = cut_out(flip_horizontally(pad_and_crop(images, 1, drawn), drawn), 2, drawn, {4});
  EXPECT_TRUE(at::equal(result, expected));
  EXPECT_TRUE(at::equal(images, augment_images(6, 1, 5, 5))) << "the input was written to";
  EXPECT_THROW(flip_horizontally(at::zeros({6, 1, 5, 5}, at::kLong), drawn), Error);
}

TEST(ParseAugment, TakesNamesAndNumbers) {
  EXPECT_FALSE(parse_augment("none").any());
  EXPECT_FALSE(parse_augment("").any());
  const auto standard = parse_augment("standard");
  EXPECT_TRUE(standard.flip);
  EXPECT_EQ(standard.pad, 4);
  const auto all = parse_augment("flip,crop:2,cutout:8");
  EXPECT_TRUE(all.flip);
  EXPECT_EQ(all.pad, 2);
  EXPECT_EQ(all.cutout, 8);
  EXPECT_TRUE(parse_augment("resized-crop").resized_crop);
  for (const char* wrong : {"flop", "flip,", "crop:", "crop:x", "crop:0", "crop:-1", "cutout:99999999999", "flip:2",
                            "crop,resized-crop", ",", "none,flip"})
    EXPECT_THROW(parse_augment(wrong), Error) << wrong;
}

TEST(RandomNumbers, AreTheSameEverywhere) {
  // The 10000th draw of a default-seeded std::mt19937_64 is fixed by the standard; the rest follows from it.
  Random standard(5489);
  for (int i = 1; i < 10000; ++i) standard.bits();
  EXPECT_EQ(standard.bits(), 9981545732273789042u);
  Random random(7);
  std::vector<int64_t> counts(6);
  for (int i = 0; i < 60000; ++i) ++counts[static_cast<size_t>(random.below(6))];
  for (const int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 10000, 500);
  auto order = random_permutation(1000, random);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_NE(mix_seed({1, 2}), mix_seed({2, 1}));
  EXPECT_NE(mix_seed({0}), mix_seed({0, 0}));
}

}  // namespace
}  // namespace pare
