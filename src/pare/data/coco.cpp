#include "pare/data/coco.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "pare/core/file.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

class Reader {
 public:
  Reader(std::string_view text, std::string_view where) : where_(where) {
    // Outlines are most of such a file, and nobody asks for them.
    const auto wanted = [](int, json::parse_event_t event, const json& parsed) {
      return event != json::parse_event_t::key || parsed != "segmentation";
    };
    root_ = json::parse(text, wanted, /*allow_exceptions=*/false);
    if (!root_.is_object()) fail("is no JSON object of images, annotations and categories");
  }

  CocoBoxes read(const std::vector<std::string>& class_map) {
    read_categories(class_map);
    read_images();
    for (const json& annotation : list("annotations")) read_annotation(annotation);
    return std::move(found_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(ErrorKind::format, where_, "{}", fmt::format(text, std::forward<Args>(args)...));
  }

  const json& list(const char* name) const {
    const auto found = root_.find(name);
    if (found == root_.end() || !found->is_array()) fail("has no list of {}", name);
    return *found;
  }

  int64_t id(const json& entry, const char* name) const {
    const auto found = entry.is_object() ? entry.find(name) : entry.end();
    if (found == entry.end() || !found->is_number_integer()) fail("an entry has no integer {}", name);
    return found->get<int64_t>();
  }

  std::string text(const json& entry, const char* name) const {
    const auto found = entry.is_object() ? entry.find(name) : entry.end();
    if (found == entry.end() || !found->is_string()) fail("an entry has no {}", name);
    return found->get<std::string>();
  }

  void read_categories(const std::vector<std::string>& class_map) {
    std::map<int64_t, std::string> names;
    for (const json& category : list("categories")) names[id(category, "id")] = text(category, "name");
    if (names.empty()) fail("has no categories");
    found_.classes = class_map;
    for (const auto& [category, name] : names) {
      if (class_map.empty()) found_.classes.push_back(name);
      const auto place = std::ranges::find(found_.classes, name);
      if (place == found_.classes.end())
        fail("the category '{}' is none of the {} classes of the class map", name, class_map.size());
      classes_[category] =
          class_map.empty() ? static_cast<int64_t>(found_.classes.size()) - 1 : place - found_.classes.begin();
    }
  }

  void read_images() {
    for (const json& image : list("images")) {
      std::string file = text(image, "file_name");
      // It becomes a part of paths.
      const fs::path path(file);
      const bool leaves = path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end();
      if (file.empty() || leaves || file.find('\0') != std::string::npos) fail("'{}' is not an image's name", file);
      if (!places_.try_emplace(id(image, "id"), found_.images.size()).second)
        fail("two images have the id {}", id(image, "id"));
      found_.images.push_back({std::move(file), {}});
    }
    if (found_.images.empty()) fail("names no images");
  }

  void read_annotation(const json& annotation) {
    const int64_t image = id(annotation, "image_id"), category = id(annotation, "category_id");
    const auto place = places_.find(image);
    const auto label = classes_.find(category);
    if (place == places_.end()) fail("an annotation is of the image {}, which is not there", image);
    if (label == classes_.end()) fail("an annotation has the category {}, which is not there", category);
    const auto box = annotation.find("bbox");
    if (box == annotation.end() || box->empty()) return;
    const bool four = box->is_array() && box->size() == 4 && std::ranges::all_of(*box, [](const json& value) {
                        return value.is_number() && std::abs(value.get<double>()) <= kLargestCoordinate;
                      });
    if (!four) fail("a bbox of image {} is not four coordinates", image);
    const auto at = [&](size_t i) { return (*box)[i].get<double>(); };
    const auto crowd = annotation.find("iscrowd");
    const bool is_crowd = crowd != annotation.end() && crowd->is_number_integer() && crowd->get<int64_t>() != 0;
    found_.images[place->second].boxes.push_back({.left = at(0),
                                                  .top = at(1),
                                                  .right = at(0) + at(2),
                                                  .bottom = at(1) + at(3),
                                                  .label = label->second,
                                                  .crowd = is_crowd ? kCrowd : 0});
  }

  std::string where_;
  json root_;
  CocoBoxes found_;
  std::map<int64_t, int64_t> classes_;
  std::map<int64_t, size_t> places_;
};

// The directories in which the pictures of a file of annotations may lie.
std::vector<fs::path> picture_directories(const fs::path& file) {
  const fs::path own = file.parent_path(), above = own.empty() ? fs::path("..") : own.parent_path();
  std::string split = file.stem().string();  // instances_val2017
  split = split.substr(split.find_last_of('_') + 1);
  std::vector<fs::path> directories = {own, own / "images"};
  for (const fs::path& root : {own, above})
    for (const fs::path& under : {fs::path(split), fs::path("images") / split}) directories.push_back(root / under);
  directories.push_back(above / "images");
  return directories;
}

fs::path find_picture(const std::vector<fs::path>& directories, const std::string& file, const fs::path& table) {
  std::error_code ignored;
  for (const auto& directory : directories)
    if (fs::exists(directory / file, ignored)) return directory / file;
  throw Error(ErrorKind::file, table.string(),
              "there is no picture {} beside it, in images, or in a directory of the split's name", file);
}

}  // namespace

CocoBoxes decode_coco(std::string_view text, const std::vector<std::string>& class_map, std::string_view where) {
  return Reader(text, where).read(class_map);
}

Dataset load_coco(const fs::path& file, const std::vector<std::string>& class_map, const PictureOptions& options) {
  CocoBoxes found = decode_coco(MappedFile::open(file)->text(), class_map, file.string());
  const std::vector<fs::path> directories = picture_directories(file);
  std::vector<PictureEntry> entries;
  std::vector<std::vector<LabelledBox>> boxes;
  for (const size_t i : evenly_spaced(found.images.size(), options.limit)) {
    entries.push_back({find_picture(directories, found.images[i].file, file), 0});
    boxes.push_back(std::move(found.images[i].boxes));
  }
  LabelledPictures pictures = read_pictures(entries, {}, options);
  return {.name = "coco",
          .images = std::move(pictures.data.images),
          .labels = packed_boxes(boxes, pictures.files, options.size, options.fit),
          .classes = std::move(found.classes),
          .mean = folder_mean,
          .std = folder_std,
          .split = "all",
          .files = std::move(pictures.files)};
}

}  // namespace pare
