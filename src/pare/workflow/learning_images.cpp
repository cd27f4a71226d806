#include "pare/workflow/learning_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "pare/analysis/shapes.h"
#include "pare/calibrate/distill_images.h"
#include "pare/calibrate/noise.h"
#include "pare/error.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/refit.h"
#include "pare/run.h"

namespace pare {

namespace {

constexpr int64_t kDataSamples = 256;
constexpr int64_t kJudges = 32;

// Small images are cheap, and give few places to learn from: more of them, 128 of large ones.
int64_t made_samples(const Graph& graph) {
  constexpr int64_t kFewest = 128, kPixels = kFewest * 3 * 32 * 32;
  int64_t pixels = 1;
  const Shapes shapes = analysis_shapes(graph);
  if (const TensorType* input = shapes.find(graph.inputs.at(0).name))
    for (size_t axis = 1; axis < input->dims.size(); ++axis) pixels *= std::max<int64_t>(input->dims[axis], 1);
  return std::clamp<int64_t>(kPixels / pixels, kFewest, 1024);
}

// What distillation starts from has objects, as photographs have.
NoiseKind noise_of(MadeImages images) {
  switch (images) {
    case MadeImages::pink: return NoiseKind::pink;
    case MadeImages::smooth: return NoiseKind::smooth;
    case MadeImages::white: return NoiseKind::white;
    default: return NoiseKind::leaves;
  }
}

// This rank's part of the samples.
Samples own_part(const Samples& samples, const ProcessGroup& ranks) {
  if (samples.size < ranks.size())
    throw Error(ErrorKind::usage, OptionName{"samples"}, "{} images are too few for {} ranks", samples.size,
                ranks.size());
  const int64_t begin = samples.size * ranks.rank() / ranks.size(),
                end = samples.size * (ranks.rank() + 1) / ranks.size();
  return part_of(samples, begin, end);
}

// The samples that a refit does not fit on: one pair in every `checked`, perhaps a sample and its mirror image.
Samples chosen_by(const Samples& samples, int64_t checked) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < samples.size && static_cast<int64_t>(places.size()) < kJudges; ++i)
    if (i / 2 % checked == checked - 1) places.push_back(i);
  if (places.empty()) return samples;  // too few to hold any out
  return {.size = static_cast<int64_t>(places.size()), .inputs = [samples, places](int64_t begin, int64_t end) {
            return gathered(end - begin, [&](int64_t i) {
              const int64_t place = places[static_cast<size_t>(begin + i)];
              return samples.inputs(place, place + 1);
            });
          }};
}

}  // namespace

int64_t LearningImages::learned() const { return options_.samples > 0 ? options_.samples : kDataSamples; }

// Those that are learned from, and after them those that judge.
const Samples& LearningImages::all(const Graph& graph) {
  if (all_) return *all_;
  const auto start = std::chrono::steady_clock::now();
  all_ = made_only_                  ? samples_of(made(graph))
         : options_.given != nullptr ? *options_.given
                                     : samples_of(data(graph), graph);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return *all_;
}

const Samples& LearningImages::samples(const Graph& graph) {
  if (samples_) return *samples_;
  const Samples& every = all(graph);
  const int64_t count = made_only_ ? every.size : std::min(every.size, learned());
  samples_ = own_part(part_of(every, 0, count), *options_.ranks);
  return *samples_;
}

Samples LearningImages::judges(const Graph& graph, bool solves) {
  if (made_only_ && !solves) return noise(graph);
  const Samples& every = all(graph);
  const int64_t more = made_only_ ? 0 : every.size - learned();
  const int64_t least = options_.ranks->size();
  if (more >= std::max(kJudges / 2, least))
    return own_part(part_of(every, learned(), learned() + std::min(more, kJudges)), *options_.ranks);
  const Samples& own = samples(graph);
  if (!solves) return part_of(own, 0, std::min(own.size, kJudges));
  return chosen_by(mirrored(graph), LayerReaderOptions().checked);
}

// Where there is neither data nor a method that makes images: what is far worse than none is so on noise too.
Samples LearningImages::noise(const Graph& graph) {
  constexpr int64_t kCount = 16;
  if (noise_) return *noise_;
  noise_ = Samples{};
  try {
    const Samples all = samples_of(
        noise_inputs(graph, {.count = std::max<int64_t>(kCount, options_.ranks->size()), .seed = options_.seed}));
    Program(graph).run(pieces_of(graph, all, 1).inputs(0));  // can it be run at all?
    noise_ = own_part(all, *options_.ranks);
  } catch (const Error& error) {
    notes_.push_back(fmt::format("whether compensations are better than none was not tested: {}", error.what()));
  }
  return *noise_;
}

Samples LearningImages::mirrored(const Graph& graph, const Samples& some) const {
  return options_.no_mirror ? some : mirrored_colour(graph, some);
}

const Dataset& LearningImages::data(const Graph& graph) {
  if (data_) return *data_;
  DataChoice choice = options_.data;
  choice.split = "train";
  choice.limit = learned() + (options_.unchecked ? 0 : kJudges);
  data_ = choice.load(graph, /*unlabelled=*/true);
  if (data_->size() == 0) throw Error(ErrorKind::usage, OptionName{"data"}, "has no images to learn from");
  if (data_->split == "all")
    notes_.emplace_back(
        "the data is not divided into train and test: metrics and gates (`max-drop`) are measured on images that were "
        "also learned from");
  return *data_;
}

const Batch& LearningImages::batch(const Graph& graph) {
  if (batch_.images.defined()) return batch_;
  const Samples& own = samples(graph);
  if (!own.labelled()) throw Error(ErrorKind::usage, "samples", "have no labels, which the criterion needs");
  batch_ = {.images = own.inputs(0, own.size)[0], .labels = own.labels(0, own.size)};
  if (label_kind(batch_.labels) == LabelKind::masks || label_kind(batch_.labels) == LabelKind::boxes)
    throw Error(ErrorKind::usage, OptionName{"criterion"},
                "needs labels that are classes of pictures, not masks or boxes");
  if (batch_.labels.dim() == 2) batch_.labels = batch_.labels.to(at::kFloat);
  return batch_;
}

std::vector<at::Tensor> LearningImages::made(const Graph& graph) const {
  const int64_t count = options_.samples > 0 ? options_.samples : made_samples(graph);
  NoiseOptions noise{.kind = noise_of(options_.images), .count = count, .seed = options_.seed};
  if (options_.images != MadeImages::distilled) return noise_inputs(graph, noise);
  const DistilledImages images = distill_images(graph, {.count = count,
                                                        .steps = options_.distill_steps,
                                                        .start = noise,
                                                        .seed = options_.seed,
                                                        .progress = [&](int64_t done, int64_t all) {
                                                          if (options_.progress)
                                                            options_.progress("distilling images", done, all);
                                                        }});
  if (images.source.empty())
    notes_.emplace_back("neither batch norms nor classes to distil images from: used shapes in front of one another");
  else
    notes_.push_back(fmt::format("distilled {} images from the {}: {:.4f}, from {:.4f} to begin with", count,
                                 images.source, images.after, images.before));
  return images.inputs;
}

}  // namespace pare
