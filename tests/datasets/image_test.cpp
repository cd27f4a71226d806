#include "pare/data/image.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <png.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>

#include "datasets/bytes.h"
#include "datasets/samples.h"
#include "pare/core/file.h"
#include "pare/error.h"

namespace pare {
namespace {

at::Tensor image_pattern(int64_t channels, int64_t height, int64_t width) {
  auto image = at::empty({channels, height, width}, at::kByte);
  for (int64_t i = 0; i < image.numel(); ++i) image.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(i * i * 7 + i * 13);
  return image;
}

// A PNG written by libpng in any of its forms, unlike encode_png which writes only one.
std::string png_with(int64_t height, int64_t width, int color_type, int depth, bool interlaced) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), n);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), depth, color_type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_color palette[4] = {{10, 20, 30}, {40, 50, 60}, {70, 80, 90}, {100, 110, 120}};
  if (color_type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 4);
  png_write_info(png, info);
  const size_t row_bytes = png_get_rowbytes(png, info);
  std::vector<uint8_t> pixels(row_bytes * static_cast<size_t>(height));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 29 + i / 7);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < height; ++y) rows.push_back(pixels.data() + static_cast<size_t>(y) * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

TEST(DecodeImage, ReadsWhatPilReads) {
  for (const auto* sample : samples::all) {
    const auto image = decode_image(bytes_of(samples::from_hex(sample->file)), sample->name);
    const std::string pixels = samples::from_hex(sample->pixels);
    ASSERT_EQ(image.sizes(), at::IntArrayRef({sample->channels, sample->height, sample->width})) << sample->name;
    const auto interleaved = image.permute({1, 2, 0}).contiguous();
    EXPECT_EQ(std::memcmp(interleaved.data_ptr<uint8_t>(), pixels.data(), pixels.size()), 0) << sample->name;
  }
}

TEST(DecodeImage, GivesGrayOrColourOnRequest) {
  const auto rgb = image_pattern(3, 5, 4), gray = image_pattern(1, 5, 4);
  const auto as_gray = decode_image(bytes_of(encode_png(rgb)), "rgb", {.color = ImageColor::gray});
  ASSERT_EQ(as_gray.sizes(), at::IntArrayRef({1, 5, 4}));
  for (int64_t y = 0; y < 5; ++y)
    for (int64_t x = 0; x < 4; ++x) {
      const double l =
          0.299 * rgb[0][y][x].item<int>() + 0.587 * rgb[1][y][x].item<int>() + 0.114 * rgb[2][y][x].item<int>();
      EXPECT_NEAR(as_gray[0][y][x].item<int>(), l, 0.501);
    }
  const auto as_rgb = decode_image(bytes_of(encode_png(gray)), "gray", {.color = ImageColor::rgb});
  EXPECT_TRUE(at::equal(as_rgb, gray.expand({3, 5, 4})));
}

TEST(DecodeImage, ReadsInterlacedAsPlain) {
  for (const int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA, PNG_COLOR_TYPE_GRAY_ALPHA})
    for (const int depth : {8, 16}) {
      const auto plain = decode_image(bytes_of(png_with(13, 17, type, depth, false)), "plain");
      const auto interlaced = decode_image(bytes_of(png_with(13, 17, type, depth, true)), "interlaced");
      EXPECT_TRUE(at::equal(plain, interlaced)) << type << " " << depth;
    }
  const auto bits = decode_image(bytes_of(png_with(9, 12, PNG_COLOR_TYPE_PALETTE, 2, false)), "palette");
  EXPECT_EQ(bits.size(0), 3);
  EXPECT_TRUE(at::equal(bits, decode_image(bytes_of(png_with(9, 12, PNG_COLOR_TYPE_PALETTE, 2, true)), "palette")));
}

// The four inks of the sample at the left of its first row are none: white. PIL's own encoder writes them inverted.
TEST(DecodeImage, TurnsCmykIntoRgb) {
  const std::string cmyk = samples::from_hex(
      "ffd8ffee000e41646f626500640000000000ffdb0043000201010101010201010102020202020403020202020504040304060506"
      "060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affc000140800060009044311004d110059"
      "11004b1100ffc400160001010100000000000000000000000000090708ffc4002d10000002040b09000000000000000000000041"
      "0204060701030508162123425191e1091718222425526292ffda000e0443004d0059004b00003f00b3ed6d9c7b41dcf9636fded4"
      "2653b678f28755526661767f4d7addb549198661edb46b16b54266097e23da0f18dfad464bde3ca18279883d315af6125a46b184"
      "398fffd9");
  const auto image = decode_image(bytes_of(cmyk), "cmyk");
  ASSERT_EQ(image.sizes(), at::IntArrayRef({3, 6, 9}));
  const int expected[3][3] = {{255, 231, 207}, {255, 241, 226}, {255, 244, 233}};  // PIL's, for x = 0, 1, 2
  for (int c = 0; c < 3; ++c)
    for (int x = 0; x < 3; ++x) EXPECT_NEAR(image[c][0][x].item<int>(), expected[c][x], 1);
}

TEST(EncodePng, ComesBackTheSame) {
  for (const int64_t channels : {1, 3}) {
    const auto image = image_pattern(channels, 6, 9);
    EXPECT_TRUE(at::equal(decode_image(bytes_of(encode_png(image)), "png"), image));
  }
  EXPECT_EQ(decode_image(bytes_of(encode_png(image_pattern(4, 2, 2))), "rgba").size(0), 3);
  EXPECT_THROW(encode_png(image_pattern(2, 6, 9)), Error);
  EXPECT_THROW(encode_png(at::zeros({3, 4, 4})), Error);
  const auto path = std::filesystem::path(testing::TempDir()) / "pare_image.png";
  const auto plane = image_pattern(1, 6, 9)[0];
  write_png(path, plane);
  EXPECT_TRUE(at::equal(read_image(path)[0], plane));
}

TEST(DecodeImage, RefusesEveryTruncation) {
  for (const auto* sample : samples::all) {
    const std::string file = samples::from_hex(sample->file);
    for (size_t size = 0; size < file.size(); ++size) {
      // A JPEG without its last marker is whole in all that matters, and libjpeg may have read all it needs.
      if (file[0] == '\xff' && size + 2 >= file.size()) continue;
      EXPECT_THROW(decode_image(bytes_of(std::string_view(file).substr(0, size)), sample->name), Error)
          << sample->name << " cut to " << size << " of " << file.size();
    }
  }
}

TEST(DecodeImage, SurvivesEveryBitFlip) {
  for (const auto* sample : samples::all) {
    const std::string file = samples::from_hex(sample->file);
    size_t loaded = 0;
    for (size_t bit = 0; bit < file.size() * 8; ++bit) {
      std::string broken = file;
      broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
      try {
        const auto image = decode_image(bytes_of(broken), sample->name);
        ASSERT_LE(image.numel(), static_cast<int64_t>(file.size()) * 1100 * 24);
        ++loaded;
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::format) << error.what();
      }
    }
    EXPECT_LT(loaded, file.size() * 8) << sample->name;
  }
}

TEST(DecodeImage, RefusesAbsurdSizesBeforeTakingMemory) {
  std::string png = encode_png(image_pattern(3, 4, 4));
  const auto claim = [&](uint32_t width, uint32_t height) {
    for (int i = 0; i < 4; ++i) {
      png[static_cast<size_t>(16 + i)] = static_cast<char>(width >> (24 - 8 * i));
      png[static_cast<size_t>(20 + i)] = static_cast<char>(height >> (24 - 8 * i));
    }
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(png.data() + 12), 17);
    for (int i = 0; i < 4; ++i) png[static_cast<size_t>(29 + i)] = static_cast<char>(crc >> (24 - 8 * i));
  };
  for (const auto& [w, h] :
       {std::pair{60000u, 60000u}, {16000u, 16000u}, {1u, 200000000u}, {0x7fffffffu, 0x7fffffffu}}) {
    claim(w, h);
    EXPECT_THROW(decode_image(bytes_of(png), "bomb"), Error) << w << " x " << h;
  }
  std::string jpeg = samples::from_hex(samples::progressive_jpeg.file);
  const size_t frame = jpeg.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 5; i < 9; ++i) jpeg[frame + i] = '\x3a';  // 14906 x 14906
  EXPECT_THROW(decode_image(bytes_of(jpeg), "bomb"), Error);
  EXPECT_THROW(decode_image(bytes_of(encode_png(image_pattern(1, 9, 9))), "small", {.max_pixels = 80}), Error);
  EXPECT_NO_THROW(decode_image(bytes_of(encode_png(image_pattern(1, 9, 9))), "small", {.max_pixels = 81}));
}

TEST(DecodeImage, NamesWhatItIsNot) {
  EXPECT_THROW(decode_image(bytes_of("GIF89a"), "gif"), Error);
  EXPECT_THROW(decode_image({}, "nothing"), Error);
  EXPECT_THROW(read_image("/nonexistent.png"), Error);
}

// Values of Image.fromarray(a).resize((w, h), Image.BILINEAR) in PIL 9.4.
TEST(ResizeBilinear, IsPilsBitForBit) {
  auto image = at::empty({1, 7, 11}, at::kByte);
  for (int y = 0; y < 7; ++y)
    for (int x = 0; x < 11; ++x)
      image.data_ptr<uint8_t>()[y * 11 + x] = static_cast<uint8_t>(37 * y * y + 91 * x + 13 * x * y);
  const auto check = [&](int64_t h, int64_t w, const std::vector<int64_t>& expected) {
    const auto out = resize_bilinear(image, h, w);
    ASSERT_EQ(out.sizes(), at::IntArrayRef({1, h, w}));
    EXPECT_TRUE(at::equal(out.flatten().to(at::kLong), at::tensor(expected))) << h << " x " << w;
    const auto both = resize_bilinear(at::cat({image, 255 - image}), h, w);  // planes do not mix
    EXPECT_TRUE(at::equal(both[0], out[0]));
  };
  check(3, 4, {107, 135, 140, 129, 134, 149, 139, 141, 138, 123, 128, 123});
  check(14, 5, {74,  90,  127, 126, 117, 86,  108, 125, 140, 120, 109, 145, 120, 169, 125, 112, 162, 128,
                170, 121, 93,  161, 149, 145, 108, 96,  157, 159, 138, 114, 121, 150, 156, 150, 138, 137,
                157, 140, 148, 153, 144, 176, 113, 133, 160, 142, 168, 101, 131, 148, 131, 134, 106, 142,
                118, 129, 118, 113, 144, 107, 136, 121, 124, 139, 114, 140, 122, 129, 136, 118});
  check(1, 1, {133});
  EXPECT_TRUE(at::equal(resize_bilinear(image, 7, 11), image));
  EXPECT_THROW(resize_bilinear(image, 0, 3), Error);
}

}  // namespace
}  // namespace pare
