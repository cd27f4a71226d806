// How far the integers of an activation reach, from a histogram of what samples gave.
//
// A grid of `levels` numbers over [low, high], which holds zero (padding is zero), has the step Δ = (high − low) /
// (levels − 1):
//   minmax      all that was seen
//   percentile  all but the share 1 − p of the smallest and of the largest
//   mse         the part of it at which Σ over values inside Δ²/12 + Σ over those outside (distance to the end)² is
//               least
//   entropy     the part of it at which KL(values cut off at the ends ‖ the same on the grid) is least, which is
//               TensorRT's rule
// Pure functions; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/quantize.h"
#include "pare/samples/samples.h"

namespace pare {

struct ValueRange {
  double low = 0;
  double high = 0;
};

struct RangeOptions {
  RangeMethod method = RangeMethod::mse;
  double percentile = 99.99;  // p, in per cent
  bool symmetric = false;     // low = −high
  int64_t levels = 256;       // symmetric: 255
};

struct ValueHistogram {
  ValueRange seen;
  at::Tensor counts;  // double [bins], equal bins over what was seen

  double bin() const;
  at::Tensor centres() const;
};
// Of a value's numbers, within a range that holds them all.
at::Tensor histogram_counts(const at::Tensor& value, const ValueRange& range);

ValueRange chosen_range(const ValueHistogram& histogram, const RangeOptions& options);

// Ranges of the named values of a graph over samples. Error{format} names a value that is not finite.
std::map<std::string, ValueRange> calibrate_ranges(const Graph& graph, const std::vector<std::string>& values,
                                                   const Samples& samples, const RangeOptions& options,
                                                   Observer& observer);

}  // namespace pare
