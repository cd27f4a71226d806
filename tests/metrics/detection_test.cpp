// COCO's average precision, against the definition written slowly and by hand.
#include "pare/metrics/detection.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "pare/data/boxes.h"

namespace pare {
namespace {

struct Plain {
  double x0, y0, x1, y1, a, b;  // detections: score, class; labelled boxes: class, crowd
};

at::Tensor tensor_of(const std::vector<Plain>& rows) {
  at::Tensor out = at::empty({static_cast<int64_t>(rows.size()), 6}, at::kDouble);
  for (size_t i = 0; i < rows.size(); ++i)
    out[static_cast<int64_t>(i)].copy_(
        at::tensor({rows[i].x0, rows[i].y0, rows[i].x1, rows[i].y1, rows[i].a, rows[i].b}, at::kDouble));
  return out;
}

struct Picture {
  std::vector<Plain> found, boxes;
};

DetectionMetrics measured(const std::vector<Picture>& pictures) {
  DetectionTally all;
  for (const auto& picture : pictures) {
    DetectionTally own;
    own.add(tensor_of(picture.found), tensor_of(picture.boxes));
    all.merge(std::move(own));
  }
  return all.metrics();
}

double overlap(const Plain& d, const Plain& g) {
  const double w = std::min(d.x1, g.x1) - std::max(d.x0, g.x0), h = std::min(d.y1, g.y1) - std::max(d.y0, g.y0);
  if (w <= 0 || h <= 0) return 0;
  const double area_d = (d.x1 - d.x0) * (d.y1 - d.y0), area_g = (g.x1 - g.x0) * (g.y1 - g.y0);
  return w * h / (g.b == kCrowd ? area_d : area_d + area_g - w * h);
}

// The average precision of a class at an overlap: every detection's fate, then the largest precision at each recall.
double slow_precision(const std::vector<Picture>& pictures, double label, double least) {
  struct Fate {
    double score;
    bool right;
  };
  std::vector<Fate> fates;
  double boxes = 0;
  for (const auto& picture : pictures) {
    std::vector<Plain> found, wanted, unwanted;
    for (const auto& row : picture.found)
      if (row.b == label) found.push_back(row);
    for (const auto& row : picture.boxes)
      if (row.a == label) (row.b == 0 ? wanted : unwanted).push_back(row);
    boxes += static_cast<double>(wanted.size());
    std::stable_sort(found.begin(), found.end(), [](const Plain& x, const Plain& y) { return x.a > y.a; });
    if (found.size() > 100) found.resize(100);
    std::set<size_t> taken, passed;
    for (const auto& d : found) {
      // The wanted box that it overlaps most; only without one does another excuse it.
      int best = -1;
      for (size_t g = 0; g < wanted.size(); ++g)
        if (!taken.contains(g) && overlap(d, wanted[g]) >= least &&
            (best < 0 || overlap(d, wanted[g]) >= overlap(d, wanted[static_cast<size_t>(best)])))
          best = static_cast<int>(g);
      if (best >= 0) {
        taken.insert(static_cast<size_t>(best));
        fates.push_back({d.a, true});
        continue;
      }
      int excuse = -1;
      for (size_t g = 0; g < unwanted.size(); ++g)
        if (overlap(d, unwanted[g]) >= least && (unwanted[g].b == kCrowd || !passed.contains(g)) &&
            (excuse < 0 || overlap(d, unwanted[g]) >= overlap(d, unwanted[static_cast<size_t>(excuse)])))
          excuse = static_cast<int>(g);
      if (excuse >= 0)
        passed.insert(static_cast<size_t>(excuse));
      else
        fates.push_back({d.a, false});
    }
  }
  if (boxes == 0) return -1;
  std::stable_sort(fates.begin(), fates.end(), [](const Fate& x, const Fate& y) { return x.score > y.score; });
  double sum = 0;
  for (int r = 0; r <= 100; ++r) {
    double best = 0, right = 0;
    for (size_t i = 0; i < fates.size(); ++i) {
      right += fates[i].right;
      if (right / boxes >= r / 100.0) best = std::max(best, right / static_cast<double>(i + 1));
    }
    sum += best;
  }
  return sum / 101;
}

double slow_map(const std::vector<Picture>& pictures, int classes, int first = 50, int last = 95) {
  double sum = 0, count = 0;
  for (int c = 0; c < classes; ++c)
    for (int t = first; t <= last; t += 5)
      if (const double own = slow_precision(pictures, c, t / 100.0); own >= 0) sum += own, ++count;
  return sum / count;
}

TEST(Detection, IsTheDefinitionOnRandomPictures) {
  std::mt19937 random(7);
  const auto uniform = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<Picture> pictures(1 + trial % 6);
    for (auto& picture : pictures) {
      const int boxes = static_cast<int>(uniform(0, 6));
      for (int i = 0; i < boxes; ++i) {
        const double x = uniform(0, 60), y = uniform(0, 60);
        const double kind = uniform(0, 1) < 0.7 ? 0 : uniform(0, 1) < 0.5 ? kCrowd : kDifficult;
        picture.boxes.push_back({x, y, x + uniform(5, 30), y + uniform(5, 30), std::floor(uniform(0, 3)), kind});
      }
      // Near the boxes, and anywhere; scores are often the same.
      for (int i = 0; i < 12; ++i) {
        const bool near = boxes > 0 && uniform(0, 1) < 0.7;
        Plain row{uniform(0, 60), uniform(0, 60), 0, 0, std::round(uniform(0, 10)) / 10, std::floor(uniform(0, 3))};
        row.x1 = row.x0 + uniform(5, 30), row.y1 = row.y0 + uniform(5, 30);
        if (near) {
          const Plain& box = picture.boxes[static_cast<size_t>(uniform(0, boxes))];
          row = {box.x0 + uniform(-3, 3),
                 box.y0 + uniform(-3, 3),
                 box.x1 + uniform(-3, 3),
                 box.y1 + uniform(-3, 3),
                 row.a,
                 uniform(0, 1) < 0.8 ? box.a : row.b};
        }
        picture.found.push_back(row);
      }
    }
    const DetectionMetrics metrics = measured(pictures);
    const double wanted = slow_map(pictures, 3);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(metrics.map));
      continue;
    }
    EXPECT_NEAR(metrics.map, wanted, 1e-9) << "trial " << trial;
    EXPECT_NEAR(metrics.map50, slow_map(pictures, 3, 50, 50), 1e-9);
    EXPECT_NEAR(metrics.map75, slow_map(pictures, 3, 75, 75), 1e-9);
  }
}

TEST(Detection, ByHand) {
  const Plain box{0, 0, 10, 10, 0, 0}, other{20, 20, 30, 30, 0, 0};
  const auto at = [](const Plain& place, double score, double label = 0) {
    return Plain{place.x0, place.y0, place.x1, place.y1, score, label};
  };
  EXPECT_NEAR(measured({{{at(box, 0.9)}, {box}}}).map, 1, 1e-12);
  // One of two boxes: precision 1 up to a recall of 0.5.
  EXPECT_NEAR(measured({{{at(box, 0.9)}, {box, other}}}).map, 51.0 / 101, 1e-12);
  EXPECT_NEAR(measured({{{at(box, 0.9)}, {box, other}}}).recall, 0.5, 1e-12);
  // A better score where there is nothing halves the precision; a worse one costs nothing.
  const Plain nothing{50, 50, 60, 60, 0, 0};
  EXPECT_NEAR(measured({{{at(nothing, 0.95), at(box, 0.9)}, {box}}}).map, 0.5, 1e-12);
  EXPECT_NEAR(measured({{{at(nothing, 0.5), at(box, 0.9)}, {box}}}).map, 1, 1e-12);
  // The second detection of a box is wrong; of another class it finds nothing.
  EXPECT_NEAR(measured({{{at(box, 0.9), at(box, 0.95)}, {box, other}}}).map, 51.0 / 101, 1e-12);
  EXPECT_NEAR(measured({{{at(box, 0.9, 1)}, {box}}}).map, 0, 1e-12);
  // 8 of 12 columns are common: right up to an overlap of 0.65.
  const Plain moved{2, 0, 12, 10, 0, 0};
  EXPECT_NEAR(measured({{{at(moved, 0.9)}, {box}}}).map, 0.4, 1e-12);
  EXPECT_NEAR(measured({{{at(moved, 0.9)}, {box}}}).map50, 1, 1e-12);
  EXPECT_NEAR(measured({{{at(moved, 0.9)}, {box}}}).map75, 0, 1e-12);
}

TEST(Detection, CrowdsAndDifficultBoxesNeedNotBeFound) {
  const Plain box{0, 0, 10, 10, 0, 0}, crowd{20, 20, 60, 60, 0, kCrowd}, difficult{70, 70, 80, 80, 0, kDifficult};
  const Plain in_crowd{25, 25, 30, 30, 0.95, 0}, again{35, 35, 40, 40, 0.95, 0}, on_difficult{70, 70, 80, 80, 0.95, 0};
  const Plain found{0, 0, 10, 10, 0.5, 0};
  EXPECT_NEAR(measured({{{in_crowd, again, on_difficult, found}, {crowd, box, difficult}}}).map, 1, 1e-12);
  EXPECT_NEAR(measured({{{found}, {crowd, box, difficult}}}).map, 1, 1e-12) << "nobody has to find them";
  // A difficult box excuses one detection, a crowd any number.
  EXPECT_NEAR(measured({{{on_difficult, on_difficult, found}, {difficult, box}}}).map, 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(measured({{{in_crowd}, {crowd}}}).map)) << "nothing to find";
}

TEST(Detection, RowsThatFillUpAreNoBoxes) {
  DetectionTally tally;
  tally.add(at::zeros({0, 6}), at::full({3, 6}, -1.0));
  EXPECT_TRUE(tally.classes.empty());
}

}  // namespace
}  // namespace pare
