#include "pare/workflow/learning_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "pare/calibrate/distill_images.h"
#include "pare/calibrate/moments.h"
#include "pare/calibrate/noise.h"
#include "pare/core/error.h"

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

// A photograph and its mirror image are equally likely: twice the places to learn from.
void add_mirrored(std::vector<at::Tensor>& inputs) {
  if (inputs.size() == 1 && inputs[0].dim() == 4 && inputs[0].size(1) == 3)
    inputs[0] = at::cat({inputs[0], inputs[0].flip({3})});
}

}  // namespace

// A data-free method stays data-free also in its selection.
bool LearningImages::made_only() const {
  return find_compensation(options_.compensate).images == ImageSource::made || options_.data.data.empty();
}

const std::vector<at::Tensor>& LearningImages::inputs(const Graph& graph) {
  if (!inputs_.empty()) return inputs_;
  const auto start = std::chrono::steady_clock::now();
  inputs_ = made_only() ? own_part(made(graph), *options_.ranks) : std::vector<at::Tensor>{batch(graph).images};
  if (!options_.no_mirror) add_mirrored(inputs_);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return inputs_;
}

const Batch& LearningImages::batch(const Graph& graph) {
  if (batch_.images.defined()) return batch_;
  DataChoice choice = options_.data;
  choice.split = "train";
  choice.limit = options_.samples > 0 ? options_.samples : kDataSamples;
  const Dataset data = choice.load(graph);
  batch_ = make_batch(data, 0, data.size());
  if (data.size() == 0) throw Error(ErrorKind::usage, "--data", "has no images to learn from");
  if (data.split == "all")
    notes_.emplace_back(
        "the data is not divided into train and test: metrics and gates (--max-drop) are of images that were learned "
        "from too");
  batch_.images = own_part({batch_.images}, *options_.ranks)[0];
  batch_.labels = own_part({batch_.labels}, *options_.ranks)[0];
  const auto& dims = graph.inputs.at(0).dims;
  if (dims && dims->size() == 2) batch_.images = batch_.images.flatten(1);
  batch_.images = batch_.images.to(graph.inputs[0].dtype);
  return batch_;
}

std::vector<at::Tensor> LearningImages::made(const Graph& graph) const {
  const int64_t count = options_.samples > 0 ? options_.samples : made_samples(graph);
  NoiseOptions noise{.count = count, .seed = options_.seed};
  if (options_.images == "white") noise.kind = NoiseKind::white;
  if (options_.images == "smooth") noise.kind = NoiseKind::smooth;
  if (options_.images != "distilled") return noise_inputs(graph, noise);
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
