// Boxes in COCO's JSON: images (id, file_name), annotations (image_id, category_id, bbox [x, y, width, height],
// iscrowd), categories (id, name). Annotations of other things (segmentation, keypoints) are passed over, and so are
// those without a bbox.
//
// The classes are the categories in the order of their ids, from 0 on (COCO's 80 of 91 ids so become 0 … 79, as
// networks number them), or the lines of a class map, in which every category's name has to be. Pictures are looked for
// where the file lies, in `images` there, and in directories of the split's name (train2017, val2017, train, val …)
// there or above.
//
// Pure functions; any thread. Files may be hostile: broken ones throw Error{format}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pare/data/boxes.h"
#include "pare/data/dataset.h"

namespace pare {

struct CocoImage {
  std::string file;
  std::vector<LabelledBox> boxes;
};
struct CocoBoxes {
  std::vector<CocoImage> images;  // in the order of the file
  std::vector<std::string> classes;
};

CocoBoxes decode_coco(std::string_view json, const std::vector<std::string>& class_map, std::string_view where);

// Labelled by boxes. Pictures are fitted as a whole unless something else is asked for.
Dataset load_coco(const std::filesystem::path& file, const std::vector<std::string>& class_map,
                  const PictureOptions& pictures);

}  // namespace pare
