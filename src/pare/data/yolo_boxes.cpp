#include "pare/data/yolo_boxes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/core/file.h"
#include "pare/data/folder.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> words;
  for (size_t begin = line.find_first_not_of(kSpace); begin != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kSpace, end);
  }
  return words;
}

struct YoloRoot {
  fs::path images, labels;
  bool divided = false;
};

YoloRoot yolo_root(const fs::path& directory, const std::string& split) {
  const DividedRoot root = divided_root(directory, split);
  const DividedRoot images = divided_root(root.path / "images", split);
  const fs::path labels = root.path / "labels";
  return {images.path, images.divided ? labels / images.path.filename() : labels, root.divided || images.divided};
}

std::vector<LabelledBox> boxes_of(const fs::path& labels, const PictureFile& picture) {
  const fs::path path = labels / (picture.path.stem().string() + ".txt");
  if (!fs::exists(path)) return {};
  auto boxes = decode_yolo_boxes(MappedFile::open(path)->text(), path.string());
  for (auto& box : boxes) {
    box.left *= static_cast<double>(picture.extents.width);
    box.right *= static_cast<double>(picture.extents.width);
    box.top *= static_cast<double>(picture.extents.height);
    box.bottom *= static_cast<double>(picture.extents.height);
  }
  return boxes;
}

}  // namespace

std::vector<LabelledBox> decode_yolo_boxes(std::string_view text, std::string_view where) {
  constexpr double kMostClasses = 1 << 20;
  std::vector<LabelledBox> boxes;
  int64_t line = 0;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto words = words_of(text.substr(begin, end - begin));
    begin = end + 1;
    if (words.empty()) continue;
    const std::string place = fmt::format("{}: line {}", where, line + 1);
    if (words.size() != 5)
      throw Error(ErrorKind::format, place, "{} words, expected class, x, y, width and height", words.size());
    double value[5];
    for (size_t i = 0; i < 5; ++i) value[i] = box_number(words[i], place);
    if (value[0] < 0 || value[0] >= kMostClasses || value[0] != std::floor(value[0]))
      throw Error(ErrorKind::format, place, "'{}' is not a class", words[0]);
    boxes.push_back({.left = value[1] - value[3] / 2,
                     .top = value[2] - value[4] / 2,
                     .right = value[1] + value[3] / 2,
                     .bottom = value[2] + value[4] / 2,
                     .label = static_cast<int64_t>(value[0])});
  }
  return boxes;
}

Dataset load_yolo(const fs::path& directory, const std::vector<std::string>& classes, const PictureOptions& options,
                  const std::string& split) {
  const YoloRoot root = yolo_root(directory, split);
  const auto paths = pictures_in(root.images);
  if (paths.empty()) throw Error(ErrorKind::file, root.images.string(), "has no images; expected .png or .jpg");
  std::vector<PictureEntry> entries;
  for (const size_t i : evenly_spaced(paths.size(), options.limit)) entries.push_back({paths[i], 0});
  LabelledPictures pictures = read_pictures(entries, {}, options);
  std::vector<std::vector<LabelledBox>> boxes;
  int64_t last = 0;
  for (const auto& file : pictures.files) {
    boxes.push_back(boxes_of(root.labels, file));
    for (const auto& box : boxes.back()) last = std::max(last, box.label);
  }
  Dataset out{.name = "yolo",
              .images = std::move(pictures.data.images),
              .labels = packed_boxes(boxes, pictures.files, options.size, options.fit),
              .classes = classes,
              .mean = {0},
              .std = {1},
              .split = root.divided ? split : "all",
              .files = std::move(pictures.files)};
  for (int64_t c = 0; classes.empty() && c <= last; ++c) out.classes.push_back(std::to_string(c));
  return out;
}

}  // namespace pare
