// An image folder: DIR/CLASS/IMAGE, one directory per class. Classes and images are taken in the byte order of their
// names, or classes as a class map has them; files that do not end in .png, .jpg or .jpeg (any case) and names that
// start with a dot are passed over.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pare/data/cifar.h"
#include "pare/data/image.h"
#include "pare/data/preprocess.h"

namespace pare {

struct FolderOptions {
  PictureSize size;  // of every image; 0: as stored, and then all must agree
  ImageFit fit = ImageFit::crop;
  int64_t channels = 3;  // 3 or 1
  // The classes in the order of a network's outputs. A directory has the name of one of them, or the first word of one;
  // any other is an Error{format}. Empty: the directories are the classes.
  std::vector<std::string> class_map;
  int64_t limit = 0;  // at most so many images, as evenly over the classes as they allow; 0: all
  int threads = 0;    // decoders; 0: one per core
};

// The normalisation of RGB images that no data set is known of: ImageNet's.
inline const std::vector<double> folder_mean = {0.485, 0.456, 0.406};
inline const std::vector<double> folder_std = {0.229, 0.224, 0.225};

// A picture in a file of its own, and its extents there.
struct PictureFile {
  std::filesystem::path path;
  ImageExtents extents;
};

struct ImageFolder {
  LabelledImages data;
  std::vector<std::string> classes;
  std::vector<PictureFile> files;  // of each image
};

// Does a file's name say that it is a picture (.png, .jpg, .jpeg, in any case)?
bool is_picture_name(const std::filesystem::path& path);

// The classes of a text, one a line; empty lines are passed over. Error{format} where there are none.
std::vector<std::string> read_class_map(const std::filesystem::path& path);

// The names of the directories of a folder that hold classes.
std::vector<std::string> folder_classes(const std::filesystem::path& directory);

// Decodes every image once, into bytes.
ImageFolder read_image_folder(const std::filesystem::path& directory, const FolderOptions& options = {});

}  // namespace pare
