// An image folder: DIR/CLASS/IMAGE, one directory per class. Classes and images are taken in the byte order of their
// names, or classes as a class map has them; files that do not end in .png, .jpg or .jpeg (any case) and names that
// start with a dot are passed over.
//
// Pure functions; any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pare/data/pictures.h"

namespace pare {

// The pictures of a directory, in the byte order of their names.
std::vector<std::filesystem::path> pictures_in(const std::filesystem::path& directory);

// DIR/train and DIR/test (or val) where both are there, else DIR.
struct DividedRoot {
  std::filesystem::path path;
  bool divided = false;
};
DividedRoot divided_root(const std::filesystem::path& directory, const std::string& split);

// The names of the directories of a folder that hold classes.
std::vector<std::string> folder_classes(const std::filesystem::path& directory);

// `class_map`: the classes in the order of a network's outputs. A directory has the name of one of them, or the first
// word of one; any other is an Error{format}. Empty: the directories are the classes.
LabelledPictures read_image_folder(const std::filesystem::path& directory, const std::vector<std::string>& class_map,
                                   const PictureOptions& options = {});

// Pictures that lie in the directory itself, all of one class. Error{file} when there are none.
LabelledPictures read_unlabelled_folder(const std::filesystem::path& directory, const PictureOptions& options);

}  // namespace pare
