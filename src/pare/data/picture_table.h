// A table of pictures: a CSV file whose first line names its columns, in any order and case; others are passed over.
//
//   file    a picture, from the table's directory or its subdirectory images, or an absolute path
//   label   the index of a class, or its name as a class map has it (find_class)
//   split   train, test or val (which is test where no row says test); without this column all rows are one split, all
//
// Labels are either all names or all indices. Indices are places among a network's outputs and need not be of every
// class; names without a map are the classes in byte order.
//
// Pure functions; any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pare/data/pictures.h"

namespace pare {

struct PictureTable {
  LabelledPictures pictures;
  std::string split;  // the one that was asked for, or all
  bool labels_by_name = false;
};

// `class_map`: the classes in the order of a network's outputs; `known`: where there is no map, the classes if every
// label is among them. Error{format} names the line that has too few or too many cells, or a label or split that does
// not exist; Error{file} the line whose picture is missing, and a split that no row has.
PictureTable read_picture_table(const std::filesystem::path& path, const std::string& split,
                                const std::vector<std::string>& class_map, const std::vector<std::string>& known,
                                const PictureOptions& options = {});

}  // namespace pare
