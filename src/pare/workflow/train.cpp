#include "pare/workflow/train.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "pare/core/file.h"
#include "pare/core/file_lock.h"
#include "pare/core/options.h"
#include "pare/data/augment.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/samples/samples.h"
#include "pare/train/tensorboard.h"

namespace pare {

namespace fs = std::filesystem;

void TrainingOptions::describe(OptionVisitor& options, bool with_epochs) {
  train.describe(options, with_epochs);
  options.field("label-smoothing", label_smoothing, "part of the target spread over all classes");
  options.essential().field("validation", validation,
                            "part of the training images, the same of every class, that is held out to choose the "
                            "epoch that is kept, or tickets (0.1 for those unless given)");
  options.heading("runs");
  options.field("tensorboard", tensorboard, "write TensorBoard event files into this directory");
  options.field(
      "log-every", log_every,
      "also log each time this many steps are done, into steps.jsonl of the run and TensorBoard (0: epochs only)");
  options.field("resume", resume, "insist on going on with an earlier run (going on is the default)");
  options.field("fresh", fresh, "forget an earlier run of the same command");
  options.only({"patience"}, {with("validation")});
}

DatasetParts hold_out(const Dataset& data, double fraction, uint64_t seed) {
  if (!(fraction >= 0 && fraction < 1))
    throw Error(ErrorKind::usage, OptionName{"validation"}, "expected a part from 0 to 1, found {}", fraction);
  const auto count = static_cast<int64_t>(fraction * static_cast<double>(data.size()));
  if (fraction > 0 && count == 0)
    throw Error(ErrorKind::usage, OptionName{"validation"}, "{} of {} images is not a single image", fraction,
                data.size());
  if (count == 0) return {data, {}};
  Random random(mix_seed({seed, 3}));
  auto order = random_permutation(data.size(), random);
  if (!data.multi_label()) {
    const at::Tensor labels = data.labels.contiguous();
    const auto* label = labels.data_ptr<int64_t>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return label[a] < label[b]; });
  }
  // Evenly spaced over the images in order of their class.
  std::vector<int64_t> rest;
  std::vector<int64_t> held_out;
  for (int64_t i = 0; i < data.size(); ++i)
    ((i + 1) * count / data.size() > i * count / data.size() ? held_out : rest)
        .push_back(order[static_cast<size_t>(i)]);
  const auto part = [&](std::vector<int64_t>& chosen) {
    std::sort(chosen.begin(), chosen.end());
    return samples_at(data, at::tensor(chosen));
  };
  return {part(rest), part(held_out)};
}

namespace {

nlohmann::json definition_of(const Graph& graph, const Dataset& data, const TrainingOptions& options,
                             const TrainingJob& job) {
  JsonWriter writer;
  TrainOptions copy = options.train;
  copy.describe(writer);
  nlohmann::json definition = writer.json();
  definition["label-smoothing"] = options.label_smoothing;
  definition["validation"] = options.validation;
  definition["seed"] = options.train.seed;
  definition["first-epoch"] = options.train.first_epoch;
  definition["keep-epochs"] = job.keep_epochs;
  if (job.keep_last) definition["keep-last"] = true;
  if (job.start != nullptr) definition["start"] = fingerprint(*job.start);
  definition["model"] = fingerprint(graph);
  definition["data"] = fingerprint(data);
  definition["method"] = job.definition;
  if (!data.files.empty() && parse_augment(options.train.augment).resized_crop) definition["crops"] = "full pictures";
  return definition;
}

std::optional<TrainState> earlier_state(const RunDirectory& run, const TrainingOptions& options,
                                        const ProcessGroup& ranks) {
  if (options.fresh && options.resume)
    throw Error(ErrorKind::usage, OptionName{"fresh"}, "and `resume` contradict each other");
  std::error_code ignored;
  if (options.fresh && ranks.main()) fs::remove(run.state(), ignored);
  if (!fs::exists(run.state(), ignored)) {
    if (options.resume)
      throw Error(ErrorKind::usage, OptionName{"resume"}, "there is no run to go on with in {}", run.path.string());
    return std::nullopt;
  }
  try {
    return read_train_state(run.state(), run.hash);
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), "{}; `fresh` begins the run anew", error.message());
  }
}

// What rank 0 finds, all ranks find: they see one directory, and look when rank 0 has.
std::optional<TrainState> state_for_all(const RunDirectory& run, const TrainingOptions& options, ProcessGroup& ranks) {
  if (!ranks.main()) ranks.barrier();
  auto state = earlier_state(run, options, ranks);
  if (ranks.main()) ranks.barrier();
  const double step = state ? static_cast<double>(state->step) : -1.0;
  if (ranks.broadcast(step) != step)
    throw Error(ErrorKind::usage, OptionName{"runs"},
                "rank {} finds another state than rank 0 in {}: all need one directory", ranks.rank(),
                run.path.string());
  return state;
}

fs::path epoch_path(const RunDirectory& run, int64_t epoch) {
  return run.path / fmt::format("epoch-{}.safetensors", epoch);
}

// steps.jsonl and TensorBoard.
class StepLogs {
 public:
  StepLogs(const RunDirectory& run, const TrainingOptions& options, int64_t start) : every_(options.log_every) {
    if (!options.tensorboard.empty()) events_ = std::make_unique<EventWriter>(options.tensorboard, start);
    if (every_ > 0) {
      path_ = run.path / "steps.jsonl";
      keep_before(start);
      steps_.open(path_, std::ios::app);
      if (!steps_) throw Error(ErrorKind::file, path_.string(), "cannot be written");
    }
  }

  void step(const StepReport& report) {
    if (every_ == 0 || report.at.step % every_ != 0) return;
    steps_ << nlohmann::json{{"step", report.at.step}, {"loss", report.loss}, {"rate", report.rate}}.dump() << "\n";
    if (events_) {
      events_->scalar("train/loss", report.loss, report.at.step);
      events_->scalar("train/rate", report.rate, report.at.step);
    }
  }

  void epoch(const EpochReport& report) {
    steps_.flush();
    if (every_ > 0 && !steps_) throw Error(ErrorKind::file, path_.string(), "could not be written");
    if (!events_) return;
    const auto json = to_json(report);
    for (const char* key : {"loss", "penalty", "accuracy", "validation", "rate", "images_per_second"})
      if (json.contains(key)) events_->scalar(fmt::format("epoch/{}", key), json[key].get<double>(), report.step);
    events_->flush();
  }

 private:
  // Drops what a killed run logged after the state from which this one goes on.
  void keep_before(int64_t start) {
    std::ifstream in(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
      const auto entry = nlohmann::json::parse(line, nullptr, false);
      if (entry.is_object() && entry.value("step", start + 1) <= start) lines.push_back(line);
    }
    write_file_atomically(path_, [&](std::ostream& out) {
      for (const auto& line : lines) out << line << "\n";
    });
  }

  int64_t every_;
  fs::path path_;
  std::ofstream steps_;
  std::unique_ptr<EventWriter> events_;
};

// Training writes into its tensors.
TrainState copied(TrainState state) {
  for (TensorMap* tensors :
       {&state.raw, &state.statistics, &state.optimizer, &state.average, &state.best, &state.method})
    for (auto& [name, tensor] : *tensors) tensor = tensor.detach().clone();
  return state;
}

}  // namespace

TrainState TrainingOutcome::after_epoch(int64_t epoch) const {
  if (const auto found = kept.find(epoch); found != kept.end()) return found->second;
  return read_train_state(epoch_path(run, epoch), run.hash);
}

TrainingOutcome run_training(const Graph& graph, const Dataset& data, const TrainingOptions& options,
                             const TrainingJob& job) {
  options.train.check();
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1))
    throw Error(ErrorKind::usage, OptionName{"label-smoothing"}, "expected 0 to 1, found {}", options.label_smoothing);
  if (options.log_every > 0 && options.runs.empty())
    throw Error(ErrorKind::usage, OptionName{"log-every"}, "there is no directory of runs to log into");
  if ((options.resume || options.fresh) && options.runs.empty())
    throw Error(ErrorKind::usage, OptionName{options.resume ? "resume" : "fresh"}, "there is no directory of runs");
  if (options.log_every < 0)
    throw Error(ErrorKind::usage, OptionName{"log-every"}, "expected 0 or more, found {}", options.log_every);
  if (options.train.patience > 0 && options.validation == 0)
    throw Error(ErrorKind::usage, OptionName{"patience"}, "needs `validation`, which says what is better");
  require_classes(data);
  check_classes(graph, data);
  const DatasetParts parts = hold_out(data, options.validation, options.train.seed);
  TrainingOutcome outcome;
  const bool stored = !options.runs.empty();
  if (stored) outcome.run = open_run(options.runs, job.kind, definition_of(graph, data, options, job));
  ProcessGroup& ranks = job.ranks != nullptr ? *job.ranks : alone();
  std::optional<FileLock> only;  // two that train the same would write over each other's state
  if (ranks.main() && stored) only = FileLock::take(outcome.run.path / "lock", 0, job.waits, job.stop);
  const auto from = stored ? state_for_all(outcome.run, options, ranks) : std::optional<TrainState>();
  outcome.resumed_at = from ? from->step : 0;
  outcome.done_already = from && from->finished;
  if (job.begin) job.begin(outcome.done_already);

  std::optional<StepLogs> logs;
  if (ranks.main()) logs.emplace(outcome.run, options, outcome.resumed_at);
  ClassificationObjective classification(options.label_smoothing);
  TrainParts hooks{.parameters = job.parameters,
                   .objective = job.objective != nullptr ? job.objective : &classification,
                   .ranks = &ranks,
                   .validate = {},
                   .on_step =
                       [&](const StepReport& report) {
                         logs->step(report);
                         if (job.on_step) job.on_step(report);
                       },
                   .on_epoch =
                       [&](const TrainState& state) {
                         const int64_t epoch = state.history.back().epoch;
                         if (std::count(job.keep_epochs.begin(), job.keep_epochs.end(), epoch) > 0) {
                           if (stored)
                             write_train_state(epoch_path(outcome.run, epoch), state, outcome.run.hash);
                           else
                             outcome.kept[epoch] = copied(state);
                         }
                         logs->epoch(state.history.back());
                         if (job.on_epoch) job.on_epoch(state.history.back());
                       },
                   .save =
                       [&](const TrainState& state) {
                         if (!stored) return;
                         write_train_state(outcome.run.state(), state, outcome.run.hash);
                         write_training_logs(outcome.run, state.history);
                       },
                   .stop = job.stop};
  if (parts.held_out.images.defined())
    hooks.validate = [&](Graph now) {
      now.metadata["pare.classes"] = json_text(data.classes);
      return metrics_of(evaluate({now}, parts.held_out), 0).front().second;
    };
  TrainResult result = train(graph, parts.rest, options.train, hooks, from ? &*from : job.start);
  ranks.barrier();  // the files of rank 0 are there
  outcome.graph = std::move(job.keep_last ? result.last : result.best);
  outcome.state = std::move(result.state);
  if (data.images.scalar_type() == at::kByte) {  // what samples are normalised by, only their owner knows
    outcome.graph.metadata["pare.mean"] = nlohmann::json(data.mean).dump();
    outcome.graph.metadata["pare.std"] = nlohmann::json(data.std).dump();
    outcome.graph.metadata["pare.classes"] = json_text(data.classes);
  }
  if (!data.preprocess.empty()) outcome.graph.metadata["pare.preprocess"] = data.preprocess;
  return outcome;
}

Trainer observed_training(Observer& observer) {
  return [&observer](const Graph& graph, const Dataset& data, const TrainingOptions& options, TrainingJob job) {
    const std::string what = job.what.empty() ? "training" : job.what;
    job.ranks = &observer.ranks();
    job.on_step = [&](const StepReport& report) { observer.progress(what, report.at.step, report.at.steps); };
    job.stop = [&] { return observer.cancelled(); };
    return run_training(graph, data, options, job);
  };
}

TrainingResult result_of(TrainingOutcome outcome) {
  return {.graph = std::move(outcome.graph), .history = outcome.state.history, .run = outcome.run.path};
}

TrainingResult train(const Graph& graph, const Samples& samples, const TrainingOptions& options, Observer& observer) {
  return result_of(observed_training(observer)(graph, dataset_of(samples), options, {}));
}

}  // namespace pare
