// Any bytes as COCO's JSON and as a YOLO text: read, or refused with an Error.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pare/data/coco.h"
#include "pare/data/yolo_boxes.h"
#include "read_or_refuse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_or_refuse([&] {
    const pare::CocoBoxes found = pare::decode_coco(text, {}, "fuzz");
    for (const auto& image : found.images)
      for (const auto& box : image.boxes)
        if (box.label < 0 || box.label >= static_cast<int64_t>(found.classes.size())) std::abort();
  });
  read_or_refuse([&] {
    for (const auto& box : pare::decode_yolo_boxes(text, "fuzz"))
      if (box.label < 0 || !std::isfinite(box.left)) std::abort();
  });
  return 0;
}
