#include "pare/workflow/evaluate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/core/error.h"
#include "pare/data/loader.h"
#include "pare/exec/program.h"
#include "pare/passes/for_inference.h"
#include "pare/passes/working_form.h"
#include "pare/workflow/data_options.h"

namespace pare {

void check_image_input(const Graph& graph) {
  if (graph.inputs.size() != 1)
    throw Error(ErrorKind::shape, graph.name, "has {} inputs, expected one that takes images", graph.inputs.size());
  if (!at::isFloatingType(graph.inputs[0].dtype))
    throw Error(ErrorKind::unsupported, graph.inputs[0].name,
                "the model takes {}, expected floating-point numbers: images are normalised",
                at::toString(graph.inputs[0].dtype));
}

void check_images(const Graph& graph, const Dataset& data) {
  check_image_input(graph);
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

void check_classes(const Graph& graph, const Dataset& data) {
  check_images(graph, data);
  Shape image = {1, data.channels(), data.height(), data.width()};
  const auto& dims = graph.inputs[0].dims;
  if (dims && dims->size() == 2) image = {1, image[1] * image[2] * image[3]};
  const std::string scores = score_value(graph);
  const Shapes shapes = infer_shapes(graph, {.inputs = {{graph.inputs[0].name, image}}});
  const TensorType* type = shapes.find(scores);
  if (type == nullptr || type->dims.empty()) return;  // a run will say what is wrong
  check_score_count(scores, type->count() / std::max<int64_t>(type->dims[0], 1), data);
}

void check_score_count(const std::string& value, int64_t scores, const Dataset& data) {
  const auto classes = static_cast<int64_t>(data.classes.size());
  if (data.multi_label() ? scores != classes : scores < classes)
    throw Error(ErrorKind::shape, value, "the model gives {} scores for an image, {} has {} classes", scores, data.name,
                classes);
}

std::vector<std::string> normalization_notes(const Graph& model, const std::vector<double>& mean,
                                             const std::vector<double>& std) {
  std::vector<std::string> notes;
  const auto compare = [&](const std::string& what, const std::vector<double>& used) {
    const std::vector<double> own = stored_values(model, "pare." + what);
    if (!own.empty() && own != used)
      notes.push_back(fmt::format("learned images with a {} of {}; here it is {}", what, fmt::join(own, ", "),
                                  fmt::join(used, ", ")));
  };
  compare("mean", mean);
  compare("std", std);
  return notes;
}

namespace {

at::Tensor logits_of(const Program& program, const at::Tensor& images, const Dataset& data) {
  const auto& dims = program.graph().inputs[0].dims;
  at::Tensor input = dims && dims->size() == 2 ? images.flatten(1) : images;
  if (program.graph().inputs[0].dtype != at::kFloat) input = input.to(program.graph().inputs[0].dtype);
  at::Tensor logits = program.run({&input, 1}).outputs.at(0);
  if (logits.dim() > 2) logits = score_rows(logits);
  const auto classes = static_cast<int64_t>(data.classes.size());
  if (logits.dim() != 2 || logits.size(0) != images.size(0))
    throw Error(ErrorKind::shape, program.graph().outputs.at(0).name, "gives {} for {} images of {} classes",
                to_string(logits.sizes()), images.size(0), classes);
  check_score_count(program.graph().outputs[0].name, logits.size(1), data);
  // The labels of a known data set are places among the scores; names are not, unless it learned them.
  if (data.labels_by_name && logits.size(1) > classes && stored_classes(program.graph()) != data.classes)
    throw Error(ErrorKind::shape, program.graph().outputs[0].name,
                "the model gives {} scores for an image, the {} has {} classes: name all classes in the order of "
                "the scores, one a line, in a file classes.txt beside them or by --class-map",
                logits.size(1), data.name, classes);
  return logits;
}

// How many images to run at once, up to a batch: few enough that the largest activation stays in a core's cache, where
// a forward is fastest, but enough that reading the largest weight is worth it.
int64_t piece_size(const std::vector<Graph>& models, int64_t batch) {
  constexpr int64_t kCacheElements = 1 << 18;  // 1 MiB of floats
  int64_t activation = 1;
  int64_t weight = 1;
  for (const auto& model : models)
    for (const auto& [value, type] : analysis_shapes(model, {.batch = 1}).types) {
      auto& largest = model.is_constant(value) ? weight : activation;
      largest = std::max(largest, type.count());
    }
  return std::clamp<int64_t>(std::max(kCacheElements, 4 * weight) / activation, std::min<int64_t>(16, batch), batch);
}

// The data in pieces, handed out one by one to workers that each run whole forwards on one thread: there is nothing to
// wait for inside a layer, and a piece is normalised by who computes it.
class PieceRunner {
 public:
  PieceRunner(const std::vector<Program>& programs, const Dataset& data, const EvaluateOptions& options, int64_t piece)
      : programs_(programs),
        data_(data),
        options_(options),
        piece_(piece),
        results_(static_cast<size_t>((data.size() + piece - 1) / piece)) {}

  // Metrics of the models, joined in the order of the pieces, so that they do not depend on who computed what.
  Evaluation run(int threads) {
    std::barrier warm(threads, [this]() noexcept { start_ = std::chrono::steady_clock::now(); });
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([&] { work_alone(warm); });
    work_alone(warm);
    for (auto& other : others) other.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    at::set_num_threads(threads);
    if (failure_) std::rethrow_exception(failure_);
    Evaluation total{.seconds = seconds, .samples = data_.size()};
    for (size_t m = 0; m < rows(); ++m) join(m, total);
    return total;
  }

 private:
  // What one piece has to say of each model: sums, or the logits where a metric needs all samples at once.
  struct Scores {
    std::vector<ClassificationMetrics> sums;
    std::vector<at::Tensor> logits;
  };

  size_t rows() const { return programs_.size() + (options_.ensemble ? 1 : 0); }

  void join(size_t m, Evaluation& total) const {
    if (data_.multi_label()) {
      std::vector<at::Tensor> logits;
      for (const auto& piece : results_) logits.push_back(piece.logits[m]);
      total.multi_label.push_back(multi_label_metrics(at::cat(logits), data_.labels, options_.threshold));
      return;
    }
    total.models.emplace_back();
    for (const auto& piece : results_) total.models.back().merge(piece.sums[m]);
  }

  // The first run of a thread chooses kernels and fetches memory; the clock starts when all threads have done one.
  template <typename Barrier>
  void work_alone(Barrier& warm) {
    {
      const std::lock_guard lock(mutex_);
      at::set_num_threads(1);
      at::globalContext().setFlushDenormal(true);  // a property of the thread
    }
    const at::NoGradGuard no_grad;
    guarded([&] {
      if (data_.size() > 0) score(make_batch(data_, 0, std::min(piece_, data_.size())));
    });
    warm.arrive_and_wait();
    guarded([&] { work(); });
  }

  void work() {
    for (size_t p = next_++; p < results_.size(); p = next_++) {
      const auto begin = static_cast<int64_t>(p) * piece_;
      results_[p] = score(make_batch(data_, begin, std::min(begin + piece_, data_.size())));
      const std::lock_guard lock(mutex_);
      done_ += std::min(piece_, data_.size() - begin);
      if (options_.progress) options_.progress(done_, data_.size());
    }
  }

  // Keeps the first exception of any thread and ends the work of all.
  template <typename Work>
  void guarded(Work work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      next_ = results_.size();
    }
  }

  Scores score(const Batch& batch) const {
    Scores scores;
    const auto add = [&](const at::Tensor& logits) {
      if (data_.multi_label()) return scores.logits.push_back(logits);
      scores.sums.emplace_back().add(logits, batch.labels);
    };
    at::Tensor average;
    for (const auto& program : programs_) {
      const at::Tensor logits = logits_of(program, batch.images, data_);
      add(logits);
      if (!options_.ensemble) continue;
      const at::Tensor all = data_.multi_label() ? at::sigmoid(logits.to(at::kDouble)) : at::softmax(logits, 1);
      const at::Tensor probabilities = all / static_cast<double>(programs_.size());
      average = average.defined() ? average + probabilities : probabilities;
    }
    if (options_.ensemble) add(data_.multi_label() ? at::logit(average) : average.log());
    return scores;
  }

  const std::vector<Program>& programs_;
  const Dataset& data_;
  const EvaluateOptions& options_;
  const int64_t piece_;
  std::vector<Scores> results_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  int64_t done_ = 0;
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

std::vector<std::string> metric_names(bool multi_label) {
  if (multi_label) return {"map", "class-map", "f1", "macro-f1", "loss"};
  return {"top1", "top5", "loss"};
}

namespace {

MetricList named(bool multi_label, const std::vector<double>& values) {
  MetricList result;
  for (const auto& name : metric_names(multi_label)) result.emplace_back(name, values[result.size()]);
  return result;
}

}  // namespace

MetricList metrics_of(const ClassificationMetrics& metrics) {
  return named(false, {metrics.top1(), metrics.top5(), metrics.loss()});
}

MetricList metrics_of(const MultiLabelMetrics& metrics) {
  return named(true, {metrics.sample_precision, metrics.class_precision, metrics.f1, metrics.macro_f1, metrics.loss});
}

MetricList metrics_of(const Evaluation& evaluation, size_t m) {
  return evaluation.multi_label.empty() ? metrics_of(evaluation.models.at(m))
                                        : metrics_of(evaluation.multi_label.at(m));
}

double metric_of(const MetricList& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics, name, &MetricList::value_type::first);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

namespace {

// The same names in another order: every label would be that of another class.
void check_class_order(const Graph& model, const Dataset& data) {
  const std::vector<std::string> own = stored_classes(model);
  if (own != data.classes && std::ranges::is_permutation(own, data.classes))
    throw Error(ErrorKind::usage, "--class-map", "the model has the classes in another order: {}, …", own.front());
}

}  // namespace

Evaluation evaluate(const std::vector<Graph>& models, const Dataset& data, const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  std::vector<Program> programs;
  for (const auto& model : models) {
    check_images(model, data);
    check_class_order(model, data);
    programs.emplace_back(for_inference(working_form(scores_only(model))));
  }
  const int64_t piece = piece_size(models, options.batch);
  return PieceRunner(programs, data, options, piece).run(std::max(1, at::get_num_threads()));
}

}  // namespace pare
