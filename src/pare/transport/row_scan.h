// Scans over one dense row of reduced costs, the only part of the exact solvers that touches every entry of a cost
// matrix. Vectorised for AVX2 where the processor has it; elsewhere the same code in the baseline's width.
#pragma once

#include <cstdint>

namespace pare::transport {

// Columns are looked at in blocks of this many.
inline constexpr int64_t kScanBlock = 16;
inline int64_t scan_blocks(int64_t columns) { return (columns + kScanBlock - 1) / kScanBlock; }

// minima[b] = min over the columns j of block b of row[j] − v[j].
void block_minima(const double* row, const double* v, int64_t columns, double* minima);

// Where row[j] < v[j]: v[j] = row[j] and argument[j] = index.
void lower_to_minimum(const double* row, int64_t columns, int64_t index, double* v, int64_t* argument);

// max |x_j|; NaN when any is not finite.
double magnitude(const double* row, int64_t columns);

}  // namespace pare::transport
