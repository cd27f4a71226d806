#include "pare/data/voc.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "pare/core/file.h"
#include "pare/data/boxes.h"
#include "pare/data/image.h"
#include "pare/data/mask.h"
#include "pare/data/parallel.h"
#include "pare/data/xml.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool is_kit(const fs::path& directory) { return fs::is_directory(directory / "JPEGImages"); }

struct VocImage {
  PictureFile file;
  at::Tensor image;   // uint8 [3, H, W]
  at::Tensor mask;    // uint8 [H, W]; undefined where not asked for
  at::Tensor labels;  // uint8 [20]
  std::vector<LabelledBox> boxes;
};

VocImage read_voc_image(const fs::path& kit, const std::string& id, bool with_mask, const DataOptions& options) {
  VocImage out;
  out.file.path = kit / "JPEGImages" / (id + ".jpg");
  out.image = read_image(out.file.path, {.color = ImageColor::rgb});
  out.file.extents = {out.image.size(0), out.image.size(1), out.image.size(2)};
  const auto annotation = kit / "Annotations" / (id + ".xml");
  out.labels = at::zeros({static_cast<int64_t>(voc_classes.size())}, at::kByte);
  for (const auto& object : decode_voc_boxes(MappedFile::open(annotation)->text(), annotation.string())) {
    const auto found = std::find(voc_classes.begin(), voc_classes.end(), object.name);
    if (found == voc_classes.end())
      throw Error(ErrorKind::format, annotation.string(), "'{}' is not one of VOC's 20 classes", object.name);
    const auto label = found - voc_classes.begin();
    out.labels.data_ptr<uint8_t>()[label] = 1;
    // Pixels are counted from 1 on and the last one is inside.
    out.boxes.push_back({.left = object.box[0] - 1,
                         .top = object.box[1] - 1,
                         .right = object.box[2],
                         .bottom = object.box[3],
                         .label = label,
                         .crowd = object.difficult ? kDifficult : 0});
  }
  if (with_mask)
    out.mask = read_mask(kit / "SegmentationClass" / (id + ".png"), static_cast<int64_t>(voc_classes.size()) + 1,
                         out.file.extents);
  if (options.size > 0) {
    out.image = fit_image(out.image, options.picture_size(), options.picture_fit());
    if (with_mask) out.mask = fit_mask(out.mask, options.picture_size(), options.picture_fit());
  }
  return out;
}

}  // namespace

fs::path find_voc_kit(const fs::path& directory) {
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

std::vector<std::string> decode_voc_objects(std::string_view xml, std::string_view where) {
  std::vector<std::string> names;
  for (auto& object : decode_voc_boxes(xml, where)) names.push_back(std::move(object.name));
  return names;
}

std::vector<VocObject> decode_voc_boxes(std::string_view xml, std::string_view where) {
  static constexpr const char* kEdges[] = {"xmin", "ymin", "xmax", "ymax"};
  std::vector<VocObject> objects;
  VocObject object;
  bool annotation = false;
  parse_xml(xml, where, [&](const std::vector<std::string>& path, const std::string& text) {
    annotation = annotation || path[0] == "annotation";
    if (path[0] != "annotation" || path.size() < 2 || path[1] != "object") return;
    if (path.size() == 2) {
      if (!object.name.empty()) objects.push_back(object);
      object = {};
    }
    if (path.size() == 3 && path[2] == "name") object.name = trimmed(text);
    if (path.size() == 3 && path[2] == "difficult") object.difficult = trimmed(text) == "1";
    if (path.size() != 4 || path[2] != "bndbox") return;
    for (size_t e = 0; e < 4; ++e)
      if (path[3] == kEdges[e]) object.box[e] = box_number(trimmed(text), where);
  });
  if (!annotation) throw Error(ErrorKind::format, std::string(where), "the root element is not 'annotation'");
  return objects;
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
  const fs::path kit = find_voc_kit(directory);
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
  std::vector<std::vector<LabelledBox>> boxes(ids.size());
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
    boxes[i] = one.boxes;
    store(one.image.contiguous(), out.images, static_cast<int64_t>(i));
    store(one.labels, out.labels, static_cast<int64_t>(i));
    if (masks) store(one.mask.contiguous(), out.masks, static_cast<int64_t>(i));
  });
  if (std::ranges::all_of(boxes, [](const auto& own) { return std::ranges::all_of(own, &LabelledBox::has_area); }))
    out.boxes = packed_boxes(boxes, out.files, options.picture_size(), options.picture_fit());
  return out;
}

}  // namespace pare
