// How much memory the moments of layers may take (layerwise/row_moments.h): it bounds the layers that are solved, and
// how many are looked at together.
#pragma once

#include <cstdint>

#include "pare/analysis/layers.h"
#include "pare/graph.h"
#include "pare/observer.h"

namespace pare {

// Bytes that moments may take at once: an eighth of what tensors may take (core/memory.h).
int64_t moments_memory();

// The same number on all ranks: that of the first.
int64_t agreed(int64_t bytes, ProcessGroup& ranks);

// Bytes of the moments of what a layer reads, `rows` numbers for each of its groups.
int64_t input_moment_bytes(int64_t groups, int64_t rows);
// Of patches, and with its outputs.
int64_t moment_bytes(const Graph& graph, const LinearLayer& layer);

}  // namespace pare
