#include "pare/data/folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "pare/core/error.h"
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

bool is_image_name(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
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

at::Tensor load_entry(const FolderEntry& entry, const FolderOptions& options) {
  const auto image = read_image(entry.path, {.color = options.channels == 1 ? ImageColor::gray : ImageColor::rgb});
  return options.size > 0 ? fit_image(image, options.size, options.fit) : image;
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

at::Tensor fit_image(const at::Tensor& image, int64_t size, ImageFit fit) {
  if (fit == ImageFit::stretch) return resize_bilinear(image, size, size);
  const int64_t side = std::min(image.size(1), image.size(2));
  const int64_t top = (image.size(1) - side) / 2, left = (image.size(2) - side) / 2;
  return resize_bilinear(image.slice(1, top, top + side).slice(2, left, left + side), size, size);
}

ImageFolder read_image_folder(const fs::path& directory, const FolderOptions& options) {
  if (options.channels != 1 && options.channels != 3)
    throw Error(ErrorKind::usage, "channels", "{} channels, expected 1 or 3", options.channels);
  if (options.size < 0 || options.size > 1 << 14)
    throw Error(ErrorKind::usage, "size", "{} is not between 0 and 16384", options.size);
  ImageFolder out;
  std::vector<std::vector<FolderEntry>> classes;
  for (const auto& path : sorted_entries(directory)) {
    if (!fs::is_directory(path)) continue;
    const auto label = static_cast<int64_t>(classes.size());
    classes.emplace_back();
    out.classes.push_back(path.filename().string());
    for (const auto& file : sorted_entries(path))
      if (is_image_name(file)) classes.back().push_back({file, label});
  }
  const auto entries = limit_evenly(classes, options.limit);
  if (entries.empty())
    throw Error(ErrorKind::file, directory.string(),
                "no images in {} class directories; expected DIR/CLASS/IMAGE.png or .jpg", classes.size());
  const auto first = load_entry(entries[0], options);
  const auto count = static_cast<int64_t>(entries.size());
  out.data.images = at::empty({count, first.size(0), first.size(1), first.size(2)}, at::kByte);
  out.data.labels = at::empty({count}, at::kLong);
  auto* labels = out.data.labels.data_ptr<int64_t>();
  parallel_each(entries.size(), options.threads, [&](size_t i) {
    labels[i] = entries[i].label;
    store_image(i == 0 ? first : load_entry(entries[i], options), out.data.images, static_cast<int64_t>(i),
                entries[i].path);
  });
  return out;
}

}  // namespace pare
