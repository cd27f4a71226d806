#include "pare/metrics/detection.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <set>

#include "pare/data/boxes.h"
#include "pare/error.h"
#include "pare/metrics/box_decoder.h"
#include "pare/metrics/rectangle.h"
#include "pare/passes/for_inference.h"
#include "pare/passes/working_form.h"

namespace pare {

namespace {

constexpr size_t kMostOfPicture = 100;
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double overlap_at(size_t place) { return static_cast<double>(50 + 5 * place) / 100; }

// A detection (score, class) or a labelled box (class, crowd).
struct Row {
  Rectangle box;
  double fifth = 0, sixth = 0;

  double score() const { return fifth; }
  int64_t found_class() const { return static_cast<int64_t>(sixth); }
  int64_t label() const { return static_cast<int64_t>(fifth); }
  int crowd() const { return static_cast<int>(sixth); }
};

std::vector<Row> box_rows(const at::Tensor& boxes) {
  if (boxes.dim() != 2 || boxes.size(1) != 6)
    throw Error(ErrorKind::shape, "boxes", "are {}, expected [boxes, 6]", fmt::join(boxes.sizes(), "x"));
  const at::Tensor values = boxes.to(at::kDouble).contiguous();
  std::vector<Row> rows;
  for (int64_t i = 0; i < values.size(0); ++i) {
    const double* at = values.data_ptr<double>() + 6 * i;
    rows.push_back({{at[0], at[1], at[2], at[3]}, at[4], at[5]});
  }
  return rows;
}

// Of a crowd the part of the detection that lies in it.
double overlap_with(const Row& detection, const Row& box) {
  if (box.crowd() != kCrowd) return overlap(detection.box, box.box);
  const double whole = detection.box.area();
  return whole > 0 ? common_area(detection.box, box.box) / whole : 0;
}

// Detections from the best down, boxes with those that are to be found first.
class Matching {
 public:
  Matching(const std::vector<Row>& detections, const std::vector<Row>& boxes) : boxes_(boxes) {
    for (const Row& detection : detections) {
      auto& own = overlaps_.emplace_back();
      for (const Row& box : boxes) own.push_back(overlap_with(detection, box));
    }
  }

  std::vector<Verdict> at(double least) const {
    std::vector<bool> taken(boxes_.size());
    std::vector<Verdict> verdicts;
    for (const auto& own : overlaps_) {
      const int found = best(own, taken, least);
      if (found < 0) {
        verdicts.push_back(Verdict::wrong);
        continue;
      }
      taken[static_cast<size_t>(found)] = true;
      verdicts.push_back(boxes_[static_cast<size_t>(found)].crowd() == 0 ? Verdict::right : Verdict::ignored);
    }
    return verdicts;
  }

 private:
  // Boxes that need not be found are only taken where no other fits; a crowd may be taken often.
  int best(const std::vector<double>& own, const std::vector<bool>& taken, double least) const {
    int found = -1;
    double most = least;
    for (size_t b = 0; b < boxes_.size(); ++b) {
      if (taken[b] && boxes_[b].crowd() != kCrowd) continue;
      if (found >= 0 && boxes_[static_cast<size_t>(found)].crowd() == 0 && boxes_[b].crowd() != 0) break;
      if (own[b] < most) continue;
      most = own[b];
      found = static_cast<int>(b);
    }
    return found;
  }

  const std::vector<Row>& boxes_;
  std::vector<std::vector<double>> overlaps_;
};

std::vector<Row> of_class(const std::vector<Row>& rows, int64_t (Row::*field)() const, int64_t wanted) {
  std::vector<Row> own;
  std::ranges::copy_if(rows, std::back_inserter(own), [&](const Row& row) { return (row.*field)() == wanted; });
  return own;
}

// Precision at 101 recalls, and the last recall.
struct Curve {
  double precision = 0;
  double recall = 0;
};

Curve curve_of(const std::vector<JudgedDetection>& sorted, size_t overlap, int64_t boxes) {
  constexpr int kRecalls = 101;
  std::vector<double> precision, recall;
  double right = 0, wrong = 0;
  for (const auto& detection : sorted) {
    if (detection.verdicts[overlap] == Verdict::ignored) continue;
    (detection.verdicts[overlap] == Verdict::right ? right : wrong) += 1;
    precision.push_back(right / (right + wrong));
    recall.push_back(right / static_cast<double>(boxes));
  }
  for (size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
  Curve curve{.recall = recall.empty() ? 0 : recall.back()};
  for (int r = 0; r < kRecalls; ++r) {
    const auto place = std::ranges::lower_bound(recall, static_cast<double>(r) / (kRecalls - 1)) - recall.begin();
    if (place < static_cast<int64_t>(precision.size())) curve.precision += precision[static_cast<size_t>(place)];
  }
  curve.precision /= kRecalls;
  return curve;
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? kUndefined : std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

}  // namespace

void DetectionTally::add(const at::Tensor& detections, const at::Tensor& boxes) {
  std::vector<Row> found = box_rows(detections), wanted = box_rows(boxes);
  std::ranges::stable_sort(found, std::greater{}, &Row::score);
  std::ranges::stable_sort(wanted, std::less{}, [](const Row& row) { return row.crowd() != 0; });
  std::set<int64_t> present;
  for (const Row& row : found) present.insert(row.found_class());
  for (const Row& row : wanted)
    if (row.label() >= 0) present.insert(row.label());
  for (const int64_t label : present) {
    std::vector<Row> own = of_class(found, &Row::found_class, label);
    own.resize(std::min(own.size(), kMostOfPicture));
    const std::vector<Row> labelled = of_class(wanted, &Row::label, label);
    Class& tally = classes[label];
    tally.boxes += std::ranges::count_if(labelled, [](const Row& box) { return box.crowd() == 0; });
    const size_t begin = tally.detections.size();
    for (const Row& row : own) tally.detections.push_back({.score = row.score()});
    const Matching matching(own, labelled);
    for (size_t o = 0; o < kOverlaps; ++o) {
      const auto verdicts = matching.at(overlap_at(o));
      for (size_t i = 0; i < verdicts.size(); ++i) tally.detections[begin + i].verdicts[o] = verdicts[i];
    }
  }
}

void DetectionTally::merge(DetectionTally other) {
  for (auto& [label, theirs] : other.classes) {
    Class& own = classes[label];
    own.boxes += theirs.boxes;
    own.detections.insert(own.detections.end(), theirs.detections.begin(), theirs.detections.end());
  }
}

DetectionMetrics DetectionTally::metrics() const {
  constexpr size_t kHalf = 0, kThreeQuarters = 5;
  DetectionMetrics result;
  std::vector<double> all, half, three_quarters, recalls;
  for (const auto& [label, tally] : classes) {
    result.classes.resize(static_cast<size_t>(std::max<int64_t>(label + 1, 0)), kUndefined);
    if (tally.boxes == 0) continue;
    std::vector<JudgedDetection> sorted = tally.detections;
    std::ranges::stable_sort(sorted, std::greater{}, &JudgedDetection::score);
    std::vector<double> own;
    for (size_t o = 0; o < kOverlaps; ++o) {
      const Curve curve = curve_of(sorted, o, tally.boxes);
      own.push_back(curve.precision);
      recalls.push_back(curve.recall);
    }
    result.classes[static_cast<size_t>(label)] = mean_of(own);
    all.insert(all.end(), own.begin(), own.end());
    half.push_back(own[kHalf]);
    three_quarters.push_back(own[kThreeQuarters]);
  }
  result.map = mean_of(all);
  result.map50 = mean_of(half);
  result.map75 = mean_of(three_quarters);
  result.recall = mean_of(recalls);
  return result;
}

DetectionScores::DetectionScores(const std::vector<Graph>& models, const EvaluateOptions& options)
    : tallies_(models.size()) {
  if (options.ensemble)
    throw Error(ErrorKind::usage, OptionName{"ensemble"}, "averages the scores of pictures' classes, not boxes");
  if (options.decoder.empty())
    throw Error(ErrorKind::usage, OptionName{"decoder"},
                "the labels are boxes: say how outputs become boxes, by one of {} or a TOML file",
                fmt::join(box_decoders(), ", "));
  decoder_ = std::make_unique<BoxDecoder>(find_box_decoder(options.decoder));
  const at::NoGradGuard no_grad;
  for (const auto& model : models) programs_.emplace_back(for_inference(working_form(model)));
}

DetectionScores::DetectionScores(DetectionScores&&) noexcept = default;
DetectionScores::~DetectionScores() = default;

void DetectionScores::add(const Samples& samples, Observer& observer) {
  const auto start = std::chrono::steady_clock::now();
  over_pieces<std::vector<DetectionTally>>(
      programs_, samples, "evaluating", observer,
      [&](const PieceOutputs& piece) {
        const at::Tensor boxes = samples.labels(piece.begin, piece.end);
        std::vector<DetectionTally> tallies(programs_.size());
        for (size_t m = 0; m < programs_.size(); ++m) {
          const auto found = decoder_->decode(programs_[m].graph(), piece.outputs[m], piece.end - piece.begin);
          for (size_t i = 0; i < found.size(); ++i) tallies[m].add(found[i], boxes[static_cast<int64_t>(i)]);
        }
        return tallies;
      },
      [&](std::vector<DetectionTally> tallies) {
        for (size_t m = 0; m < tallies.size(); ++m) tallies_[m].merge(std::move(tallies[m]));
      });
  samples_ += samples.size;
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Evaluation DetectionScores::finish() const {
  Evaluation total{.seconds = seconds_, .samples = samples_};
  for (const auto& tally : tallies_) total.detection.push_back(tally.metrics());
  return total;
}

}  // namespace pare
