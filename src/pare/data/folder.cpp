#include "pare/data/folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "pare/core/error.h"
#include "pare/core/file.h"
#include "pare/data/image.h"
#include "pare/data/parallel.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

struct FolderEntry {
  fs::path path;
  int64_t label;
};

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
  const std::string name = directory.filename().string();
  if (const auto found = std::find(map.begin(), map.end(), name); found != map.end()) return found - map.begin();
  const auto first_word = [&](const std::string& entry) { return entry.substr(0, entry.find(' ')) == name; };
  const auto found = std::find_if(map.begin(), map.end(), first_word);
  if (found == map.end())
    throw Error(ErrorKind::format, directory.string(), "is none of the {} classes of the class map", map.size());
  if (std::find_if(found + 1, map.end(), first_word) != map.end())
    throw Error(ErrorKind::format, directory.string(), "may be several classes of the class map: '{}', …", *found);
  return found - map.begin();
}

std::vector<fs::path> class_directories(const fs::path& directory) {
  std::vector<fs::path> paths = sorted_entries(directory);
  std::erase_if(paths, [](const fs::path& path) { return !fs::is_directory(path); });
  return paths;
}

// The first of each class, then the second of each, and so on until `limit` are chosen; order kept.
std::vector<FolderEntry> limit_evenly(const std::vector<std::vector<FolderEntry>>& classes, int64_t limit) {
  std::vector<size_t> take(classes.size(), 0);
  for (int64_t left = limit, before = -1; left != before && left > 0;) {
    before = left;
    for (size_t c = 0; c < classes.size() && left > 0; ++c)
      if (take[c] < classes[c].size()) ++take[c], --left;
  }
  std::vector<FolderEntry> chosen;
  for (size_t c = 0; c < classes.size(); ++c)
    chosen.insert(chosen.end(), classes[c].begin(),
                  classes[c].begin() + static_cast<std::ptrdiff_t>(limit > 0 ? take[c] : classes[c].size()));
  return chosen;
}

at::Tensor load_entry(const FolderEntry& entry, const FolderOptions& options, PictureFile& file) {
  const auto image = read_image(entry.path, {.color = options.channels == 1 ? ImageColor::gray : ImageColor::rgb});
  file = {.path = entry.path, .extents = {image.size(0), image.size(1), image.size(2)}};
  return options.size.height > 0 ? fit_image(image, options.size, options.fit) : image;
}

void store_image(const at::Tensor& image, at::Tensor& images, int64_t i, const fs::path& path) {
  if (image.sizes() != images.sizes().slice(1))
    throw Error(ErrorKind::shape, path.string(), "is {} x {} pixels, others are {} x {}; give a size to resize all",
                image.size(2), image.size(1), images.size(3), images.size(2));
  const auto bytes = image.contiguous();
  std::memcpy(images.data_ptr<uint8_t>() + i * image.numel(), bytes.data_ptr<uint8_t>(),
              static_cast<size_t>(image.numel()));
}

}  // namespace

bool is_picture_name(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::string> read_class_map(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const std::string_view text = file->text();
  std::vector<std::string> classes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) classes.push_back(std::move(line));
    begin = end + 1;
  }
  if (classes.empty()) throw Error(ErrorKind::format, path.string(), "names no classes; expected one a line");
  return classes;
}

std::vector<std::string> folder_classes(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& path : class_directories(directory)) names.push_back(path.filename().string());
  return names;
}

ImageFolder read_image_folder(const fs::path& directory, const FolderOptions& options) {
  if (options.channels != 1 && options.channels != 3)
    throw Error(ErrorKind::usage, "channels", "{} channels, expected 1 or 3", options.channels);
  for (const int64_t side : {options.size.height, options.size.width})
    if (side < 0 || side > 1 << 14) throw Error(ErrorKind::usage, "size", "{} is not between 0 and 16384", side);
  ImageFolder out{.classes = options.class_map};
  std::vector<std::vector<FolderEntry>> classes;
  for (const auto& path : class_directories(directory)) {
    int64_t label = static_cast<int64_t>(classes.size());
    if (options.class_map.empty())
      out.classes.push_back(path.filename().string());
    else
      label = mapped_class(options.class_map, path);
    classes.emplace_back();
    for (const auto& file : sorted_entries(path))
      if (is_picture_name(file)) classes.back().push_back({file, label});
  }
  const auto entries = limit_evenly(classes, options.limit);
  if (entries.empty())
    throw Error(ErrorKind::file, directory.string(),
                "no images in {} class directories; expected DIR/CLASS/IMAGE.png or .jpg", classes.size());
  out.files.resize(entries.size());
  const auto first = load_entry(entries[0], options, out.files[0]);
  const auto count = static_cast<int64_t>(entries.size());
  out.data.images = at::empty({count, first.size(0), first.size(1), first.size(2)}, at::kByte);
  out.data.labels = at::empty({count}, at::kLong);
  auto* labels = out.data.labels.data_ptr<int64_t>();
  parallel_each(entries.size(), options.threads, [&](size_t i) {
    labels[i] = entries[i].label;
    store_image(i == 0 ? first : load_entry(entries[i], options, out.files[i]), out.data.images,
                static_cast<int64_t>(i), entries[i].path);
  });
  return out;
}

}  // namespace pare
