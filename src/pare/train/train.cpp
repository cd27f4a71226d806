#include "pare/train/train.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "pare/data/loader.h"
#include "pare/dist/gradient_buckets.h"
#include "pare/error.h"
#include "pare/passes/relu_after_max_pool.h"

namespace pare {

void TrainOptions::describe(OptionVisitor& options, bool with_epochs) {
  options.heading("training");
  if (with_epochs) options.essential().field("epochs", epochs, "times over the training data");
  options.essential().field("batch", batch, "images in a step");
  optimizer.describe(options);
  schedule.describe(options);
  options.essential().field("augment", augment,
                            "standard (crop:4,flip), or any of flip, crop:N, resized-crop, cutout:N, or none");
  options.field("order", order, "order of the training images");
  options.field("clip-norm", clip_norm, "largest norm of the gradient (0: any)");
  options.field("average", average, "decay of a moving average of the weights, which is what is kept (0: none)");
  options.field("sync-bn", sync_bn, "on several ranks: batch norms take their statistics over all of them");
  options.field("patience", patience, "stop after this many epochs without a better validation (0: never)");
}

void TrainOptions::check() const {
  if (epochs < 0) throw Error(ErrorKind::usage, OptionName{"epochs"}, "expected 0 or more, found {}", epochs);
  if (first_epoch < 0 || first_epoch > epochs)
    throw Error(ErrorKind::usage, "first epoch", "{} is not one of {}", first_epoch, epochs);
  if (batch < 1) throw Error(ErrorKind::usage, OptionName{"batch"}, "expected at least 1, found {}", batch);
  if (!(clip_norm >= 0))
    throw Error(ErrorKind::usage, OptionName{"clip-norm"}, "expected 0 or more, found {}", clip_norm);
  if (!(average >= 0 && average < 1))
    throw Error(ErrorKind::usage, OptionName{"average"}, "expected 0 to 1, found {}", average);
  if (patience < 0) throw Error(ErrorKind::usage, OptionName{"patience"}, "expected 0 or more, found {}", patience);
  optimizer.check();
  schedule.check();
  parse_augment(augment);
}

namespace {

// A copy to train, laid out for the convolutions; its storage is its own. Where there is one input channel both layouts
// are the same memory, and arithmetic on the tensor would not keep the strides apart.
at::Tensor trainable(const at::Tensor& tensor) {
  const bool filters = tensor.dim() == 4 && tensor.size(1) > 1;
  return tensor.detach()
      .clone(filters ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous)
      .requires_grad_();
}

// The graph as it trains fastest, with the values that the objective looks at.
Graph prepared(const Graph& graph, const Objective& objective) {
  const auto taps = objective.taps();
  return relu_after_max_pool(graph, {taps.begin(), taps.end()});
}

class Training {
 public:
  Training(const Graph& graph, const Dataset& data, const TrainOptions& options, const TrainParts& parts,
           const TrainState* from)
      : options_(options),
        parts_(parts),
        ranks_(parts.ranks != nullptr ? *parts.ranks : alone()),
        graph_(graph),
        loader_(data, {.batch = options.batch,
                       .shuffle = options.order == SampleOrder::shuffled,
                       .seed = options.seed,
                       .part = ranks_.rank(),
                       .parts = ranks_.size(),
                       .augment = parse_augment(options.augment)}),
        parameters_(parts.parameters != nullptr ? *parts.parameters : plain_),
        objective_(parts.objective != nullptr ? *parts.objective : classification_),
        program_(prepared(graph, objective_)),
        optimizer_(options.optimizer),
        buckets_(ranks_) {
    if (graph.inputs.size() != 1)
      throw Error(ErrorKind::shape, graph.name, "has {} inputs, expected one that takes images", graph.inputs.size());
    TensorMap initial;
    for (const auto& name : trained_tensors(graph)) initial[name] = graph.tensor(name);
    if (initial.empty()) throw Error(ErrorKind::usage, graph.name, "has no weights to train");
    for (const auto& [name, tensor] : initial) raw_[name] = trainable(tensor);
    for (const auto& [name, tensor] : parameters_.extra(initial)) {
      if (graph.is_constant(name)) throw Error(ErrorKind::failed, name, "is a tensor of the graph already");
      raw_[name] = trainable(tensor);
    }
    if (from != nullptr) {
      restore(*from);
    } else if (options.first_epoch > 0) {
      state_.step = options.first_epoch * loader_.batches();
      loader_.seek({options.first_epoch, 0});
    }
    for (const auto& [name, tensor] : raw_) ranks_.broadcast(tensor.detach());
  }

  TrainResult run() {
    while (!state_.finished && epoch() <= options_.epochs) {
      run_epoch();
      end_epoch();
    }
    state_.finished = true;
    TrainResult result{.last = current(), .best = {}, .state = snapshot()};
    result.best = state_.best.empty() ? result.last : with_tensors(finished(state_.best), state_.best);
    return result;
  }

 private:
  TrainPosition at() const { return {state_.step, options_.epochs * loader_.batches(), loader_.batches()}; }

  void restore(const TrainState& from) {
    state_ = from;
    for (auto& [name, tensor] : raw_) {
      const auto saved = from.raw.find(name);
      if (saved == from.raw.end() || saved->second.sizes() != tensor.sizes())
        throw Error(ErrorKind::format, name, "the saved state does not fit this network");
      tensor = trainable(saved->second);
    }
    optimizer_.restore(from.optimizer);
    parameters_.restore(from.method);
    loader_.seek(from.position);
  }

  TrainState snapshot() const {
    TrainState state = state_;
    for (const auto& [name, tensor] : raw_) state.raw[name] = tensor.detach();
    state.optimizer = optimizer_.state();
    state.method = parameters_.state();
    state.position = loader_.position();
    return state;
  }

  void run_epoch() {
    auto clock = std::chrono::steady_clock::now();
    while (auto batch = loader_.next()) {
      const StepReport report = step(*batch);
      const auto now = std::chrono::steady_clock::now();
      state_.sums.seconds += std::chrono::duration<double>(now - clock).count();
      clock = now;
      if (parts_.on_step && ranks_.main()) parts_.on_step(report);
      if (stopping()) {
        average_statistics();
        if (parts_.save && ranks_.main()) parts_.save(snapshot());
        throw Error(ErrorKind::interrupted, "training", "stopped after step {} of {}", state_.step, at().steps);
      }
    }
  }

  // Asked for by any rank before the step that was just done.
  bool stopping() const { return ranks_.alone() ? parts_.stop && parts_.stop() : stop_asked_; }

  StepReport step(const Batch& batch) {
    const TrainPosition here = at();
    const auto seed = [&](uint64_t rank) {
      at::manual_seed(rank == 0 ? mix_seed({options_.seed, static_cast<uint64_t>(here.step), 2})
                                : mix_seed({options_.seed, static_cast<uint64_t>(here.step), 2, rank}));
    };
    seed(0);  // what parameters draw is the same on all ranks, what images draw is not
    TensorMap effective = parameters_.effective(raw_, here);
    if (!ranks_.main()) seed(static_cast<uint64_t>(ranks_.rank()));
    effective.insert(state_.statistics.begin(), state_.statistics.end());
    TensorMap moved;
    const Loss loss = objective_({program_, effective, batch, &moved, here, sum_over_ranks()});
    const at::Tensor penalty = parameters_.penalty(raw_, here);
    const at::Tensor total = penalty.defined() ? loss.value + penalty : loss.value;
    const BatchSums sums = backward(batch, loss, total, here);
    const double rate = rate_of(here.step);
    optimizer_.step(raw_, rate, clipping(here), [&](const std::string& name) { return parameters_.settings(name); });
    for (auto& [name, tensor] : moved) state_.statistics[name] = tensor;
    ++state_.step;
    parameters_.after_step(raw_, optimizer_, at());
    move_average();
    count(batch, sums, penalty);
    return {.at = at(), .epoch = epoch(), .loss = sums.loss, .rate = rate, .sums = state_.sums};
  }

  struct BatchSums {
    double loss = 0;
    double correct = 0;
  };

  // The gradients of the whole batch, and its loss and hits.
  BatchSums backward(const Batch& batch, const Loss& loss, const at::Tensor& total, const TrainPosition& here) {
    const auto value = total.item<double>();
    BatchSums sums{.loss = loss.value.item<double>(), .correct = 0};
    if (batch.labels.dim() == 1) sums.correct = loss.logits.detach().argmax(1).eq(batch.labels).sum().item<double>();
    if (ranks_.alone()) {
      if (!std::isfinite(value)) throw not_finite(here);
      total.backward();
      return sums;
    }
    const double stop = parts_.stop && parts_.stop() ? 1 : 0;
    const auto own = static_cast<double>(batch.images.size(0));
    const std::array<double, 4> figures = {value, sums.loss, sums.correct / own, stop / batch.share};
    const at::Tensor shared = at::tensor(figures, at::kDouble).mul_(batch.share);
    const auto pending = ranks_.begin_sum(shared);
    buckets_.begin(raw_);
    (total * batch.share).backward();
    buckets_.finish(raw_);
    pending->wait();
    if (!std::isfinite(shared[0].item<double>())) throw not_finite(here);
    stop_asked_ = shared[3].item<double>() > 0;
    return {.loss = shared[1].item<double>(),
            .correct = std::round(shared[2].item<double>() * static_cast<double>(batch.whole))};
  }

  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks() const {
    if (ranks_.alone() || !options_.sync_bn) return {};
    return [this](const at::Tensor& tensor) { return ranks_.differentiable_sum(tensor); };
  }

  // Running statistics of batch norms that each saw its rank's images only.
  void average_statistics() {
    if (ranks_.alone() || options_.sync_bn) return;
    for (auto& [name, tensor] : state_.statistics) {
      at::Tensor mean = tensor.detach().clone(at::MemoryFormat::Contiguous);
      ranks_.sum(mean);
      tensor = mean.div_(ranks_.size());
    }
  }

  double rate_of(int64_t step) const {
    return learning_rate(options_.schedule, options_.optimizer.lr, step,
                         {.steps = at().steps, .steps_per_epoch = at().steps_per_epoch});
  }

  int64_t epoch() const { return options_.first_epoch + static_cast<int64_t>(state_.history.size()) + 1; }

  double clipping(const TrainPosition& here) const {
    if (options_.clip_norm == 0) return 1;
    const double norm = gradient_norm(raw_);
    if (!std::isfinite(norm)) throw not_finite(here);
    return norm > options_.clip_norm ? options_.clip_norm / (norm + 1e-6) : 1;
  }

  void move_average() {
    if (options_.average == 0) return;
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : raw_) {
      at::Tensor& average = state_.average[name];
      if (!average.defined())
        average = tensor.detach().clone();
      else
        average = average.lerp(tensor.detach(), 1 - options_.average);
    }
  }

  void count(const Batch& batch, const BatchSums& sums, const at::Tensor& penalty) {
    state_.sums.loss += sums.loss * static_cast<double>(batch.whole);
    if (penalty.defined()) state_.sums.penalty += penalty.item<double>() * static_cast<double>(batch.whole);
    state_.sums.samples += batch.whole;
    state_.sums.correct += static_cast<int64_t>(sums.correct);
  }

  void end_epoch() {
    const EpochSums& sums = state_.sums;
    const auto samples = static_cast<double>(std::max<int64_t>(sums.samples, 1));
    EpochReport report{.epoch = epoch(),
                       .step = state_.step,
                       .loss = sums.loss / samples,
                       .penalty = sums.penalty / samples,
                       .rate = rate_of(state_.step - 1),
                       .seconds = sums.seconds,
                       .images_per_second = samples / std::max(sums.seconds, 1e-9)};
    if (loader_.dataset().labels.dim() == 1) report.accuracy = static_cast<double>(sums.correct) / samples;
    average_statistics();
    if (parts_.validate) {
      report.validation = ranks_.broadcast(ranks_.main() ? parts_.validate(current()) : 0.0);
      if (report.validation > state_.best_metric) {
        state_.best_metric = report.validation;
        state_.best_epoch = report.epoch;
        state_.best = used_tensors();
        for (auto& [name, tensor] : state_.best) tensor = tensor.detach().clone();
      }
      state_.finished = options_.patience > 0 && report.epoch - state_.best_epoch >= options_.patience;
    }
    state_.history.push_back(report);
    state_.sums = {};
    if (epoch() > options_.epochs) state_.finished = true;
    if (!ranks_.main()) return;
    const TrainState now = snapshot();
    if (parts_.on_epoch) parts_.on_epoch(now);
    if (parts_.save) parts_.save(now);
  }

  // Raw tensors as they would be used (averaged, where asked for) and the statistics.
  TensorMap used_tensors() const {
    TensorMap tensors = state_.average.empty() ? raw_ : state_.average;
    tensors.insert(state_.statistics.begin(), state_.statistics.end());
    return tensors;
  }

  TensorMap finished(const TensorMap& raw) const {
    const at::NoGradGuard no_grad;
    return parameters_.finished(raw, at());
  }

  Graph current() const {
    const TensorMap used = used_tensors();
    return with_tensors(finished(used), used);
  }

  // The graph with the tensors of both maps that it has, the first before the second.
  Graph with_tensors(const TensorMap& first, const TensorMap& second) const {
    Graph graph = graph_;
    for (auto& [name, tensor] : graph.tensors)
      for (const TensorMap* map : {&first, &second})
        if (const auto found = map->find(name); found != map->end()) {
          tensor = found->second.detach().clone(at::MemoryFormat::Contiguous);
          break;
        }
    return graph;
  }

  Error not_finite(const TrainPosition& here) const {
    std::vector<std::pair<double, std::string>> norms;
    for (const auto& [name, tensor] : raw_) {
      const auto norm = tensor.detach().norm().item<double>();
      norms.emplace_back(std::isfinite(norm) ? norm : std::numeric_limits<double>::infinity(),
                         fmt::format("{} {:.3g}", name, norm));
    }
    std::sort(norms.rbegin(), norms.rend());
    std::vector<std::string> largest;
    for (size_t i = 0; i < std::min<size_t>(norms.size(), 6); ++i) largest.push_back(norms[i].second);
    return Error(ErrorKind::failed, "training",
                 "the loss is not finite at step {} (epoch {}); largest norms of the weights: {}; a smaller `lr` or "
                 "`clip-norm` may help",
                 here.step + 1, epoch(), fmt::join(largest, ", "));
  }

  const TrainOptions& options_;
  const TrainParts& parts_;
  ProcessGroup& ranks_;
  const Graph& graph_;
  Loader loader_;
  PlainParameters plain_;
  ClassificationObjective classification_;
  Reparameterization& parameters_;
  Objective& objective_;
  Program program_;
  Optimizer optimizer_;
  GradientBuckets buckets_;
  bool stop_asked_ = false;
  TensorMap raw_;
  TrainState state_;  // its raw, optimizer, method and position are filled in by snapshot()
};

}  // namespace

TrainResult train(const Graph& graph, const Dataset& data, const TrainOptions& options, const TrainParts& parts,
                  const TrainState* from) {
  options.check();
  return Training(graph, data, options, parts, from).run();
}

}  // namespace pare
