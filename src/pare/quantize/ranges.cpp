#include "pare/quantize/ranges.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pare/data/in_order.h"
#include "pare/error.h"
#include "pare/layerwise/pieces.h"
#include "pare/run.h"

namespace pare {

namespace {

constexpr int64_t kBins = 2048;
constexpr int64_t kPiece = 8;  // samples run at once by a thread

ValueRange with_zero(double low, double high) { return {std::min(low, 0.0), std::max(high, 0.0)}; }

ValueRange about_zero(const ValueRange& range) {
  const double far = std::max(-range.low, range.high);
  return {-far, far};
}

// The smallest and the largest number that so many of all lie below and above.
ValueRange percentiles(const ValueHistogram& histogram, double percentile) {
  const at::Tensor sums = histogram.counts.cumsum(0);
  const double all = sums[-1].item<double>(), outside = all * (1 - percentile / 100);
  const auto below = sums.le(outside).sum().item<int64_t>();           // bins that can go at the low end
  const auto upto = sums.lt(all - outside).sum().item<int64_t>() + 1;  // bins that stay, counted from the low end
  return {histogram.seen.low + static_cast<double>(below) * histogram.bin(),
          histogram.seen.low + static_cast<double>(upto) * histogram.bin()};
}

double squared_error(const ValueHistogram& histogram, const ValueRange& range, int64_t levels) {
  const double step = (range.high - range.low) / static_cast<double>(levels - 1);
  const at::Tensor x = histogram.centres();
  const at::Tensor outside = (x - x.clamp(range.low, range.high)).square();
  return (histogram.counts * at::where(outside > 0, outside, at::full_like(outside, step * step / 12)))
      .sum()
      .item<double>();
}

// P: the values inside, those outside counted at the ends. Q: P's inside values with the bins of each level alike.
// Zeros, of which a Relu leaves many, count as their neighbours do: every grid has a zero, and a spike is like nothing.
double divergence_on_grid(const ValueHistogram& given, const ValueRange& range, int64_t levels) {
  ValueHistogram histogram = given;
  const int64_t last = given.counts.numel() - 1;
  const auto zero = std::clamp<int64_t>(static_cast<int64_t>(-given.seen.low / given.bin()), 0, last);
  histogram.counts = given.counts.clone();
  histogram.counts[zero] = given.counts[zero < last ? zero + 1 : zero - 1];
  const at::Tensor x = histogram.centres(), inside = x.ge(range.low).logical_and(x.le(range.high));
  const at::Tensor own = inside.nonzero().squeeze(1);
  if (own.numel() == 0) return std::numeric_limits<double>::infinity();
  const at::Tensor q0 = histogram.counts.index_select(0, own);
  at::Tensor p = q0.clone();
  p[0] += (histogram.counts * x.lt(range.low)).sum();
  p[-1] += (histogram.counts * x.gt(range.high)).sum();
  const double step = std::max((range.high - range.low) / static_cast<double>(levels - 1), 1e-300);
  const at::Tensor level = at::round((x.index_select(0, own) - range.low) / step).to(at::kLong).clamp(0, levels - 1);
  const auto per_level = [&](const at::Tensor& of_bins) {
    return at::zeros({levels}, at::kDouble).index_add_(0, level, of_bins).index_select(0, level);
  };
  const at::Tensor filled = q0.gt(0).to(at::kDouble);
  at::Tensor q = at::where(q0 > 0, per_level(q0) / per_level(filled).clamp_min(1), at::zeros_like(q0));
  p = p / p.sum();
  q = q / q.sum().clamp_min(1e-300);
  const at::Tensor both = p.gt(0);
  return at::where(both, p * (p.clamp_min(1e-300) / q.clamp_min(1e-12)).log(), at::zeros_like(p)).sum().item<double>();
}

}  // namespace

double ValueHistogram::bin() const { return (seen.high - seen.low) / static_cast<double>(counts.numel()); }

at::Tensor ValueHistogram::centres() const {
  return seen.low + bin() * (at::arange(counts.numel(), at::kDouble) + 0.5);
}

at::Tensor histogram_counts(const at::Tensor& value, const ValueRange& range) {
  if (!(range.high > range.low)) {
    at::Tensor counts = at::zeros({kBins}, at::kDouble);
    counts[0] = static_cast<double>(value.numel());
    return counts;
  }
  return at::histc(value.to(at::kFloat).flatten(), kBins, range.low, range.high).to(at::kDouble);
}

ValueRange chosen_range(const ValueHistogram& histogram, const RangeOptions& options) {
  const ValueRange seen = with_zero(histogram.seen.low, histogram.seen.high);
  const ValueRange whole = options.symmetric ? about_zero(seen) : seen;
  if (options.method == RangeMethod::minmax || !(seen.high > seen.low)) return whole;
  if (options.method == RangeMethod::percentile) {
    const ValueRange most = percentiles(histogram, options.percentile);
    const ValueRange kept = with_zero(std::max(most.low, seen.low), std::min(most.high, seen.high));
    return options.symmetric ? about_zero(kept) : kept;
  }
  const auto loss = options.method == RangeMethod::mse ? squared_error : divergence_on_grid;
  // Both ends together, then each for itself.
  const auto best_part = [&](const ValueRange& from, double low_moves, double high_moves) {
    ValueRange best = from;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t percent = 100; percent >= 30; percent -= 2) {
      const double part = static_cast<double>(percent) / 100;
      const ValueRange tried = {from.low * (1 - low_moves * (1 - part)), from.high * (1 - high_moves * (1 - part))};
      const double own = loss(histogram, tried, options.levels);
      if (own < least) least = own, best = tried;
    }
    return best;
  };
  ValueRange best = best_part(whole, 1, 1);
  if (options.symmetric) return best;
  best = best_part(best, 1, 0);
  return best_part(best, 0, 1);
}

std::map<std::string, ValueRange> calibrate_ranges(const Graph& graph, const std::vector<std::string>& values,
                                                   const Samples& samples, const RangeOptions& options,
                                                   Observer& observer) {
  if (samples.size == 0) throw Error(ErrorKind::usage, "samples", "there are none to see the range of activations on");
  const Program program(graph);
  RunOptions run;
  run.taps = values;
  const Pieces pieces = pieces_of(graph, samples, kPiece);
  int64_t done = 0;
  const auto over_pieces = [&](const std::function<at::Tensor(const std::string&, const at::Tensor&)>& of_value,
                               const std::function<void(const std::string&, const at::Tensor&)>& collect) {
    using Part = std::vector<at::Tensor>;
    in_order<Part>(
        pieces.count(),
        [&](size_t p) {
          const at::NoGradGuard no_grad;
          const auto inputs = pieces.inputs(p);
          const RunResult result = program.run(inputs, run);
          Part part;
          for (const auto& name : values) {
            at::Tensor value = result.tapped.at(name);
            if (value.dim() > 0 && value.size(0) == pieces.end(p) - pieces.begin(p))
              value = value.narrow(0, 0, pieces.real_in(p));
            part.push_back(of_value(name, value));
          }
          return part;
        },
        [&](const Part& part) {
          for (size_t i = 0; i < part.size(); ++i) collect(values[i], part[i]);
          observer.step("measuring the ranges of activations", ++done, 2 * static_cast<int64_t>(pieces.count()));
        });
  };
  std::map<std::string, ValueRange> seen;
  over_pieces(
      [](const std::string& name, const at::Tensor& value) {
        if (!at::isfinite(value).all().item<bool>())
          throw Error(ErrorKind::format, name, "is not finite on the samples: it has no range");
        return at::stack({value.min(), value.max()}).to(at::kDouble);
      },
      [&](const std::string& name, const at::Tensor& ends) {
        const double low = ends[0].item<double>(), high = ends[1].item<double>();
        const auto [own, first] = seen.try_emplace(name, ValueRange{low, high});
        if (!first) own->second = {std::min(own->second.low, low), std::max(own->second.high, high)};
      });
  TensorMap counts;
  if (options.method != RangeMethod::minmax)
    over_pieces(
        [&](const std::string& name, const at::Tensor& value) { return histogram_counts(value, seen.at(name)); },
        [&](const std::string& name, const at::Tensor& part) {
          const auto [own, first] = counts.try_emplace(name, part);
          if (!first) own->second = own->second + part;
        });
  std::map<std::string, ValueRange> ranges;
  for (const auto& name : values) {
    const auto own = counts.find(name);
    ranges[name] =
        chosen_range({seen.at(name), own == counts.end() ? at::zeros({kBins}, at::kDouble) : own->second}, options);
  }
  return ranges;
}

}  // namespace pare
