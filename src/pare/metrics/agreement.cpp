#include "pare/metrics/agreement.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "pare/error.h"
#include "pare/metrics/box_decoder.h"
#include "pare/metrics/piece_outputs.h"
#include "pare/metrics/rectangle.h"
#include "pare/passes/for_inference.h"
#include "pare/passes/working_form.h"

namespace pare {

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = 1e-300;

// The axis along which an output scores classes; none where there is nothing to choose from.
std::optional<int64_t> class_axis(const at::Tensor& z) {
  const int64_t axis = z.dim() == 2 || z.dim() == 4 ? 1 : z.dim() == 3 ? 2 : -1;
  return axis >= 0 && z.size(axis) > 1 ? std::optional(axis) : std::nullopt;
}

double equal_part(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? kNothing : (a == b).to(at::kDouble).mean().item<double>();
}

// [rows, values], double; one row where samples have none of their own.
at::Tensor rows_of_samples(const at::Tensor& z, int64_t count) {
  const bool rows = z.dim() > 0 && z.size(0) == count;
  return z.reshape({rows ? count : 1, -1}).to(at::kDouble);
}

}  // namespace

void AgreementSums::add(const at::Tensor& z, const at::Tensor& other, int64_t count) {
  const auto weight = static_cast<double>(count);
  const bool numbers = z.is_floating_point();
  samples += count;
  if (z.sizes() != other.sizes() || z.scalar_type() != other.scalar_type()) {
    distance += weight;
    largest = std::numeric_limits<double>::infinity();
    return;
  }
  const auto axis = numbers ? class_axis(z) : std::nullopt;
  classes += weight * (axis      ? equal_part(z.argmax(*axis), other.argmax(*axis))
                       : numbers ? kNothing
                                 : equal_part(z, other));
  if (z.numel() == 0) return;
  const at::Tensor a = rows_of_samples(z, count), b = rows_of_samples(other, count), apart = b - a;
  largest = std::max(largest, apart.abs().max().item<double>());
  if (!numbers) {
    distance = cosine = kNothing;
    return;
  }
  const at::Tensor length = a.norm(2, {1}), theirs = b.norm(2, {1});
  const at::Tensor both_zero = (length == 0).logical_and(theirs == 0);
  distance += weight * (apart.norm(2, {1}) / length.clamp_min(kTiny)).mean().item<double>();
  const at::Tensor cosines = (a * b).sum(1) / (length * theirs).clamp_min(kTiny);
  cosine += weight * cosines.masked_fill(both_zero, 1).mean().item<double>();
}

void AgreementSums::merge(const AgreementSums& more) {
  distance += more.distance;
  cosine += more.cosine;
  classes += more.classes;
  largest = std::max(largest, more.largest);
  samples += more.samples;
}

OutputAgreement AgreementSums::mean(const std::string& name) const {
  const auto all = static_cast<double>(samples);
  return {
      .name = name, .distance = distance / all, .cosine = cosine / all, .largest = largest, .classes = classes / all};
}

namespace {

struct SureBox {
  Rectangle box;
  int64_t label = 0;
};

std::vector<SureBox> sure_boxes(const at::Tensor& rows, double score) {
  const at::Tensor values = rows.to(at::kDouble).contiguous();
  std::vector<SureBox> boxes;
  for (int64_t i = 0; i < values.size(0); ++i) {
    const double* at = values.data_ptr<double>() + 6 * i;
    if (at[4] >= score) boxes.push_back({{at[0], at[1], at[2], at[3]}, static_cast<int64_t>(at[5])});
  }
  return boxes;
}

}  // namespace

void BoxPairs::add(const at::Tensor& reference_boxes, const at::Tensor& other_boxes, double score, double least) {
  const auto a = sure_boxes(reference_boxes, score), b = sure_boxes(other_boxes, score);
  std::vector<std::tuple<double, size_t, size_t>> candidates;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j)
      if (const double part = pare::overlap(a[i].box, b[j].box); a[i].label == b[j].label && part >= least)
        candidates.emplace_back(-part, i, j);
  std::ranges::sort(candidates);
  std::vector<bool> taken_a(a.size()), taken_b(b.size());
  for (const auto& [negative, i, j] : candidates) {
    if (taken_a[i] || taken_b[j]) continue;
    taken_a[i] = taken_b[j] = true;
    overlap -= negative;
    ++pairs;
  }
  reference += static_cast<int64_t>(a.size());
  other += static_cast<int64_t>(b.size());
}

void BoxPairs::merge(const BoxPairs& more) {
  reference += more.reference;
  other += more.other;
  pairs += more.pairs;
  overlap += more.overlap;
}

void AgreementOptions::describe(OptionVisitor& options) {
  options.field("decoder", decoder,
                fmt::format("how outputs become boxes: one of {} or a TOML file (default: boxes are not looked at)",
                            fmt::join(box_decoders(), ", ")));
  describe_boxes(options);
}

void AgreementOptions::describe_boxes(OptionVisitor& options) {
  options.field("box-score", box_score, "agreement: boxes with at least this score count");
  options.field("box-overlap", box_overlap,
                "agreement: two boxes are the same where their intersection is at least this part of their union");
}

std::vector<std::string> agreement_names(bool boxes) {
  std::vector<std::string> names = {"distance", "cosine", "max-difference", "argmax"};
  if (boxes) names.insert(names.end(), {"boxes", "box-iou"});
  return names;
}

MetricList metrics_of(const Agreement& agreement) {
  const auto mean = [&](double OutputAgreement::*field) {
    double sum = 0, count = 0;
    for (const auto& output : agreement.outputs)
      if (!std::isnan(output.*field)) sum += output.*field, ++count;
    return count > 0 ? sum / count : kNothing;
  };
  double largest = 0;
  for (const auto& output : agreement.outputs) largest = std::max(largest, output.largest);
  MetricList list;
  for (const auto& [name, value] : MetricList{{"distance", mean(&OutputAgreement::distance)},
                                              {"cosine", mean(&OutputAgreement::cosine)},
                                              {"max-difference", largest},
                                              {"argmax", mean(&OutputAgreement::classes)},
                                              {"boxes", agreement.boxes},
                                              {"box-iou", agreement.box_overlap}})
    if (std::isfinite(value)) list.emplace_back(name, value);
  return list;
}

namespace {

// Of one model with the reference.
struct ModelSums {
  std::vector<AgreementSums> outputs;
  BoxPairs boxes;

  void merge(const ModelSums& more) {
    outputs.resize(more.outputs.size());
    for (size_t o = 0; o < outputs.size(); ++o) outputs[o].merge(more.outputs[o]);
    boxes.merge(more.boxes);
  }
};

class Comparison {
 public:
  Comparison(const Graph& reference, const std::vector<Graph>& models, const AgreementOptions& options)
      : options_(options), sums_(models.size()) {
    if (!options.decoder.empty()) decoder_.emplace(find_box_decoder(options.decoder));
    const at::NoGradGuard no_grad;
    programs_.emplace_back(for_inference(working_form(reference)));
    for (const auto& model : models) {
      if (model.outputs.size() != reference.outputs.size() || model.inputs.size() != reference.inputs.size())
        throw Error(ErrorKind::shape, model.name, "has {} inputs and {} outputs, the model to agree with {} and {}",
                    model.inputs.size(), model.outputs.size(), reference.inputs.size(), reference.outputs.size());
      programs_.emplace_back(for_inference(working_form(model)));
    }
  }

  void add(const Samples& samples, Observer& observer) {
    over_pieces<std::vector<ModelSums>>(
        programs_, samples, "comparing", observer, [&](const PieceOutputs& piece) { return compared(piece); },
        [&](std::vector<ModelSums> found) {
          for (size_t m = 0; m < found.size(); ++m) sums_[m].merge(found[m]);
        });
  }

  std::vector<Agreement> finish(const Graph& reference, int64_t samples) const {
    std::vector<Agreement> result;
    for (const auto& sums : sums_) {
      Agreement own{.reference_boxes = sums.boxes.reference, .samples = samples};
      for (size_t o = 0; o < sums.outputs.size(); ++o)
        own.outputs.push_back(sums.outputs[o].mean(reference.outputs[o].name));
      const auto all = static_cast<double>(sums.boxes.reference + sums.boxes.other);
      const auto pairs = static_cast<double>(sums.boxes.pairs);
      if (all > 0) own.boxes = 2 * pairs / all;
      if (all > 0) own.box_overlap = pairs > 0 ? sums.boxes.overlap / pairs : 0;
      result.push_back(std::move(own));
    }
    return result;
  }

 private:
  std::vector<ModelSums> compared(const PieceOutputs& piece) const {
    const int64_t count = piece.end - piece.begin;
    const auto& z = piece.outputs.front();
    std::vector<ModelSums> found(sums_.size());
    for (size_t m = 0; m < found.size(); ++m) {
      const auto& other = piece.outputs[m + 1];
      found[m].outputs.resize(z.size());
      for (size_t o = 0; o < z.size(); ++o) found[m].outputs[o].add(z[o], other[o], count);
      if (!decoder_) continue;
      const auto boxes = decoder_->decode(programs_.front().graph(), z, count);
      const auto theirs = decoder_->decode(programs_[m + 1].graph(), other, count);
      for (size_t i = 0; i < boxes.size(); ++i)
        found[m].boxes.add(boxes[i], theirs[i], options_.box_score, options_.box_overlap);
    }
    return found;
  }

  const AgreementOptions& options_;
  std::optional<BoxDecoder> decoder_;
  std::vector<Program> programs_;
  std::vector<ModelSums> sums_;
};

}  // namespace

std::vector<Agreement> agreement(const Graph& reference, const std::vector<Graph>& models, const Samples& samples,
                                 const AgreementOptions& options, Observer& observer) {
  if (samples.size == 0) throw Error(ErrorKind::usage, "samples", "there are none to compare on");
  Comparison comparison(reference, models, options);
  comparison.add(samples, observer);
  return comparison.finish(reference, samples.size);
}

Agreement agreement(const Graph& reference, const Graph& model, const Samples& samples, const AgreementOptions& options,
                    Observer& observer) {
  return agreement(reference, std::vector<Graph>{model}, samples, options, observer).front();
}

}  // namespace pare
