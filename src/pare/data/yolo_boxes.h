// Boxes as the YOLO family's tools keep them: images/NAME.jpg and labels/NAME.txt, in DIR, in DIR/train and DIR/val (or
// test), or as DIR/images/train and DIR/labels/train. A line of a text is a box: class, centre and extents as fractions
// of the picture's (`0 0.5 0.5 0.2 0.4`); a picture without a text has none. The classes are the lines of classes.txt
// in DIR or of the class map, else as many numbers as are used.
//
// Pure functions; any thread. Files may be hostile: broken ones throw Error{format}.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pare/data/boxes.h"
#include "pare/data/dataset.h"

namespace pare {

// Boxes as fractions of the picture.
std::vector<LabelledBox> decode_yolo_boxes(std::string_view text, std::string_view where);

// Labelled by boxes. Pictures are fitted as a whole unless something else is asked for.
Dataset load_yolo(const std::filesystem::path& directory, const std::vector<std::string>& classes,
                  const PictureOptions& pictures, const std::string& split);

}  // namespace pare
