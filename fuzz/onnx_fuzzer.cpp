// Any bytes either load as a model, which can then be written, or give an Error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "pare/core/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/write.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto graph = pare::read_onnx_bytes({reinterpret_cast<const std::byte*>(data), size}, "input");
    const std::string bytes = pare::to_onnx_bytes(graph);
    pare::read_onnx_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "written");
  } catch (const pare::Error&) {
  }
  return 0;
}
