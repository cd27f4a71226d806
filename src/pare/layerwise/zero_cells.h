// Where the zeros of a pattern may lie: tiles of a few neighbouring outputs and inputs, chosen among all, or row by
// row, or among the few of an N:M group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "pare/layerwise/zero_weights.h"

namespace pare {

struct ZeroCells {
  at::Tensor columns;     // int64 [cells, width] of a row; cells of a group of N:M follow each other
  int64_t rows = 1;       // outputs that go together
  int64_t row_tiles = 0;  // of the layer's outputs; what fills no tile stays
  int64_t among = 0;      // N:M: cells in a group

  int64_t count() const { return columns.size(0); }
  int64_t width() const { return columns.size(1); }
};

ZeroCells zero_cells(int64_t outputs, int64_t columns, const ZeroPattern& pattern);

// How many tiles of `cells` are to go after the part `done` of the work: of N:M groups all alike, else as the sparsity
// over `weights` weights asks.
int64_t tiles_gone(const ZeroCells& cells, const ZeroPattern& pattern, int64_t weights, double done);

// losses double [row tiles, cells]: the `count` cheapest, among them all that are in `gone` (bool) already; the earlier
// first where they are equal.
at::Tensor cheapest_tiles(const at::Tensor& losses, const at::Tensor& gone, int64_t count, const ZeroCells& cells,
                          bool by_row);

// Sums over the outputs of a tile: [outputs, cells] to [row tiles, cells].
at::Tensor over_tile_rows(const at::Tensor& losses, const ZeroCells& cells);

// bool [outputs, columns] of the weights that stay.
at::Tensor mask_of_tiles(const ZeroCells& cells, const at::Tensor& gone, int64_t outputs, int64_t columns);

}  // namespace pare
