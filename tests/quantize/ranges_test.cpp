// Ranges of activations from histograms, and the integers that go with them.
#include "pare/quantize/ranges.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "pare/error.h"
#include "pare/quantize/activations.h"
#include "pare/run.h"
#include "support/builder.h"

namespace pare {
namespace {

ValueHistogram histogram_of(const at::Tensor& value) {
  const ValueRange seen{value.min().item<double>(), value.max().item<double>()};
  return {seen, histogram_counts(value, seen)};
}

// Σ (x − x̂)² over the numbers themselves.
double lost(const at::Tensor& x, const ValueRange& range) {
  const double step = (range.high - range.low) / 255;
  const at::Tensor back = at::round((x.clamp(range.low, range.high) - range.low) / step) * step + range.low;
  return (back - x).square().sum().item<double>();
}

TEST(Ranges, MinMaxIsAllThatWasSeenAndHoldsZero) {
  const ValueRange range = chosen_range(histogram_of(at::linspace(2, 5, 100)), {.method = RangeMethod::minmax});
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 5);
  const ValueRange both =
      chosen_range(histogram_of(at::linspace(-1, 5, 100)), {.method = RangeMethod::minmax, .symmetric = true});
  EXPECT_EQ(both.low, -5);
  EXPECT_EQ(both.high, 5);
}

TEST(Ranges, APercentileLeavesOutTheRarest) {
  at::Tensor x = at::linspace(0, 1, 10000);
  x[0] = -50;
  x[9999] = 100;
  const ValueRange range = chosen_range(histogram_of(x), {.method = RangeMethod::percentile, .percentile = 99.9});
  EXPECT_GE(range.high, 0.99);
  EXPECT_LE(range.high, 1.2);  // bins are 150 / 2048 wide
  EXPECT_GE(range.low, -0.1);
  EXPECT_EQ(chosen_range(histogram_of(x), {.method = RangeMethod::percentile, .percentile = 100}).high, 100);
}

// Against every range of a grid of them, by the numbers themselves instead of their histogram.
TEST(Ranges, TheLeastSquaredErrorIsNearTheLeastOfAll) {
  at::manual_seed(2);
  for (const double tail : {0.0, 3.0, 8.0}) {
    at::Tensor x = at::randn({20000}).to(at::kDouble);
    if (tail > 0) x = at::where(at::rand({20000}) < 0.001, x * tail, x);
    double least = std::numeric_limits<double>::infinity();
    const double low = x.min().item<double>(), high = x.max().item<double>();
    for (double a = 0.2; a <= 1; a += 0.02)
      for (double b = 0.2; b <= 1; b += 0.02) least = std::min(least, lost(x, {low * a, high * b}));
    const ValueRange found = chosen_range(histogram_of(x), {.method = RangeMethod::mse});
    EXPECT_LE(lost(x, found), 1.15 * least) << tail;
    EXPECT_LE(lost(x, found), 1.001 * lost(x, {low, high})) << tail;
  }
}

TEST(Ranges, EntropyCutsOffALoneOutlier) {
  at::manual_seed(3);
  at::Tensor x = at::rand({50000});
  x[0] = 3;
  const ValueRange range = chosen_range(histogram_of(x), {.method = RangeMethod::entropy});
  EXPECT_LT(range.high, 2);
  EXPECT_GT(range.high, 0.8);
  // What fills its range evenly keeps it.
  EXPECT_GT(chosen_range(histogram_of(at::rand({50000})), {.method = RangeMethod::entropy}).high, 0.9);
}

TEST(Ranges, ConstantsHaveAGrid) {
  for (const auto method : {RangeMethod::minmax, RangeMethod::percentile, RangeMethod::entropy, RangeMethod::mse}) {
    const ValueRange zero = chosen_range(histogram_of(at::zeros({10})), {.method = method});
    EXPECT_EQ(activation_grid(zero, false).scale, 1);
    const ValueRange three = chosen_range(histogram_of(at::full({10}, 3.0)), {.method = method});
    const ActivationGrid grid = activation_grid(three, false);
    EXPECT_NEAR(255 * static_cast<double>(grid.scale), 3, 1e-5);
    EXPECT_EQ(grid.zero, 0);
    const ValueRange below = chosen_range(histogram_of(at::full({10}, -3.0)), {.method = method});
    EXPECT_EQ(activation_grid(below, false).zero, 255);
  }
}

// What Clip lets through is never exceeded, so that runtimes can leave the Clip out.
TEST(Ranges, AGridDoesNotReachBeyondItsRange) {
  for (const double high : {6.0, 1.0, 0.3, 123.456}) {
    const ActivationGrid grid = activation_grid({0, high}, false);
    EXPECT_LE(255 * static_cast<double>(grid.scale), high * (1 + 1e-12));
    EXPECT_GT(255 * static_cast<double>(grid.scale), high * (1 - 1e-6));
  }
}

TEST(Ranges, ValuesThatAreNotFiniteAreNamed) {
  TestGraph g;
  const auto x = g.input("x", {-1, 3});
  const Graph graph = cast(g.finish(g.node("Log", {x})), at::kFloat);
  Observer nobody;
  try {
    calibrate_ranges(graph, {graph.nodes[0].outputs[0]}, samples_of({at::full({4, 3}, -1.0F)}), {}, nobody);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), graph.nodes[0].outputs[0]);
    EXPECT_EQ(error.kind(), ErrorKind::format);
  }
}

}  // namespace
}  // namespace pare
