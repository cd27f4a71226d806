// Any bytes as an annotation and as a list of images of a VOC kit: read, or refused with an Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "pare/data/voc.h"
#include "pare/error.h"

namespace {

template <typename Call>
void read_or_refuse(Call call) {
  try {
    call();
  } catch (const pare::Error& error) {
    if (error.kind() != pare::ErrorKind::format) std::abort();
  }
}

}  // namespace

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
