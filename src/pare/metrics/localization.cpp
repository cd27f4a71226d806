#include "pare/metrics/localization.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "pare/error.h"

namespace pare {

namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

struct Pixels {
  std::vector<double> map;
  std::vector<uint8_t> inside;
  int64_t width = 0;
  int64_t object = 0;  // pixels inside
  bool nan = false;
};

std::vector<double> map_values(const at::Tensor& map) {
  const at::Tensor values = map.detach().to(at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

bool any_nan(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

Pixels pixels_of(const at::Tensor& map, const at::Tensor& mask) {
  if (map.dim() != 2 || map.sizes() != mask.sizes() || map.numel() == 0)
    throw Error(ErrorKind::shape, "localization", "a map of {} and a mask of {}, expected [H, W] of both",
                fmt::join(map.sizes(), "x"), fmt::join(mask.sizes(), "x"));
  const at::Tensor there = mask.ne(0).to(at::kByte).contiguous();
  Pixels p{.map = map_values(map),
           .inside = {there.data_ptr<uint8_t>(), there.data_ptr<uint8_t>() + there.numel()},
           .width = map.size(1)};
  p.object = std::accumulate(p.inside.begin(), p.inside.end(), int64_t{0});
  p.nan = any_nan(p.map);
  return p;
}

std::vector<size_t> ascending(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

// Ranks 1 … n, those of equal values their mean.
std::vector<double> midranks(const std::vector<double>& values) {
  const auto order = ascending(values);
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + 1 + end) / 2;
    begin = end;
  }
  return ranks;
}

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  if (aa == 0 && bb == 0) return no_value;
  return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa) / std::sqrt(bb);
}

void check_pair(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.numel() == 0)
    throw Error(ErrorKind::shape, "localization", "maps of {} and {} cannot be compared", fmt::join(a.sizes(), "x"),
                fmt::join(b.sizes(), "x"));
}

}  // namespace

double localization_auc(const at::Tensor& map, const at::Tensor& mask) {
  const Pixels p = pixels_of(map, mask);
  const auto all = static_cast<int64_t>(p.map.size());
  if (p.nan || p.object == 0 || p.object == all) return no_value;
  const auto ranks = midranks(p.map);
  double sum = 0;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (p.inside[i] != 0) sum += ranks[i];
  const auto object = static_cast<double>(p.object), other = static_cast<double>(all - p.object);
  return (sum - object * (object + 1) / 2) / (object * other);
}

double point_accuracy(const at::Tensor& map, const at::Tensor& mask, double tolerance) {
  if (!(tolerance >= 0)) throw Error(ErrorKind::usage, "tolerance", "{} is negative", tolerance);
  const Pixels p = pixels_of(map, mask);
  if (p.nan || p.object == 0) return no_value;
  const auto best = std::max_element(p.map.begin(), p.map.end()) - p.map.begin();
  if (p.inside[static_cast<size_t>(best)] != 0) return 1;
  if (tolerance == 0) return 0;
  const int64_t y = best / p.width, x = best % p.width, height = map.size(0);
  const auto reach = static_cast<int64_t>(std::min(tolerance, 1e6));
  for (int64_t v = std::max<int64_t>(0, y - reach); v <= std::min(height - 1, y + reach); ++v)
    for (int64_t u = std::max<int64_t>(0, x - reach); u <= std::min(p.width - 1, x + reach); ++u) {
      const auto dy = static_cast<double>(v - y), dx = static_cast<double>(u - x);
      if (p.inside[static_cast<size_t>(v * p.width + u)] != 0 && dy * dy + dx * dx <= tolerance * tolerance) return 1;
    }
  return 0;
}

double relevance_mass(const at::Tensor& map, const at::Tensor& mask) {
  const Pixels p = pixels_of(map, mask);
  double inside = 0, all = 0;
  for (size_t i = 0; i < p.map.size(); ++i) {
    const double positive = std::max(p.map[i], 0.0);
    all += positive;
    if (p.inside[i] != 0) inside += positive;
  }
  return p.nan || all == 0 ? no_value : inside / all;
}

double relevance_rank(const at::Tensor& map, const at::Tensor& mask) {
  const Pixels p = pixels_of(map, mask);
  if (p.nan || p.object == 0) return no_value;
  std::vector<size_t> order(p.map.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto before = [&](size_t a, size_t b) { return p.map[a] > p.map[b] || (p.map[a] == p.map[b] && a < b); };
  std::nth_element(order.begin(), order.begin() + (p.object - 1), order.end(), before);
  int64_t hits = 0;
  for (int64_t i = 0; i < p.object; ++i) hits += p.inside[order[static_cast<size_t>(i)]];
  return static_cast<double>(hits) / static_cast<double>(p.object);
}

double map_cosine(const at::Tensor& a, const at::Tensor& b) {
  check_pair(a, b);
  return cosine(map_values(a), map_values(b));
}

double map_rank_correlation(const at::Tensor& a, const at::Tensor& b) {
  check_pair(a, b);
  auto x = map_values(a), y = map_values(b);
  if (any_nan(x) || any_nan(y)) return no_value;
  x = midranks(x);
  y = midranks(y);
  const double mean = static_cast<double>(x.size() + 1) / 2;
  for (double& rank : x) rank -= mean;
  for (double& rank : y) rank -= mean;
  return cosine(x, y);
}

void DefinedMean::add(double value) {
  if (std::isnan(value)) {
    ++undefined;
    return;
  }
  sum += value;
  ++counted;
}

void DefinedMean::merge(const DefinedMean& other) {
  sum += other.sum;
  counted += other.counted;
  undefined += other.undefined;
}

double DefinedMean::mean() const { return counted > 0 ? sum / static_cast<double>(counted) : no_value; }

void LocalizationMetrics::add(const at::Tensor& map, const at::Tensor& mask, double tolerance) {
  ++pairs;
  if (map.isnan().any().item<bool>()) {
    ++nan_maps;
    return;
  }
  zero_maps += !map.ne(0).any().item<bool>();
  auc.add(localization_auc(map, mask));
  point.add(point_accuracy(map, mask, tolerance));
  mass.add(relevance_mass(map, mask));
  rank.add(relevance_rank(map, mask));
}

void LocalizationMetrics::merge(const LocalizationMetrics& other) {
  auc.merge(other.auc);
  point.merge(other.point);
  mass.merge(other.mass);
  rank.merge(other.rank);
  pairs += other.pairs;
  zero_maps += other.zero_maps;
  nan_maps += other.nan_maps;
}

}  // namespace pare
