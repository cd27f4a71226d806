#include "pare/workflow/evaluate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <chrono>

#include "pare/core/error.h"
#include "pare/data/loader.h"
#include "pare/exec/program.h"
#include "pare/passes/for_inference.h"

namespace pare {

namespace {

void check_input(const Graph& graph, const Dataset& data) {
  if (graph.inputs.size() != 1)
    throw Error(ErrorKind::shape, graph.name, "has {} inputs, expected one that takes images", graph.inputs.size());
  const auto& dims = graph.inputs[0].dims;
  if (!dims) return;
  const Shape image = {data.channels(), data.height(), data.width()};
  const bool flat = dims->size() == 2;
  Shape wanted;
  for (size_t i = 1; i < dims->size(); ++i) wanted.push_back((*dims)[i].size);
  bool fits = flat || wanted.size() == 3;
  for (size_t i = 0; fits && !flat && i < 3; ++i) fits = wanted[i] < 0 || wanted[i] == image[i];
  if (flat) fits = wanted[0] < 0 || wanted[0] == image[0] * image[1] * image[2];
  if (!fits)
    throw Error(ErrorKind::shape, graph.inputs[0].name, "the model takes {}, the images of {} are {}",
                to_string(wanted), data.name, to_string(image));
}

at::Tensor logits_of(const Program& program, const at::Tensor& images, const Dataset& data) {
  const auto& dims = program.graph().inputs[0].dims;
  at::Tensor input = dims && dims->size() == 2 ? images.flatten(1) : images;
  if (program.graph().inputs[0].dtype != at::kFloat) input = input.to(program.graph().inputs[0].dtype);
  at::Tensor logits = program.run({&input, 1}).outputs.at(0);
  if (logits.dim() > 2) logits = logits.flatten(1);
  if (logits.dim() != 2 || logits.size(0) != images.size(0) ||
      logits.size(1) < static_cast<int64_t>(data.classes.size()))
    throw Error(ErrorKind::shape, program.graph().outputs.at(0).name, "gives {} for {} images of {} classes",
                to_string(logits.sizes()), images.size(0), data.classes.size());
  return logits;
}

// Scores logits some thousand rows at a time: per batch the calls would cost more than the arithmetic.
class Scorer {
 public:
  explicit Scorer(ClassificationMetrics& metrics) : metrics_(metrics) {}

  void add(const at::Tensor& logits, const at::Tensor& labels) {
    logits_.push_back(logits);
    labels_.push_back(labels);
    elements_ += logits.numel();
    if (elements_ >= kElements) flush();
  }
  void flush() {
    if (logits_.empty()) return;
    metrics_.add(at::cat(logits_), at::cat(labels_));
    logits_.clear();
    labels_.clear();
    elements_ = 0;
  }

 private:
  static constexpr int64_t kElements = 1 << 20;
  ClassificationMetrics& metrics_;
  std::vector<at::Tensor> logits_;
  std::vector<at::Tensor> labels_;
  int64_t elements_ = 0;
};

}  // namespace

Evaluation evaluate(const std::vector<Graph>& models, const Dataset& data, const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  std::vector<Program> programs;
  for (const auto& model : models) {
    check_input(model, data);
    programs.emplace_back(for_inference(model));
  }
  Evaluation result;
  result.models.resize(models.size() + (options.ensemble ? 1 : 0));
  std::vector<Scorer> scorers(result.models.begin(), result.models.end());
  // One batch each before the clock starts: kernels are chosen and memory is fetched in the first run.
  if (data.size() > 0)
    for (const auto& program : programs)
      logits_of(program, make_batch(data, 0, std::min(options.batch, data.size())).images, data);
  const auto start = std::chrono::steady_clock::now();
  Loader loader(data, {.batch = options.batch});
  while (auto batch = loader.next()) {
    at::Tensor average;
    for (size_t m = 0; m < programs.size(); ++m) {
      const at::Tensor logits = logits_of(programs[m], batch->images, data);
      scorers[m].add(logits, batch->labels);
      if (!options.ensemble) continue;
      const at::Tensor probabilities = at::softmax(logits, 1) / static_cast<double>(programs.size());
      average = average.defined() ? average + probabilities : probabilities;
    }
    if (options.ensemble) scorers.back().add(average.log(), batch->labels);
    result.samples += batch->labels.size(0);
    if (options.progress) options.progress(result.samples, data.size());
  }
  for (auto& scorer : scorers) scorer.flush();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace pare
