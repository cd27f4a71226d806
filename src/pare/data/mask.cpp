#include "pare/data/mask.h"

#include <ATen/ATen.h>

#include <string>
#include <unordered_map>

#include "pare/error.h"

namespace pare {

namespace {

// The colour of class i in VOC's palette: its bits, dealt in turn to red, green and blue, highest place first. 255 is
// the colour of borders, (224, 224, 192).
uint32_t voc_color(uint32_t index) {
  uint32_t color[3] = {};
  for (int place = 7; place >= 0; --place, index >>= 3)
    for (int c = 0; c < 3; ++c) color[c] |= (index >> c & 1) << place;
  return color[0] << 16 | color[1] << 8 | color[2];
}

const std::unordered_map<uint32_t, uint8_t>& voc_palette() {
  static const auto palette = [] {
    std::unordered_map<uint32_t, uint8_t> colors;
    for (uint32_t i = 0; i < 256; ++i) colors[voc_color(i)] = static_cast<uint8_t>(i);
    return colors;
  }();
  return palette;
}

}  // namespace

at::Tensor decode_mask(const at::Tensor& image, int64_t classes, std::string_view where) {
  const int64_t plane = image.size(1) * image.size(2);
  auto mask = at::empty({image.size(1), image.size(2)}, at::kByte);
  const auto pixels = image.contiguous();
  const auto* in = pixels.data_ptr<uint8_t>();
  auto* out = mask.data_ptr<uint8_t>();
  const auto& palette = voc_palette();
  for (int64_t i = 0; i < plane; ++i) {
    if (image.size(0) == 1) {
      out[i] = in[i];
      if (in[i] >= classes && in[i] != 255)
        throw Error(ErrorKind::format, std::string(where), "pixel {} is {}, expected 0 to {} or 255", i, in[i],
                    classes - 1);
      continue;
    }
    const uint32_t color = uint32_t{in[i]} << 16 | uint32_t{in[plane + i]} << 8 | in[2 * plane + i];
    const auto found = palette.find(color);
    if (found == palette.end() || (found->second >= classes && found->second != 255))
      throw Error(ErrorKind::format, std::string(where),
                  "pixel {} has the colour #{:06x}, which is not in VOC's palette of {} classes", i, color, classes);
    out[i] = found->second;
  }
  return mask;
}

at::Tensor read_mask(const std::filesystem::path& path, int64_t classes, const ImageExtents& picture) {
  at::Tensor mask = decode_mask(read_image(path), classes, path.string());
  if (mask.size(0) != picture.height || mask.size(1) != picture.width)
    throw Error(ErrorKind::format, path.string(), "is {} x {} pixels, its image {} x {}", mask.size(0), mask.size(1),
                picture.height, picture.width);
  return mask;
}

}  // namespace pare
