#include "pare/data/boxes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "pare/error.h"

namespace pare {

namespace {

// float [boxes, 6] of one picture.
at::Tensor rows_of(const std::vector<LabelledBox>& boxes) {
  at::Tensor rows = at::empty({static_cast<int64_t>(boxes.size()), 6}, at::kFloat);
  auto* out = rows.data_ptr<float>();
  for (const auto& box : boxes)
    for (const double value :
         {box.left, box.top, box.right, box.bottom, static_cast<double>(box.label), static_cast<double>(box.crowd)})
      *out++ = static_cast<float>(value);
  return rows;
}

at::Tensor with_area(const at::Tensor& rows) {
  const at::Tensor left = (rows.select(1, 2) > rows.select(1, 0)).logical_and(rows.select(1, 3) > rows.select(1, 1));
  return rows.index({left});
}

}  // namespace

at::Tensor packed_boxes(const std::vector<std::vector<LabelledBox>>& boxes, const std::vector<PictureFile>& files,
                        PictureSize size, ImageFit fit) {
  std::vector<at::Tensor> all;
  int64_t most = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const PictureSize stored{files[i].extents.height, files[i].extents.width};
    const PictureSize seen = size.height > 0 ? size : stored;
    all.push_back(with_area(fit_boxes(rows_of(boxes[i]), stored, seen, size.height > 0 ? fit : ImageFit::stretch)));
    most = std::max(most, all.back().size(0));
  }
  at::Tensor packed = at::zeros({static_cast<int64_t>(all.size()), most, 6}, at::kFloat);
  packed.select(2, static_cast<int64_t>(BoxField::label)).fill_(-1);
  for (size_t i = 0; i < all.size(); ++i) packed[static_cast<int64_t>(i)].narrow(0, 0, all[i].size(0)).copy_(all[i]);
  return packed;
}

double box_number(std::string_view text, std::string_view where) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !(std::abs(value) <= kLargestCoordinate))
    throw Error(ErrorKind::format, std::string(where), "'{}' is not a coordinate", std::string(text.substr(0, 40)));
  return value;
}

}  // namespace pare
