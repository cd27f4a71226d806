#include "pare/workflow/fuse.h"

#include <ATen/ATen.h>

#include <chrono>

#include "pare/calibrate/moments.h"
#include "pare/core/file.h"
#include "pare/data/image.h"
#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/passes/open_batch.h"
#include "pare/passes/precision.h"
#include "pare/passes/working_form.h"

namespace pare {

namespace {

bool looks_at_samples(const FuseOptions& options) {
  return options.align == AlignBy::activations || options.repair != FusionRepair::none;
}

std::vector<at::Tensor> training_samples(const FuseRunOptions& options, const Graph& model) {
  if (options.samples < 0)
    throw Error(ErrorKind::usage, OptionName{"samples"}, "expected 0 or more, found {}", options.samples);
  if (options.samples == 0) return {};
  const bool looked_at = looks_at_samples(options.fuse);
  if (options.samples != FuseRunOptions{}.samples && (!looked_at || options.data.data.empty()))
    throw Error(ErrorKind::usage, OptionName{"samples"},
                "only `align` activations and `repair` look at samples, and of `data`");
  if (options.data.data.empty() || !looked_at) return {};
  DataChoice choice = options.data;
  choice.split = "train";
  choice.limit = options.samples;
  const Dataset data = choice.load(model);
  at::Tensor images = make_batch(data, 0, data.size()).images;
  const auto& dims = model.inputs.at(0).dims;
  if (dims && dims->size() == 2) images = images.flatten(1);
  return {images.to(model.inputs[0].dtype)};
}

std::vector<Graph> working_forms(const std::vector<Graph>& models) {
  std::vector<Graph> working;
  for (const auto& model : models) working.push_back(working_form(model));
  return working;
}

}  // namespace

FusionResult fuse(const std::vector<Graph>& models, const Samples& samples, const FuseOptions& options,
                  Observer& observer) {
  std::vector<at::Tensor> inputs;
  if (samples.size > 0 && looks_at_samples(options)) inputs = samples.inputs(0, samples.size);
  FusionResult result = fuse(working_forms(models), options, own_part(inputs, observer.ranks()), observer);
  const Graph& reference = models[static_cast<size_t>(options.reference)];
  result.fused = close_batch(narrowed_like(std::move(result.fused), reference), reference);
  return result;
}

FuseRun run_fuse(const std::vector<Graph>& models, const FuseRunOptions& options, Observer& observer) {
  FuseRun run;
  if (models.empty()) throw Error(ErrorKind::usage, "models", "there are none");
  const std::vector<Graph> working = working_forms(models);
  const auto all_samples = training_samples(options, working.front());
  const auto samples = own_part(all_samples, observer.ranks());
  run.samples = all_samples.empty() ? 0 : all_samples.front().size(0);
  const auto start = std::chrono::steady_clock::now();
  run.result = fuse(working, options.fuse, samples, observer);
  const Graph& reference = models[static_cast<size_t>(options.fuse.reference)];
  const Graph opened = narrowed_like(std::move(run.result.fused), reference);
  run.result.fused = close_batch(opened, reference);
  options.data.keep_asked(run.result.fused);
  run.fuse_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.data.data.empty() || !observer.ranks().main()) return run;

  const Dataset data = options.data.load(models.front());
  run.split = data.split;
  const Evaluation parents = evaluate(working, data, {.ensemble = true}, observer);
  for (size_t m = 0; m < models.size(); ++m) run.models.push_back(metrics_of(parents, m));
  run.ensemble = metrics_of(parents, models.size());
  std::vector<Graph> results = run.result.aligned;
  results.push_back(opened);
  const Evaluation fused = evaluate(results, data, {}, observer);
  for (size_t m = 0; m + 1 < results.size(); ++m) run.aligned.push_back(metrics_of(fused, m));
  run.fused = metrics_of(fused, results.size() - 1);
  return run;
}

std::vector<PlanImage> write_plans(const FusionResult& result, size_t reference,
                                   const std::filesystem::path& directory) {
  make_directory(directory);
  std::vector<PlanImage> written;
  for (size_t k = 0; k < result.alignments.size(); ++k) {
    const ModelAlignment& alignment = result.alignments[k];
    for (size_t l = 0; l < alignment.plans.size(); ++l) {
      const at::Tensor& plan = alignment.plans[l];
      if (k == reference || alignment.classes[l].fixed || plan.numel() == 0) continue;
      std::string name = fmt::format("{}-{}-{}.png", k, l, alignment.classes[l].name);
      for (char& c : name)
        if (c == '/' || c == ':') c = '_';
      const double most = plan.max().item<double>();
      write_png(directory / name, (plan * (most > 0 ? 255 / most : 0)).round().to(at::kByte));
      written.push_back({k, alignment.classes[l].name, directory / name});
    }
  }
  return written;
}

}  // namespace pare
