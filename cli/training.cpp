#include "training.h"

#include <algorithm>
#include <cmath>

#include "input.h"
#include "pare/core/interrupt.h"
#include "pare/error.h"

namespace pare::cli {

namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string epoch_text(const EpochReport& report, int64_t epochs, double left) {
  std::string text = fmt::format("epoch {}/{}  loss {:.4f}", report.epoch, epochs, report.loss);
  if (report.penalty != 0) text += fmt::format("  penalty {:.4g}", report.penalty);
  if (!std::isnan(report.accuracy)) text += fmt::format("  accuracy {:.4f}", report.accuracy);
  if (!std::isnan(report.validation)) text += fmt::format("  validation {:.4f}", report.validation);
  return text + fmt::format("  {:.0f} images/s  {:.1f} s  {} left", report.images_per_second, report.seconds,
                            clock_text(left));
}

}  // namespace

TrainingOutcome train_with_feedback(Session& session, const Graph& graph, const Dataset& data,
                                    const TrainingOptions& asked, TrainingJob job) {
  TrainingOptions options = asked;
  options.runs = session.common.runs;
  // A command that goes on with an earlier run has found its first stage, and may not have come to the next.
  options.resume = asked.resume && session.trainings.empty();
  job.ranks = &session.ranks;
  if (!job.what.empty()) session.say("{}\n", job.what);
  if (data.split == "all" && !session.trained_on_all())
    session.say(
        "note: the data is not divided into train and test: metrics and gates (--max-drop) are measured on images that "
        "are trained on\n");
  if (options.validation > 0)
    session.say("{} of the training images are held out, and {}; metrics are measured on the test images\n",
                options.validation,
                job.keep_last ? "watched only: the last epoch is kept" : "choose the epoch that is kept");
  const InterruptWatch watch;
  const int64_t epochs = options.train.epochs;
  Progress bar("training", session.ranks.main() ? session.common.verbosity() : Verbosity::quiet);
  job.on_step = [&](const StepReport& report) {
    bar.update(report.at.step, report.at.steps, [&] {
      const auto samples = static_cast<double>(report.sums.samples);
      return fmt::format("epoch {}/{}  loss {:.4f}  {:.0f} images/s", report.epoch, epochs, report.sums.loss / samples,
                         samples / std::max(report.sums.seconds, 1e-9));
    });
  };
  job.on_epoch = [&](const EpochReport& report) {
    bar.clear();
    session.say("{}\n", epoch_text(report, epochs, report.seconds * static_cast<double>(epochs - report.epoch)));
    auto event = to_json(report);
    event["event"] = "epoch";
    session.log(event);
  };
  if (!job.waits) job.waits = [&] { session.say("another process trains the same: waiting for it\n"); };
  job.stop = [&] { return watch.interrupted(); };
  try {
    TrainingOutcome outcome = run_training(graph, data, options, job);
    const char* chosen_on = options.validation == 0 ? "" : job.keep_last ? "last epoch" : "validation";
    session.trainings.push_back({.what = job.what,
                                 .run = outcome.run.path.string(),
                                 .split = data.split,
                                 .chosen_on = chosen_on,
                                 .history = outcome.state.history});
    return outcome;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    throw Error(ErrorKind::interrupted, error.where(), "{}; the same command goes on from there", error.message());
  }
}

void check_training_split(const DataChoice& data) {
  if (data.split != "train")
    throw Error(
        ErrorKind::usage, "--split",
        "expected train, found {}: this command learns from the training images, and measures on the test images",
        data.split);
}

TrainingInput load_for_training(Session& session, const std::string& path, ModelOptions& options,
                                const DataChoice& data, bool unlabelled) {
  check_training_split(data);
  if (path.empty()) {
    DataChoice sample = data;
    sample.limit = 1;
    const Dataset one = sample.load({});
    if (options.image.empty()) options.image = {one.channels(), one.height(), one.width()};
    if (options.classes == 0) options.classes = static_cast<int64_t>(one.classes.size());
  }
  Model model = read_model(session, path, options);
  Dataset images = data.load(model.graph, unlabelled);
  if (!path.empty() && data.has_pictures()) say_pictures(session, {path}, {model.graph}, data);
  return {std::move(model), std::move(images)};
}

Trainer trainer_with_feedback(Session& session) {
  return [&session](const Graph& graph, const Dataset& data, const TrainingOptions& options, TrainingJob job) {
    return train_with_feedback(session, graph, data, options, std::move(job));
  };
}

std::optional<Dataset> test_split(const DataChoice& choice, const Graph& model) {
  DataChoice test = choice;
  test.split = "test";
  test.limit = 0;
  try {
    return test.load(model);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::file) throw;
    return std::nullopt;
  }
}

nlohmann::json splits_json(double validation) {
  if (validation == 0) return {{"measured_on", "test"}};
  return {{"chosen_on", "validation"}, {"validation", validation}, {"measured_on", "test"}};
}

std::vector<MetricList> test_metrics(const DataChoice& choice, const std::vector<Graph>& models) {
  const auto data = test_split(choice, models.front());
  if (!data) return {};
  const Evaluation evaluation = evaluate(models, *data);
  std::vector<MetricList> metrics;
  for (size_t m = 0; m < models.size(); ++m) metrics.push_back(metrics_of(evaluation, m));
  return metrics;
}

}  // namespace pare::cli
