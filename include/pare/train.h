// Training of a model on labelled samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/samples.h"

namespace pare {

enum class OptimizerKind { sgd, adam, adamw };
template <>
struct NamesOf<OptimizerKind> {
  static constexpr std::string_view names[] = {"sgd", "adam", "adamw"};
};

struct OptimizerOptions {
  OptimizerKind optimizer = OptimizerKind::sgd;
  double lr = 0.05;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 5e-4;
  bool decay_weights_only = false;  // leave tensors of one axis (biases, batch norms) out of the decay
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  void describe(OptionVisitor& options);
  void check() const;  // Error{usage}
};

// Learning rates:
//   constant    η
//   step        η·factor^m, m = how many of the milestones (epochs) have passed
//   cosine      η·(1 + cos(π t)) / 2, t = the part of the run after the warm-up that has passed
//   one-cycle   Smith & Topin 2019, as PyTorch's OneCycleLR: from η/25 up to η over the first `peak` of the run, then
//               down to η/250,000; both along half a cosine
//
// `warmup` epochs of a linear rise come before the first three.
enum class ScheduleKind { constant, step, cosine, one_cycle };
template <>
struct NamesOf<ScheduleKind> {
  static constexpr std::string_view names[] = {"constant", "step", "cosine", "one-cycle"};
};

struct ScheduleOptions {
  ScheduleKind schedule = ScheduleKind::one_cycle;
  double warmup = 0;
  std::vector<double> milestones;
  double factor = 0.1;
  double peak = 0.3;

  void describe(OptionVisitor& options);
  void check() const;  // Error{usage}
};

enum class SampleOrder { shuffled, stored };
template <>
struct NamesOf<SampleOrder> {
  static constexpr std::string_view names[] = {"shuffled", "stored"};
};

struct TrainOptions {
  int64_t epochs = 10;
  int64_t first_epoch = 0;  // epochs of the schedule that are left out: learning-rate rewinding
  int64_t batch = 64;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  // What is done to every image, drawn anew in each epoch: standard (crop:4,flip), or any of flip, crop:N, cutout:N,
  // resized-crop. Samples are augmented as the network sees them: those with height and width, borders and cuts being
  // zeros, which is the mean of normalised images. Resized crops need pictures in files or bytes, not samples.
  std::string augment = "none";
  SampleOrder order = SampleOrder::shuffled;
  double clip_norm = 0;  // largest norm of all gradients together; 0: any
  double average = 0;    // decay of the moving average of the weights; 0: none
  bool sync_bn = false;  // batch norms see the whole batch, not a rank's part
  int64_t patience = 0;  // epochs without a better validation after which the run ends; 0: never
  uint64_t seed = 0;

  void describe(OptionVisitor& options, bool with_epochs = true);  // all but the seed and the first epoch
  void check() const;                                              // Error{usage}
};

// Options of everything that trains.
struct TrainingOptions {
  TrainOptions train;
  double label_smoothing = 0;
  double validation = 0;  // part of the training images held out; the epoch that does best on them is kept
  // The directory in which the run gets one of its own, named by the hash of what defines it, with logs and the state
  // from which the same call goes on. Empty: nothing is written. Not described here: commands have one option for all.
  std::string runs;
  std::string tensorboard;
  int64_t log_every = 0;  // steps between entries of steps.jsonl and TensorBoard; 0: epochs only
  bool resume = false;    // require an earlier run to go on with
  bool fresh = false;     // discard an earlier one

  void describe(OptionVisitor& options, bool with_epochs = true);
};

struct EpochReport {
  int64_t epoch = 0;  // from 1
  int64_t step = 0;   // steps done at its end
  double loss = 0;    // mean over the epoch's training images, penalty not included
  double penalty = 0;
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // of the same; NaN for multi-label data
  double validation = std::numeric_limits<double>::quiet_NaN();
  double rate = 0;  // learning rate of its last step
  double seconds = 0;
  double images_per_second = 0;
};

struct TrainingResult {
  Graph graph;  // the best epoch's where there is a validation, else the last
  std::vector<EpochReport> history;
  std::filesystem::path run;  // its directory; empty where nothing is written
};

// Samples have one input and labels. They are read once, before the first epoch, and kept in memory: what changes from
// epoch to epoch is `augment`, not what the callback gives. Error{interrupted} when the observer cancels: with `runs`
// the state is stored and the same call goes on with it. Error{failed} when the loss is not finite.
TrainingResult train(const Graph& graph, const Samples& samples, const TrainingOptions& options,
                     Observer& observer = unobserved());

}  // namespace pare
