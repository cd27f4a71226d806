// Any bytes either load as a model or give an Error. A model that loads can be written (or gives an Error), and what
// was written loads.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/write.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string written;
  try {
    const auto graph = pare::read_onnx_bytes({reinterpret_cast<const std::byte*>(data), size}, "input");
    written = pare::to_onnx_bytes(graph);
  } catch (const pare::Error&) {
    return 0;
  }
  try {
    pare::read_onnx_bytes({reinterpret_cast<const std::byte*>(written.data()), written.size()}, "written");
  } catch (const pare::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
