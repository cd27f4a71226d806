#include "pare/data/voc.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "pare/core/file.h"
#include "pare/data/image.h"
#include "pare/data/parallel.h"
#include "pare/data/xml.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

constexpr uint32_t kVoidColor = 224 << 16 | 224 << 8 | 192;

// The colour of index i: its bits, dealt in turn to red, green and blue, highest place first.
uint32_t voc_color(uint32_t index) {
  uint32_t color[3] = {};
  for (int place = 7; place >= 0; --place, index >>= 3)
    for (int c = 0; c < 3; ++c) color[c] |= (index >> c & 1) << place;
  return color[0] << 16 | color[1] << 8 | color[2];
}

const std::unordered_map<uint32_t, uint8_t>& voc_palette() {
  static const auto palette = [] {
    std::unordered_map<uint32_t, uint8_t> colors = {{kVoidColor, 255}};
    for (uint32_t i = 0; i <= voc_classes.size(); ++i) colors[voc_color(i)] = static_cast<uint8_t>(i);
    return colors;
  }();
  return palette;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool is_kit(const fs::path& directory) { return fs::is_directory(directory / "JPEGImages"); }

// `directory`, or the latest VOC20xx in it or in its VOCdevkit.
fs::path find_kit(const fs::path& directory) {
  if (is_kit(directory)) return directory;
  for (const fs::path& above : {directory, directory / "VOCdevkit"}) {
    std::vector<fs::path> kits;
    std::error_code failed;
    for (fs::directory_iterator it(above, failed), end; !failed && it != end; it.increment(failed))
      if (it->path().filename().string().starts_with("VOC") && is_kit(it->path())) kits.push_back(it->path());
    if (!kits.empty()) return *std::max_element(kits.begin(), kits.end());
  }
  throw Error(ErrorKind::file, directory.string(),
              "is not a VOC development kit: expected JPEGImages in it, or in VOC20xx under it");
}

struct VocImage {
  PictureFile file;
  at::Tensor image;   // uint8 [3, H, W]
  at::Tensor mask;    // uint8 [H, W]; undefined where not asked for
  at::Tensor labels;  // uint8 [20]
};

VocImage read_voc_image(const fs::path& kit, const std::string& id, bool with_mask, const DataOptions& options) {
  VocImage out;
  out.file.path = kit / "JPEGImages" / (id + ".jpg");
  out.image = read_image(out.file.path, {.color = ImageColor::rgb});
  out.file.extents = {out.image.size(0), out.image.size(1), out.image.size(2)};
  const auto annotation = kit / "Annotations" / (id + ".xml");
  out.labels = at::zeros({static_cast<int64_t>(voc_classes.size())}, at::kByte);
  for (const auto& name : decode_voc_objects(MappedFile::open(annotation)->text(), annotation.string())) {
    const auto found = std::find(voc_classes.begin(), voc_classes.end(), name);
    if (found == voc_classes.end())
      throw Error(ErrorKind::format, annotation.string(), "'{}' is not one of VOC's 20 classes", name);
    out.labels.data_ptr<uint8_t>()[found - voc_classes.begin()] = 1;
  }
  if (with_mask) {
    const auto path = kit / "SegmentationClass" / (id + ".png");
    out.mask = decode_voc_mask(read_image(path), path.string());
    if (out.mask.sizes() != out.image.sizes().slice(1))
      throw Error(ErrorKind::format, path.string(), "is {} pixels, its image {}", fmt::join(out.mask.sizes(), " x "),
                  fmt::join(out.image.sizes().slice(1), " x "));
  }
  if (options.size > 0) {
    out.image = fit_image(out.image, options.picture_size(), options.picture_fit());
    if (with_mask) out.mask = fit_mask(out.mask, options.picture_size(), options.picture_fit());
  }
  return out;
}

}  // namespace

std::vector<std::string> decode_voc_objects(std::string_view xml, std::string_view where) {
  std::vector<std::string> names;
  bool annotation = false;
  parse_xml(xml, where, [&](const std::vector<std::string>& path, const std::string& text) {
    annotation = annotation || path[0] == "annotation";
    if (path.size() == 3 && path[0] == "annotation" && path[1] == "object" && path[2] == "name")
      names.push_back(trimmed(text));
  });
  if (!annotation) throw Error(ErrorKind::format, std::string(where), "the root element is not 'annotation'");
  return names;
}

at::Tensor decode_voc_mask(const at::Tensor& image, std::string_view where) {
  const int64_t plane = image.size(1) * image.size(2);
  auto mask = at::empty({image.size(1), image.size(2)}, at::kByte);
  const auto pixels = image.contiguous();
  const auto* in = pixels.data_ptr<uint8_t>();
  auto* out = mask.data_ptr<uint8_t>();
  const auto& palette = voc_palette();
  for (int64_t i = 0; i < plane; ++i) {
    if (image.size(0) == 1) {
      out[i] = in[i];
      if (in[i] > voc_classes.size() && in[i] != 255)
        throw Error(ErrorKind::format, std::string(where), "pixel {} is {}, expected 0 to 20 or 255", i, in[i]);
      continue;
    }
    const uint32_t color = uint32_t{in[i]} << 16 | uint32_t{in[plane + i]} << 8 | in[2 * plane + i];
    const auto found = palette.find(color);
    if (found == palette.end())
      throw Error(ErrorKind::format, std::string(where),
                  "pixel {} has the colour #{:06x}, which is not in VOC's palette", i, color);
    out[i] = found->second;
  }
  return mask;
}

std::vector<std::string> decode_voc_list(std::string_view text, std::string_view where) {
  std::vector<std::string> ids;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = trimmed(std::string(text.substr(begin, end - begin)));
    begin = end + 1;
    if (line.empty()) continue;
    const std::string id = line.substr(0, line.find_first_of(" \t"));
    // It becomes a part of paths.
    if (id.size() > 100 || id.starts_with('.') || id.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
      throw Error(ErrorKind::format, std::string(where), "'{}' is not an image's name", id.substr(0, 100));
    ids.push_back(id);
  }
  return ids;
}

Dataset load_voc(const fs::path& directory, const DataOptions& options) {
  for (const int64_t side : {options.size, options.width})
    if (side < 0 || side > 1 << 14) throw Error(ErrorKind::usage, "size", "{} is not between 0 and 16384", side);
  if (options.channels != 3) throw Error(ErrorKind::usage, "channels", "{} channels, voc has 3", options.channels);
  const fs::path kit = find_kit(directory);
  const bool masks = options.split == "segmentation";
  const fs::path list =
      kit / "ImageSets" / (masks ? "Segmentation" : "Main") / (options.split == "train" ? "train.txt" : "val.txt");
  auto ids = decode_voc_list(MappedFile::open(list)->text(), list.string());
  if (options.limit > 0 && options.limit < static_cast<int64_t>(ids.size()))
    ids.resize(static_cast<size_t>(options.limit));
  if (ids.empty()) throw Error(ErrorKind::format, list.string(), "names no images");
  const auto count = static_cast<int64_t>(ids.size());
  const auto first = read_voc_image(kit, ids[0], masks, options);
  const int64_t height = first.image.size(1), width = first.image.size(2), plane = height * width;
  Dataset out{.name = "voc",
              .images = at::empty({count, 3, height, width}, at::kByte),
              .labels = at::empty({count, static_cast<int64_t>(voc_classes.size())}, at::kByte),
              .mean = {0.4589, 0.4355, 0.4032},
              .std = {0.2239, 0.2186, 0.2206},
              .split = options.split,
              .preprocess = options.size > 0 ? to_string(options.picture_fit()) : "",
              .files = std::vector<PictureFile>(ids.size())};
  out.classes.assign(voc_classes.begin(), voc_classes.end());
  if (masks) out.masks = at::empty({count, height, width}, at::kByte);
  const auto store = [](const at::Tensor& from, const at::Tensor& to, int64_t i) {
    std::memcpy(to.data_ptr<uint8_t>() + i * from.numel(), from.data_ptr<uint8_t>(), static_cast<size_t>(from.numel()));
  };
  parallel_each(ids.size(), options.threads, [&](size_t i) {
    const auto one = i == 0 ? first : read_voc_image(kit, ids[i], masks, options);
    if (one.image.numel() != 3 * plane || one.image.size(1) != height)
      throw Error(ErrorKind::shape, ids[i],
                  "is {} x {} pixels, others are {} x {}; `size` N makes all N x N, "
                  "`input-shape` fits them to another box",
                  one.image.size(2), one.image.size(1), width, height);
    out.files[i] = one.file;
    store(one.image.contiguous(), out.images, static_cast<int64_t>(i));
    store(one.labels, out.labels, static_cast<int64_t>(i));
    if (masks) store(one.mask.contiguous(), out.masks, static_cast<int64_t>(i));
  });
  return out;
}

}  // namespace pare
