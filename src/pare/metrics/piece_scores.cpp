#include "pare/metrics/piece_scores.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/error.h"
#include "pare/metrics/multilabel.h"
#include "pare/metrics/piece_outputs.h"
#include "pare/passes/for_inference.h"
#include "pare/passes/working_form.h"

namespace pare {

namespace {

// How many samples to run at once, up to a batch: few enough that the largest activation stays in a core's cache, where
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

// Workers that each take the next piece until there is none; the first exception of any ends the work of all.
class Workers {
 public:
  Workers(int threads, size_t pieces) : threads_(threads), pieces_(pieces) {}

  // Of every worker once where `pieces` is zero.
  void run(const std::function<void(size_t piece)>& work) {
    std::vector<std::thread> others;
    for (int i = 1; i < threads_; ++i) others.emplace_back([&] { work_alone(work); });
    work_alone(work);
    for (auto& other : others) other.join();
    at::set_num_threads(threads_);
    if (failure_) std::rethrow_exception(failure_);
  }

  std::mutex& mutex() { return mutex_; }

 private:
  void work_alone(const std::function<void(size_t)>& work) {
    {
      const std::lock_guard lock(mutex_);
      at::set_num_threads(1);
      at::globalContext().setFlushDenormal(true);  // a property of the thread
    }
    const at::NoGradGuard no_grad;
    try {
      for (size_t p = next_++; p < pieces_; p = next_++) work(p);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      next_ = pieces_;
    }
  }

  int threads_;
  size_t pieces_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

PieceScores::PieceScores(const std::vector<Graph>& models, const EvaluateOptions& options)
    : options_(options), piece_(0), threads_(std::max(1, at::get_num_threads())) {
  if (options.batch < 1)
    throw Error(ErrorKind::usage, OptionName{"batch"}, "expected at least 1, found {}", options.batch);
  const at::NoGradGuard no_grad;
  for (const auto& model : models) programs_.emplace_back(for_inference(working_form(scores_only(model))));
  piece_ = piece_size(models, options.batch);
  sums_.resize(rows());
  logits_.resize(rows());
}

// Starting threads costs something, so that many pieces are better than few; but no more than 64 MB.
int64_t PieceScores::at_once() const {
  constexpr int64_t kElements = 1 << 24;
  int64_t sample = 1;
  for (const auto& program : programs_)
    for (const auto& input : program.graph().inputs) {
      int64_t elements = 1;
      for (size_t axis = 1; input.dims && axis < input.dims->size(); ++axis)
        elements *= std::max<int64_t>((*input.dims)[axis].size, 1);
      sample = std::max(sample, elements);
    }
  const int64_t round = piece_ * threads_;
  return std::clamp(kElements / sample / round, int64_t{1}, int64_t{16}) * round;
}

at::Tensor PieceScores::logits_of(const Program& program, const std::vector<at::Tensor>& inputs) const {
  const Graph& graph = program.graph();
  at::Tensor logits = program.run(taken_by(graph, inputs)).outputs.at(0);
  if (logits.dim() > 2) logits = score_rows(logits);
  if (logits.dim() != 2 || logits.size(0) != inputs[0].size(0))
    throw Error(ErrorKind::shape, graph.outputs.at(0).name, "gives {} for {} samples", to_string(logits.sizes()),
                inputs[0].size(0));
  if (check) check(graph, logits.size(1));
  return logits;
}

PieceScores::Piece PieceScores::score(const std::vector<at::Tensor>& inputs, const at::Tensor& labels) const {
  Piece piece{.labels = labels};
  const bool several = labels.dim() == 2;
  const auto add = [&](const at::Tensor& logits) {
    if (several) return piece.logits.push_back(logits);
    piece.sums.emplace_back().add(logits, labels);
  };
  at::Tensor average;
  for (const auto& program : programs_) {
    const at::Tensor logits = logits_of(program, inputs);
    const bool fits = several ? labels.size(1) == logits.size(1)
                              : labels.numel() == 0 || (labels.min().item<int64_t>() >= 0 &&
                                                        labels.max().item<int64_t>() < logits.size(1));
    if (!fits)
      throw Error(ErrorKind::shape, program.graph().outputs[0].name, "gives {} scores for a sample, labels are {}",
                  logits.size(1),
                  several ? fmt::format("of {} classes", labels.size(1))
                          : fmt::format("from {} to {}", labels.min().item<int64_t>(), labels.max().item<int64_t>()));
    add(logits);
    if (!options_.ensemble) continue;
    const at::Tensor all = several ? at::sigmoid(logits.to(at::kDouble)) : at::softmax(logits, 1);
    const at::Tensor probabilities = all / static_cast<double>(programs_.size());
    average = average.defined() ? average + probabilities : probabilities;
  }
  if (options_.ensemble) add(several ? at::logit(average) : average.log());
  return piece;
}

PieceScores::Piece PieceScores::scored(const Samples& samples, int64_t begin) const {
  const int64_t end = std::min(begin + piece_, samples.size);
  const at::Tensor labels = samples.labels(begin, end);
  return score(samples.inputs(begin, end), labels.dim() == 2 ? labels : labels.to(at::kLong));
}

void PieceScores::warm_up(const Samples& samples) {
  if (samples.size == 0 || !samples.labelled()) return;
  Workers(threads_, static_cast<size_t>(threads_)).run([&](size_t) { scored(samples, 0); });
}

void PieceScores::add(const Samples& samples, int64_t all, Observer& observer) {
  if (!samples.labelled()) throw Error(ErrorKind::usage, "samples", "have no labels to measure by");
  const auto start = std::chrono::steady_clock::now();
  std::vector<Piece> pieces(static_cast<size_t>((samples.size + piece_ - 1) / piece_));
  Workers workers(threads_, pieces.size());
  int64_t done = samples_;
  workers.run([&](size_t p) {
    const int64_t begin = static_cast<int64_t>(p) * piece_;
    pieces[p] = scored(samples, begin);
    const std::lock_guard lock(workers.mutex());
    done += std::min(piece_, samples.size - begin);
    observer.step("evaluating", done, all);
  });
  samples_ += samples.size;
  for (auto& piece : pieces) keep(std::move(piece));
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void PieceScores::keep(Piece piece) {
  for (size_t m = 0; m < piece.sums.size(); ++m) sums_[m].merge(piece.sums[m]);
  for (size_t m = 0; m < piece.logits.size(); ++m) logits_[m].push_back(std::move(piece.logits[m]));
  if (!piece.logits.empty()) labels_.push_back(piece.labels);
}

Evaluation PieceScores::finish() const {
  Evaluation total{.seconds = seconds_, .samples = samples_};
  if (labels_.empty()) {
    total.models = sums_;
    return total;
  }
  const at::Tensor labels = at::cat(labels_);
  for (const auto& logits : logits_)
    total.multi_label.push_back(multi_label_metrics(at::cat(logits), labels, options_.threshold));
  return total;
}

}  // namespace pare
