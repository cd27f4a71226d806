// PNG by libpng. libpng reports errors by longjmp, which must not skip destructors: every call into it goes through
// `guarded`, whose frame holds nothing to destroy, and the C++ exception is thrown after it returned.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <type_traits>
#include <vector>

#include "pare/data/image_rows.h"
#include "pare/error.h"

namespace pare {

namespace {

struct PngSource {
  std::span<const std::byte> bytes;
  size_t position = 0;
  char message[200] = {};
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source->message, message, sizeof source->message - 1);
  png_longjmp(png, 1);
}

void on_png_warning(png_structp, png_const_charp) {}

void on_png_read(png_structp png, png_bytep out, size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->bytes.size() - source->position) png_error(png, "the file ends early");
  std::memcpy(out, source->bytes.data() + source->position, count);
  source->position += count;
}

class PngRows : public ImageRows {
 public:
  PngRows(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels)
      : where_(where), source_{.bytes = bytes} {
    handle_.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_png_error, on_png_warning);
    handle_.info = handle_.png != nullptr ? png_create_info_struct(handle_.png) : nullptr;
    if (handle_.info == nullptr)
      throw Error(ErrorKind::failed, where_, "libpng {} cannot start", PNG_LIBPNG_VER_STRING);
    read_header(max_pixels);
  }

  void read(const Row& row) override {
    const auto size = static_cast<size_t>(width * channels);
    if (passes_ > 1) return read_interlaced(row, size);
    std::vector<uint8_t> pixels(size);
    for (int64_t y = 0; y < height; ++y) {
      read_row(pixels.data());
      row(y, pixels.data());
    }
    finish();
  }

 private:
  struct Handle {
    png_structp png = nullptr;
    png_infop info = nullptr;
    ~Handle() { png_destroy_read_struct(&png, &info, nullptr); }
  };

  template <typename Call>
  static bool guarded(png_structp png, Call call) {
    static_assert(std::is_trivially_destructible_v<Call>);
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    call();
    return true;
  }

  template <typename Call>
  void check(Call call) {
    if (!guarded(handle_.png, call)) throw Error(ErrorKind::format, where_, "not a whole PNG: {}", source_.message);
  }

  void read_header(int64_t max_pixels) {
    png_structp png = handle_.png;
    png_infop info = handle_.info;
    check([=, this] {
      png_set_read_fn(png, &source_, on_png_read);
      png_set_user_limits(png, 0x7fffffff, 0x7fffffff);
      png_set_chunk_malloc_max(png, 8'000'000);
      png_read_info(png, info);
    });
    width = png_get_image_width(png, info);
    height = png_get_image_height(png, info);
    if (width > max_pixels / height)
      throw Error(ErrorKind::format, where_, "{} x {} pixels, more than the {} allowed", width, height, max_pixels);
    const uint64_t raw = static_cast<uint64_t>(png_get_rowbytes(png, info)) * static_cast<uint64_t>(height);
    if (raw > source_.bytes.size() * max_expansion)
      throw Error(ErrorKind::format, where_, "{} bytes cannot hold the {} x {} pixels that the header promises",
                  source_.bytes.size(), width, height);
    check([=, this] {
      png_set_palette_to_rgb(png);
      if (png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
      png_set_scale_16(png);
      png_set_strip_alpha(png);
      passes_ = png_set_interlace_handling(png);
      png_read_update_info(png, info);
    });
    channels = png_get_channels(png, info);
    if ((channels != 1 && channels != 3) || png_get_bit_depth(png, info) != 8)
      throw Error(ErrorKind::format, where_, "{} channels of {} bits, expected 1 or 3 of 8", channels,
                  static_cast<int>(png_get_bit_depth(png, info)));
  }

  void read_row(uint8_t* pixels) {
    png_structp png = handle_.png;
    check([=] { png_read_row(png, pixels, nullptr); });
  }

  // Each pass fills in more pixels of every row, so the rows stay until the last pass.
  void read_interlaced(const Row& row, size_t size) {
    std::vector<uint8_t> pixels(size * static_cast<size_t>(height));
    for (int pass = 0; pass < passes_; ++pass)
      for (int64_t y = 0; y < height; ++y) read_row(pixels.data() + static_cast<size_t>(y) * size);
    finish();
    for (int64_t y = 0; y < height; ++y) row(y, pixels.data() + static_cast<size_t>(y) * size);
  }

  void finish() {
    png_structp png = handle_.png;
    check([=] { png_read_end(png, nullptr); });
  }

  std::string where_;
  PngSource source_;
  Handle handle_;
  int passes_ = 1;
};

}  // namespace

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, 8) == 0;
}

std::unique_ptr<ImageRows> open_png(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels) {
  return std::make_unique<PngRows>(bytes, where, max_pixels);
}

}  // namespace pare
