// Any bytes as an annotation and as a list of images of a VOC kit: read, or refused with an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pare/data/voc.h"
#include "read_or_refuse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_or_refuse([&] {
    for (const auto& name : pare::decode_voc_objects(text, "fuzz"))
      if (name.size() > size) std::abort();
  });
  read_or_refuse([&] {
    for (const auto& id : pare::decode_voc_list(text, "fuzz"))
      if (id.empty() || id.find('/') != std::string::npos) std::abort();
  });
  return 0;
}
