#include "pare/transport/row_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pare::transport {

namespace {

// Four doubles that may lie anywhere; compilers without 256-bit registers split them.
using Double4 = double __attribute__((vector_size(32), aligned(8)));
using Integer4 = int64_t __attribute__((vector_size(32), aligned(8)));

__attribute__((always_inline)) inline void block_minima_body(const double* row, const double* v, int64_t columns,
                                                             double* minima) {
  const int64_t whole = columns / kScanBlock;
  for (int64_t b = 0; b < whole; ++b) {
    const auto* c = reinterpret_cast<const Double4*>(row + b * kScanBlock);
    const auto* d = reinterpret_cast<const Double4*>(v + b * kScanBlock);
    const Double4 r0 = c[0] - d[0];
    const Double4 r1 = c[1] - d[1];
    const Double4 r2 = c[2] - d[2];
    const Double4 r3 = c[3] - d[3];
    const Double4 low = r0 < r1 ? r0 : r1;
    const Double4 high = r2 < r3 ? r2 : r3;
    const Double4 least = low < high ? low : high;
    minima[b] = std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
  }
  if (whole * kScanBlock == columns) return;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t j = whole * kScanBlock; j < columns; ++j) least = std::min(least, row[j] - v[j]);
  minima[whole] = least;
}

__attribute__((always_inline)) inline void lower_body(const double* row, int64_t columns, int64_t index, double* v,
                                                      int64_t* argument) {
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    const Double4 c = *reinterpret_cast<const Double4*>(row + j);
    auto& least = *reinterpret_cast<Double4*>(v + j);
    auto& where = *reinterpret_cast<Integer4*>(argument + j);
    const Integer4 smaller = c < least;
    const Integer4 here = {index, index, index, index};
    least = smaller ? c : least;
    where = smaller ? here : where;
  }
  for (; j < columns; ++j)
    if (row[j] < v[j]) v[j] = row[j], argument[j] = index;
}

__attribute__((always_inline)) inline double magnitude_body(const double* row, int64_t columns) {
  Double4 most = {0, 0, 0, 0};
  Double4 poison = {0, 0, 0, 0};  // x − x is 0 for finite numbers only
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    const Double4 x = *reinterpret_cast<const Double4*>(row + j);
    const Double4 size = x < -x ? -x : x;
    most = size > most ? size : most;
    poison += x - x;
  }
  double largest = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
  double sum = poison[0] + poison[1] + poison[2] + poison[3];
  for (; j < columns; ++j) {
    largest = std::max(largest, std::abs(row[j]));
    sum += row[j] - row[j];
  }
  return largest + sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) double magnitude_avx2(const double* row, int64_t columns) {
  return magnitude_body(row, columns);
}
__attribute__((target("avx2"))) void block_minima_avx2(const double* row, const double* v, int64_t columns,
                                                       double* minima) {
  block_minima_body(row, v, columns, minima);
}
__attribute__((target("avx2"))) void lower_avx2(const double* row, int64_t columns, int64_t index, double* v,
                                                int64_t* argument) {
  lower_body(row, columns, index, v, argument);
}
const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif

}  // namespace

void block_minima(const double* row, const double* v, int64_t columns, double* minima) {
#if defined(__x86_64__)
  if (has_avx2) return block_minima_avx2(row, v, columns, minima);
#endif
  block_minima_body(row, v, columns, minima);
}

double magnitude(const double* row, int64_t columns) {
#if defined(__x86_64__)
  if (has_avx2) return magnitude_avx2(row, columns);
#endif
  return magnitude_body(row, columns);
}

void lower_to_minimum(const double* row, int64_t columns, int64_t index, double* v, int64_t* argument) {
#if defined(__x86_64__)
  if (has_avx2) return lower_avx2(row, columns, index, v, argument);
#endif
  lower_body(row, columns, index, v, argument);
}

}  // namespace pare::transport
