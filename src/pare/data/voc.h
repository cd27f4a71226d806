// PASCAL VOC's development kit, of any year:
//   JPEGImages/ID.jpg          the images
//   Annotations/ID.xml         the objects in them; the label of an image is the set of their classes, and their boxes
//                              are known besides where every object has one
//   ImageSets/Main/train.txt   split train: one ID per line (the rest of the line is ignored)
//   ImageSets/Main/val.txt     split test
//   ImageSets/Segmentation/val.txt, SegmentationClass/ID.png   split segmentation: the images that have masks, drawn in
//                              VOC's palette (or as gray levels 0 … 20, 255); the border colour is void
// DIR is the kit, the directory above it (VOCdevkit, the latest year is taken) or the one above that. Images are fitted
// as all pictures are (data/preprocess.h; the attribution paper stretches them), and masks with them by the nearest
// pixel.
//
// Pure functions; any thread. Files may be hostile: broken ones throw Error{format}.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pare/data/dataset.h"

namespace pare {

inline constexpr std::array<const char*, 20> voc_classes = {
    "aeroplane",   "bicycle", "bird",  "boat",      "bottle", "bus",         "car",   "cat",  "chair", "cow",
    "diningtable", "dog",     "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"};

Dataset load_voc(const std::filesystem::path& directory, const DataOptions& options);

// The texts of annotation/object/name of an annotation, in order; other elements are passed over. `where` names the
// bytes in errors.
std::vector<std::string> decode_voc_objects(std::string_view xml, std::string_view where);

// The kit that `directory` is, or the latest VOC20xx in it or in its VOCdevkit. Error{file} where there is none.
std::filesystem::path find_voc_kit(const std::filesystem::path& directory);

// Its objects, in order: left, top, right and bottom with the border pixels inside, as the kit counts them (from 1 on);
// of an object without bndbox the box is empty. Error{format} for a class that is not VOC's and for numbers that are
// none.
struct VocObject {
  std::string name;
  std::array<double, 4> box = {};
  bool difficult = false;
};
std::vector<VocObject> decode_voc_boxes(std::string_view xml, std::string_view where);

// The identifiers of a list, one per line.
std::vector<std::string> decode_voc_list(std::string_view text, std::string_view where);

}  // namespace pare
