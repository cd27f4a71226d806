#include "pare/data/pictures.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "pare/core/file.h"
#include "pare/data/parallel.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

at::Tensor load_entry(const PictureEntry& entry, const PictureOptions& options, PictureFile& file) {
  const auto image = read_image(entry.path, {.color = options.channels == 1 ? ImageColor::gray : ImageColor::rgb});
  file = {.path = entry.path, .extents = {image.size(0), image.size(1), image.size(2)}};
  return options.size.height > 0 ? fit_image(image, options.size, options.fit) : image;
}

void store_image(const at::Tensor& image, at::Tensor& images, int64_t i, const fs::path& path) {
  if (image.sizes() != images.sizes().slice(1))
    throw Error(ErrorKind::shape, path.string(),
                "is {} x {} pixels, others are {} x {}; `size` N makes all N x N, "
                "`input-shape` fits them to another box",
                image.size(2), image.size(1), images.size(3), images.size(2));
  const auto bytes = image.contiguous();
  std::memcpy(images.data_ptr<uint8_t>() + i * image.numel(), bytes.data_ptr<uint8_t>(),
              static_cast<size_t>(image.numel()));
}

void check_options(const PictureOptions& options) {
  if (options.channels != 1 && options.channels != 3)
    throw Error(ErrorKind::usage, "channels", "{} channels, expected 1 or 3", options.channels);
  for (const int64_t side : {options.size.height, options.size.width})
    if (side < 0 || side > 1 << 14) throw Error(ErrorKind::usage, "size", "{} is not between 0 and 16384", side);
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
  if (classes.empty()) throw Error(ErrorKind::format, path.string(), "names no classes; expected one per line");
  return classes;
}

std::optional<int64_t> find_class(const std::vector<std::string>& map, std::string_view name) {
  if (const auto found = std::find(map.begin(), map.end(), name); found != map.end()) return found - map.begin();
  const auto first_word = [&](std::string_view entry) { return entry.substr(0, entry.find(' ')) == name; };
  const auto found = std::find_if(map.begin(), map.end(), first_word);
  if (found == map.end() || std::find_if(found + 1, map.end(), first_word) != map.end()) return std::nullopt;
  return found - map.begin();
}

std::vector<size_t> evenly_chosen(const std::vector<int64_t>& labels, int64_t limit) {
  std::unordered_map<int64_t, size_t> rank, seen;  // of a class: its place among the classes, how many of it came
  std::vector<std::pair<size_t, size_t>> turn;     // of an entry: how many of its class are before it, its class
  std::vector<size_t> chosen;
  for (const int64_t label : labels) {
    turn.emplace_back(seen[label]++, rank.try_emplace(label, rank.size()).first->second);
    chosen.push_back(chosen.size());
  }
  if (limit <= 0 || static_cast<size_t>(limit) >= chosen.size()) return chosen;
  std::ranges::sort(chosen, {}, [&](size_t i) { return turn[i]; });
  chosen.resize(static_cast<size_t>(limit));
  std::ranges::sort(chosen);
  return chosen;
}

std::vector<size_t> evenly_spaced(size_t count, int64_t limit) {
  const size_t chosen = limit <= 0 ? count : std::min(count, static_cast<size_t>(limit));
  std::vector<size_t> places;
  for (size_t i = 0; i < chosen; ++i) places.push_back((2 * i + 1) * count / (2 * chosen));
  return places;
}

LabelledPictures read_pictures(const std::vector<PictureEntry>& entries, std::vector<std::string> classes,
                               const PictureOptions& options) {
  check_options(options);
  LabelledPictures out{.classes = std::move(classes)};
  out.files.resize(entries.size());
  const auto first = load_entry(entries.at(0), options, out.files[0]);
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
