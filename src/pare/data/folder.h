// An image folder: DIR/CLASS/IMAGE, a directory per class. Classes and images are taken in the byte order of their
// names; files that do not end in .png, .jpg or .jpeg (any case) and names that start with a dot are passed over.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pare/data/cifar.h"

namespace pare {

enum class ImageFit {
  crop,     // the square in the centre, scaled to `size`
  stretch,  // both sides to `size`
};

struct FolderOptions {
  int64_t size = 0;  // square side of every image; 0: as stored, and then all must agree
  ImageFit fit = ImageFit::crop;
  int64_t channels = 3;  // 3 or 1
  int64_t limit = 0;     // at most so many images, as evenly over the classes as they allow; 0: all
  int threads = 0;       // decoders; 0: one per core
};

// The normalisation of RGB images that no data set is known of: ImageNet's.
inline const std::vector<double> folder_mean = {0.485, 0.456, 0.406};
inline const std::vector<double> folder_std = {0.229, 0.224, 0.225};

struct ImageFolder {
  LabelledImages data;
  std::vector<std::string> classes;
};

// Decodes every image once, into bytes.
ImageFolder read_image_folder(const std::filesystem::path& directory, const FolderOptions& options = {});

// One image of a file, as read_image_folder stores it.
at::Tensor fit_image(const at::Tensor& image, int64_t size, ImageFit fit);

}  // namespace pare
