#include "pare/data/folder.h"

#include <algorithm>

#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::error_code failed;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end; it.increment(failed))
    if (!it->path().filename().string().starts_with('.')) paths.push_back(it->path());
  if (failed) throw Error(ErrorKind::file, directory.string(), "cannot be listed: {}", failed.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The place of a directory's class in the map.
int64_t mapped_class(const std::vector<std::string>& map, const fs::path& directory) {
  const auto found = find_class(map, directory.filename().string());
  if (!found)
    throw Error(ErrorKind::format, directory.string(), "is none of the {} classes of the class map, or may be several",
                map.size());
  return *found;
}

std::vector<fs::path> class_directories(const fs::path& directory) {
  std::vector<fs::path> paths = sorted_entries(directory);
  std::erase_if(paths, [](const fs::path& path) { return !fs::is_directory(path); });
  return paths;
}

}  // namespace

std::vector<fs::path> pictures_in(const fs::path& directory) {
  std::vector<fs::path> paths = sorted_entries(directory);
  std::erase_if(paths, [](const fs::path& path) { return !is_picture_name(path); });
  return paths;
}

DividedRoot divided_root(const fs::path& directory, const std::string& split) {
  const bool test = fs::is_directory(directory / "test"), val = fs::is_directory(directory / "val");
  // One alone may be a class of that name.
  if (!fs::is_directory(directory / "train") || !(test || val)) return {directory, false};
  return {directory / (split == "train" ? "train" : test ? "test" : "val"), true};
}

std::vector<std::string> folder_classes(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& path : class_directories(directory)) names.push_back(path.filename().string());
  return names;
}

LabelledPictures read_image_folder(const fs::path& directory, const std::vector<std::string>& class_map,
                                   const PictureOptions& options) {
  std::vector<std::string> classes = class_map;
  std::vector<fs::path> paths;
  std::vector<int64_t> labels;
  const std::vector<fs::path> directories = class_directories(directory);
  for (size_t c = 0; c < directories.size(); ++c) {
    const int64_t label = class_map.empty() ? static_cast<int64_t>(c) : mapped_class(class_map, directories[c]);
    if (class_map.empty()) classes.push_back(directories[c].filename().string());
    for (const auto& file : pictures_in(directories[c])) paths.push_back(file), labels.push_back(label);
  }
  std::vector<PictureEntry> entries;
  for (const size_t i : evenly_chosen(labels, options.limit)) entries.push_back({paths[i], labels[i]});
  if (entries.empty()) {
    const size_t loose = pictures_in(directory).size();
    throw Error(ErrorKind::file, directory.string(),
                "no images in {} class directories; expected DIR/CLASS/IMAGE.png or .jpg{}", directories.size(),
                loose > 0 ? fmt::format("; {} pictures lie in no class directory", loose) : "");
  }
  return read_pictures(entries, std::move(classes), options);
}

LabelledPictures read_unlabelled_folder(const fs::path& directory, const PictureOptions& options) {
  std::vector<PictureEntry> entries;
  for (const auto& file : pictures_in(directory))
    if (options.limit == 0 || static_cast<int64_t>(entries.size()) < options.limit) entries.push_back({file, 0});
  if (entries.empty())
    throw Error(ErrorKind::file, directory.string(),
                "has no images; expected .png or .jpg, in class directories or not");
  return read_pictures(entries, {"unlabelled"}, options);
}

}  // namespace pare
