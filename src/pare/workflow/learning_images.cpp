#include "pare/workflow/learning_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "pare/calibrate/distill_images.h"
#include "pare/calibrate/noise.h"
#include "pare/error.h"

namespace pare {

namespace {

constexpr int64_t kDataSamples = 256;
constexpr int64_t kDistilledTogether = 64;

// Small images are cheap, and give few places to learn from: more of them, 64 of large ones.
int64_t made_samples(const Graph& graph) {
  constexpr int64_t kPixels = kDistilledTogether * 3 * 32 * 32;
  int64_t pixels = 1;
  const auto& dims = graph.inputs.at(0).dims;
  for (size_t axis = 1; dims && axis < dims->size(); ++axis) pixels *= std::max<int64_t>((*dims)[axis].size, 1);
  return std::clamp<int64_t>(kPixels / pixels, kDistilledTogether, 1024);
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

}  // namespace

const Samples& LearningImages::samples(const Graph& graph) {
  if (samples_) return *samples_;
  const auto start = std::chrono::steady_clock::now();
  samples_ = own_part(made_only_                  ? samples_of(made(graph))
                      : options_.given != nullptr ? given(*options_.given)
                                                  : samples_of(data(graph), graph),
                      *options_.ranks);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return *samples_;
}

Samples LearningImages::mirrored(const Graph& graph, const Samples& some) const {
  const auto& dims = graph.inputs.at(0).dims;
  const bool colour = graph.inputs.size() == 1 && dims && dims->size() == 4 && (*dims)[1].size == 3;
  return colour && !options_.no_mirror ? with_mirrored(some) : some;
}

const Dataset& LearningImages::data(const Graph& graph) {
  if (data_) return *data_;
  DataChoice choice = options_.data;
  choice.split = "train";
  choice.limit = options_.samples > 0 ? options_.samples : kDataSamples;
  data_ = choice.load(graph);
  if (data_->size() == 0) throw Error(ErrorKind::usage, OptionName{"data"}, "has no images to learn from");
  if (data_->split == "all")
    notes_.emplace_back(
        "the data is not divided into train and test: metrics and gates (`max-drop`) are of images that were learned "
        "from too");
  return *data_;
}

Samples LearningImages::given(const Samples& samples) const {
  const int64_t most = options_.samples > 0 ? options_.samples : kDataSamples;
  return samples.size > most ? part_of(samples, 0, most) : samples;
}

const Batch& LearningImages::batch(const Graph& graph) {
  if (batch_.images.defined()) return batch_;
  const Samples all = options_.given != nullptr ? given(*options_.given) : samples_of(data(graph), graph);
  if (!all.labelled()) throw Error(ErrorKind::usage, "samples", "have no labels, which the criterion needs");
  const Samples own = own_part(all, *options_.ranks);
  batch_ = {.images = own.inputs(0, own.size)[0], .labels = own.labels(0, own.size)};
  if (batch_.labels.dim() == 2) batch_.labels = batch_.labels.to(at::kFloat);
  return batch_;
}

std::vector<at::Tensor> LearningImages::made(const Graph& graph) const {
  const int64_t count = options_.samples > 0 ? options_.samples : made_samples(graph);
  NoiseOptions noise{.count = count, .seed = options_.seed};
  if (options_.images == MadeImages::white) noise.kind = NoiseKind::white;
  if (options_.images == MadeImages::smooth) noise.kind = NoiseKind::smooth;
  if (options_.images != MadeImages::distilled) return noise_inputs(graph, noise);
  const DistilledImages images = distill_images(graph, {.count = count,
                                                        .batch = std::min(count, kDistilledTogether),
                                                        .steps = options_.distill_steps,
                                                        .start = noise,
                                                        .seed = options_.seed,
                                                        .progress = [&](int64_t done, int64_t all) {
                                                          if (options_.progress)
                                                            options_.progress("distilling images", done, all);
                                                        }});
  if (images.source.empty())
    notes_.emplace_back("neither batch norms nor classes to distil images from: used noise with a 1/f spectrum");
  else
    notes_.push_back(fmt::format("distilled {} images from the {}: {:.4f}, from {:.4f} of noise", count, images.source,
                                 images.after, images.before));
  return images.inputs;
}

}  // namespace pare
