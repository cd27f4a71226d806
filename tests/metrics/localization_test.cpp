#include "pare/metrics/localization.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "pare/error.h"
#include "pare/metrics/multilabel.h"

namespace pare {
namespace {

struct Case {
  at::Tensor map, mask;
};

// Random maps with many ties, and random masks.
std::vector<Case> random_cases() {
  at::manual_seed(11);
  std::vector<Case> cases;
  for (int i = 0; i < 40; ++i)
    cases.push_back({at::randint(-3, 6, {6, 7}, at::kLong).to(at::kDouble), at::rand({6, 7}).gt(0.1 + 0.02 * i)});
  return cases;
}

// The trapezoid under the ROC, one threshold after the other.
double slow_auc(const Case& c) {
  const auto map = c.map.flatten(), mask = c.mask.flatten();
  std::set<double, std::greater<>> thresholds;
  for (int64_t i = 0; i < map.numel(); ++i) thresholds.insert(map[i].item<double>());
  const double positives = mask.sum().item<double>(), negatives = static_cast<double>(mask.numel()) - positives;
  double area = 0, x = 0, y = 0;
  for (const double threshold : thresholds) {
    const auto found = map.ge(threshold);
    const double next_y = found.logical_and(mask).sum().item<double>() / positives;
    const double next_x = found.logical_and(mask.logical_not()).sum().item<double>() / negatives;
    area += (next_x - x) * (y + next_y) / 2;
    x = next_x;
    y = next_y;
  }
  return area;
}

TEST(Localization, AucIsTheAreaUnderTheRoc) {
  for (const auto& c : random_cases()) {
    if (!c.mask.any().item<bool>() || c.mask.all().item<bool>()) {
      EXPECT_TRUE(std::isnan(localization_auc(c.map, c.mask)));
      continue;
    }
    const double auc = localization_auc(c.map, c.mask);
    EXPECT_NEAR(auc, slow_auc(c), 1e-14);
    EXPECT_NEAR(localization_auc(-c.map, c.mask), 1 - auc, 1e-14);
    EXPECT_NEAR(localization_auc(c.map.exp() * 3 - 1, c.mask), auc, 1e-14);
    EXPECT_EQ(localization_auc(c.mask.to(at::kDouble), c.mask), 1);
    EXPECT_EQ(localization_auc(at::full({6, 7}, 0.3), c.mask), 0.5);
  }
  const auto map = at::rand({3, 3}), none = at::zeros({3, 3}), all = at::ones({3, 3});
  EXPECT_TRUE(std::isnan(localization_auc(map, none)));
  EXPECT_TRUE(std::isnan(localization_auc(map, all)));
  EXPECT_THROW(localization_auc(map, at::zeros({3, 4})), Error);
}

TEST(Localization, PointAccuracyWithAndWithoutTolerance) {
  auto mask = at::zeros({8, 8}), map = at::zeros({8, 8});
  mask[2][3] = 1;
  EXPECT_EQ(point_accuracy(mask, mask), 1);
  map[5][7] = 2;  // sqrt(9 + 16) = 5 away
  EXPECT_EQ(point_accuracy(map, mask), 0);
  EXPECT_EQ(point_accuracy(map, mask, 4.999), 0);
  EXPECT_EQ(point_accuracy(map, mask, 5), 1);
  map[2][3] = 2;  // the first of two maxima counts
  EXPECT_EQ(point_accuracy(map, mask), 1);
  EXPECT_EQ(point_accuracy(at::zeros({8, 8}), mask), 0) << "an all-zero map points at (0, 0)";
  EXPECT_TRUE(std::isnan(point_accuracy(map, at::zeros({8, 8}))));
  EXPECT_THROW(point_accuracy(map, mask, -1), Error);
  // Against all pixels in turn.
  for (const auto& c : random_cases())
    for (const double tolerance : {0.0, 1.0, 1.5, 2.9}) {
      if (!c.mask.any().item<bool>()) continue;
      const int64_t best = c.map.flatten().eq(c.map.max()).nonzero()[0].item<int64_t>();
      bool hit = false;
      for (int64_t y = 0; y < 6; ++y)
        for (int64_t x = 0; x < 7; ++x)
          hit |= c.mask[y][x].item<bool>() && std::hypot(y - best / 7, x - best % 7) <= tolerance;
      EXPECT_EQ(point_accuracy(c.map, c.mask, tolerance), hit ? 1 : 0);
    }
}

TEST(Localization, MassAndRankAgreeWithTheirDefinitions) {
  for (const auto& c : random_cases()) {
    if (!c.mask.any().item<bool>()) continue;
    const auto positive = c.map.clamp_min(0);
    EXPECT_NEAR(relevance_mass(c.map, c.mask), (positive * c.mask).sum().item<double>() / positive.sum().item<double>(),
                1e-14);
    const int64_t size = c.mask.sum().item<int64_t>();
    const auto top = std::get<1>(at::sort(c.map.flatten(), /*stable=*/true, 0, /*descending=*/true)).slice(0, 0, size);
    EXPECT_NEAR(relevance_rank(c.map, c.mask), c.mask.flatten().index_select(0, top).sum().item<double>() / size,
                1e-14);
  }
  const auto mask = at::eye(3);
  EXPECT_EQ(relevance_mass(mask, mask), 1);
  EXPECT_EQ(relevance_rank(mask, mask), 1);
  EXPECT_TRUE(std::isnan(relevance_mass(-mask, mask)));
}

TEST(Localization, SimilarityOfMaps) {
  at::manual_seed(2);
  const auto a = at::rand({5, 5}, at::kDouble), b = at::rand({5, 5}, at::kDouble);
  EXPECT_NEAR(map_cosine(a, 7 * a), 1, 1e-14);
  EXPECT_NEAR(map_cosine(a, -a), -1, 1e-14);
  EXPECT_NEAR(map_cosine(a, b), ((a * b).sum() / a.norm() / b.norm()).item<double>(), 1e-14);
  EXPECT_EQ(map_cosine(a, at::zeros({5, 5})), 0);
  EXPECT_TRUE(std::isnan(map_cosine(at::zeros({5, 5}), at::zeros({5, 5}))));
  EXPECT_NEAR(map_rank_correlation(a, a.exp()), 1, 1e-14);
  EXPECT_NEAR(map_rank_correlation(a, -a), -1, 1e-14);
  EXPECT_EQ(map_rank_correlation(a, at::ones({5, 5})), 0);
  EXPECT_THROW(map_cosine(a, at::zeros({4, 5})), Error);
  // Midranks by counting, then Pearson's formula.
  for (const auto& c : random_cases()) {
    const auto x = c.map.flatten(), y = (c.map * c.map + at::rand({6, 7}, at::kDouble).mul(4).floor()).flatten();
    const auto ranks = [](const at::Tensor& v) {
      return v.unsqueeze(1).gt(v).sum(1).to(at::kDouble) + (v.unsqueeze(1).eq(v).sum(1).to(at::kDouble) + 1) / 2;
    };
    const auto p = ranks(x) - ranks(x).mean(), q = ranks(y) - ranks(y).mean();
    EXPECT_NEAR(map_rank_correlation(x.view({6, 7}), y.view({6, 7})),
                ((p * q).sum() / p.norm() / q.norm()).item<double>(), 1e-13);
  }
}

TEST(Localization, CountsWhatIsUndefined) {
  LocalizationMetrics metrics, other;
  auto mask = at::zeros({4, 4});
  mask[0][0] = 1;
  metrics.add(at::zeros({4, 4}), mask);
  metrics.add(at::full({4, 4}, std::nan("")), mask);
  other.add(mask, mask);
  other.add(mask, at::zeros({4, 4}));
  metrics.merge(other);
  EXPECT_EQ(metrics.pairs, 4);
  EXPECT_EQ(metrics.zero_maps, 1);
  EXPECT_EQ(metrics.nan_maps, 1);
  EXPECT_EQ(metrics.auc.counted, 2);
  EXPECT_EQ(metrics.auc.undefined, 1);
  EXPECT_DOUBLE_EQ(metrics.auc.mean(), 0.75);
  EXPECT_DOUBLE_EQ(metrics.point.mean(), 1) << "the zero map points at the object, which is at (0, 0)";
  EXPECT_TRUE(std::isnan(LocalizationMetrics().auc.mean()));
}

// Of one positive among K scores AP is 1 / rank, so its mean over the ranks is the harmonic number H_K / K.
TEST(MultiLabel, PrecisionOfOnePositiveIsHarmonic) {
  const auto scores = at::arange(10, at::kDouble).expand({10, 10});
  double harmonic = 0;
  for (int k = 1; k <= 10; ++k) harmonic += 1.0 / k;
  EXPECT_NEAR(sample_average_precision(scores, at::eye(10)).mean, harmonic / 10, 1e-15);
}

}  // namespace
}  // namespace pare
