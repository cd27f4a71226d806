// JPEG by libjpeg-turbo. As with libpng, longjmp stays inside `guarded`, whose frame holds nothing to destroy.
// libjpeg fills what a truncated file lacks with gray and only warns; here those warnings are errors.
#include <cstdio>
// jpeglib.h needs stdio.h before it
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstring>
#include <type_traits>
#include <vector>

#include "pare/data/image_rows.h"
#include "pare/error.h"

namespace pare {

namespace {

constexpr int max_jpeg_scans = 200;  // a progressive file has about ten; each scan costs a walk over the whole image

struct JpegErrors {
  jpeg_error_mgr manager;  // first, so that a jpeg_error_mgr* is a JpegErrors*
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_jpeg_error(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->message);
  std::longjmp(errors->jump, 1);
}

void on_jpeg_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_BOGUS_PROGRESSION: on_jpeg_error(jpeg);
    default: break;  // bytes between markers, odd application data: harmless
  }
}

void on_jpeg_progress(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= max_jpeg_scans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", max_jpeg_scans);
  std::longjmp(errors->jump, 1);
}

class JpegRows : public ImageRows {
 public:
  JpegRows(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels)
      : where_(where), bytes_(bytes) {
    handle_.jpeg.err = jpeg_std_error(&handle_.errors.manager);
    handle_.errors.manager.error_exit = on_jpeg_error;
    handle_.errors.manager.emit_message = on_jpeg_message;
    handle_.errors.message[0] = 0;
    read_header(max_pixels);
  }

  void read(const Row& row) override {
    auto* jpeg = &handle_.jpeg;
    check([=] { jpeg_start_decompress(jpeg); });
    std::vector<uint8_t> pixels(static_cast<size_t>(width) * 4);
    uint8_t* line = pixels.data();
    for (int64_t y = 0; y < height; ++y) {
      check([=] {
        JSAMPROW rows[] = {line};
        if (jpeg_read_scanlines(jpeg, rows, 1) != 1) ERREXIT(jpeg, JERR_INPUT_EOF);
      });
      if (jpeg->out_color_space == JCS_CMYK) cmyk_to_rgb(line);
      row(y, line);
    }
    check([=] { jpeg_finish_decompress(jpeg); });
  }

 private:
  struct Handle {
    jpeg_decompress_struct jpeg = {};
    JpegErrors errors = {};
    jpeg_progress_mgr progress = {};
    ~Handle() { jpeg_destroy_decompress(&jpeg); }
  };

  template <typename Call>
  static bool guarded(JpegErrors& errors, Call call) {
    static_assert(std::is_trivially_destructible_v<Call>);
    if (setjmp(errors.jump) != 0) return false;
    call();
    return true;
  }

  template <typename Call>
  void check(Call call) {
    if (!guarded(handle_.errors, call))
      throw Error(ErrorKind::format, where_, "not a whole JPEG: {}", handle_.errors.message);
  }

  void read_header(int64_t max_pixels) {
    auto* jpeg = &handle_.jpeg;
    check([=, this] {
      jpeg_create_decompress(jpeg);
      handle_.progress.progress_monitor = on_jpeg_progress;
      jpeg->progress = &handle_.progress;
      jpeg_mem_src(jpeg, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
      jpeg_read_header(jpeg, TRUE);
    });
    width = jpeg->image_width;
    height = jpeg->image_height;
    if (width > max_pixels / height)
      throw Error(ErrorKind::format, where_, "{} x {} pixels, more than the {} allowed", width, height, max_pixels);
    if (jpeg->arith_code) throw Error(ErrorKind::format, where_, "arithmetic coding is not supported");
    if (static_cast<uint64_t>(width) * static_cast<uint64_t>(height) > bytes_.size() * max_expansion)
      throw Error(ErrorKind::format, where_, "{} bytes cannot hold the {} x {} pixels that the header promises",
                  bytes_.size(), width, height);
    switch (jpeg->jpeg_color_space) {
      case JCS_GRAYSCALE: jpeg->out_color_space = JCS_GRAYSCALE; break;
      case JCS_CMYK:
      case JCS_YCCK: jpeg->out_color_space = JCS_CMYK; break;
      case JCS_RGB:
      case JCS_YCbCr: jpeg->out_color_space = JCS_RGB; break;
      default: throw Error(ErrorKind::format, where_, "{} components of no known colour space", jpeg->num_components);
    }
    channels = jpeg->out_color_space == JCS_GRAYSCALE ? 1 : 3;
  }

  // In place. Adobe writes the four inks inverted: 255 is no ink.
  void cmyk_to_rgb(uint8_t* line) const {
    const bool inverted = handle_.jpeg.saw_Adobe_marker;
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* from = line + 4 * x;
      const int k = inverted ? from[3] : 255 - from[3];
      const int light[] = {inverted ? from[0] : 255 - from[0], inverted ? from[1] : 255 - from[1],
                           inverted ? from[2] : 255 - from[2]};
      for (int c = 0; c < 3; ++c) line[3 * x + c] = static_cast<uint8_t>((light[c] * k + 127) / 255);
    }
  }

  std::string where_;
  std::span<const std::byte> bytes_;
  Handle handle_;
};

}  // namespace

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8} && bytes[2] == std::byte{0xff};
}

std::unique_ptr<ImageRows> open_jpeg(std::span<const std::byte> bytes, std::string_view where, int64_t max_pixels) {
  return std::make_unique<JpegRows>(bytes, where, max_pixels);
}

}  // namespace pare
