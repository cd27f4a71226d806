// Labelled pictures in files of their own, decoded once, into bytes: what an image folder (folder.h) and a table of
// pictures (picture_table.h) have in common.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/data/cifar.h"
#include "pare/data/image.h"
#include "pare/data/preprocess.h"

namespace pare {

struct PictureOptions {
  PictureSize size;  // of every image; 0: as stored, and then all must agree
  ImageFit fit = ImageFit::crop;
  int64_t channels = 3;  // 3 or 1
  int64_t limit = 0;     // at most so many images, as evenly over the classes as they allow; 0: all
  int threads = 0;       // decoders; 0: one per core
};

// The normalisation of RGB images that no data set is known of: ImageNet's.
inline const std::vector<double> folder_mean = {0.485, 0.456, 0.406};
inline const std::vector<double> folder_std = {0.229, 0.224, 0.225};

// A picture in a file of its own, and its extents there.
struct PictureFile {
  std::filesystem::path path;
  ImageExtents extents;
};

struct LabelledPictures {
  LabelledImages data;
  std::vector<std::string> classes;
  std::vector<PictureFile> files;  // of each image
};

struct PictureEntry {
  std::filesystem::path path;
  int64_t label;
};

// Does a file's name say that it is a picture (.png, .jpg, .jpeg, in any case)?
bool is_picture_name(const std::filesystem::path& path);

// The classes of a text, one per line; empty lines are passed over. Error{format} where there are none.
std::vector<std::string> read_class_map(const std::filesystem::path& path);

// The place of a class in a map: of the line that is its name, else of the only line whose first word it is. None where
// no line fits, or several do.
std::optional<int64_t> find_class(const std::vector<std::string>& map, std::string_view name);

// The places of the first entry of each class, then the second of each, and so on until `limit` are chosen, in the
// order of the entries. 0: all of them.
std::vector<size_t> evenly_chosen(const std::vector<int64_t>& labels, int64_t limit);

// `limit` of `count` places, evenly spaced; all of them for 0.
std::vector<size_t> evenly_spaced(size_t count, int64_t limit);

// Decodes every entry.
LabelledPictures read_pictures(const std::vector<PictureEntry>& entries, std::vector<std::string> classes,
                               const PictureOptions& options);

}  // namespace pare
