#include "pare/layerwise/moments_memory.h"

#include <algorithm>

#include "pare/core/memory.h"
#include "pare/layerwise/linear_rows.h"

namespace pare {

namespace {

constexpr int64_t kBytes = 8;  // of a double

}  // namespace

int64_t moments_memory() { return static_cast<int64_t>(std::min(memory_left(), default_memory_limit()) / 8); }

int64_t agreed(int64_t bytes, ProcessGroup& ranks) {
  return static_cast<int64_t>(ranks.broadcast(static_cast<double>(bytes)));
}

int64_t input_moment_bytes(int64_t groups, int64_t rows) { return kBytes * groups * rows * rows; }

int64_t moment_bytes(const Graph& graph, const LinearLayer& layer) {
  const Shape dims = weight_dims(graph, layer);
  const int64_t rows = dims[2] * dims[3];
  return input_moment_bytes(dims[0], rows) + kBytes * dims[0] * rows * dims[1];
}

}  // namespace pare
