// Pictures with a class for each pixel (data/mask.h):
//   VOC's layout     JPEGImages/ID.jpg, SegmentationClass/ID.png, and which of them are a split's in
//                    ImageSets/Segmentation/train.txt and val.txt; DIR is the kit or a directory above it (data/voc.h)
//   directories      images/ID.jpg (or .jpeg, .png) and masks/ID.png, in DIR, or in DIR/train and DIR/test (or val)
// The classes, from 0 on, are the lines of classes.txt in DIR or of the class map; else in VOC's layout background and
// VOC's twenty, and in directories as many numbers as the masks have.
//
// Pictures are fitted to a network as a whole (stretch) unless something else is asked for, masks with them by the
// nearest pixel.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pare/data/dataset.h"

namespace pare {

// Labelled by masks; `classes` names them, or is empty.
Dataset load_segmentation(const std::filesystem::path& directory, const std::vector<std::string>& classes,
                          const PictureOptions& pictures, const std::string& split);

}  // namespace pare
