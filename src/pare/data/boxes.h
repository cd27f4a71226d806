// Boxes of objects as data sets label them, and as samples carry them (pare/samples.h).
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pare/data/pictures.h"
#include "pare/samples.h"

namespace pare {

inline constexpr int kCrowd = 1;      // many objects, which a detection need not tell apart
inline constexpr int kDifficult = 2;  // an object that need not be found

struct LabelledBox {
  double left = 0, top = 0, right = 0, bottom = 0;  // in pixels of the picture as it is stored
  int64_t label = 0;
  int crowd = 0;  // 0, kCrowd or kDifficult

  bool has_area() const { return right > left && bottom > top; }
};

// float32 [pictures, boxes, 6] of BoxField, fitted as the pictures are. Boxes that nothing is left of are not there.
at::Tensor packed_boxes(const std::vector<std::vector<LabelledBox>>& boxes, const std::vector<PictureFile>& files,
                        PictureSize size, ImageFit fit);

// No coordinate is larger: pictures are not, and sums of these stay finite.
inline constexpr double kLargestCoordinate = 1e9;

// A coordinate of a text; Error{format} at `where` for anything else.
double box_number(std::string_view text, std::string_view where);

}  // namespace pare
