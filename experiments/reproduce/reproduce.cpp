#include "experiments/reproduce/reproduce.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "pare/core/file.h"
#include "pare/core/file_lock.h"
#include "pare/core/glob.h"
#include "pare/data/threads_restored.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/version.h"

namespace pare {

namespace fs = std::filesystem;

nlohmann::json TableRow::json() const {
  nlohmann::json result = {{"table", table}, {"what", what}, {"metric", metric}, {"seconds", seconds}};
  if (!std::isnan(published)) result["published"] = published;
  if (!std::isnan(ours)) result["ours"] = ours;
  if (!std::isnan(error)) result["error"] = error;
  if (!std::isnan(deviation)) result["deviation"] = deviation;
  if (!std::isnan(difference())) result["difference"] = difference();
  if (!note.empty()) result["note"] = note;
  return result;
}

void ReproduceOptions::describe(OptionVisitor& options) {
  options.heading("what is measured");
  options.essential().field("scale", scale, "toy: 3 minutes a paper; small: 30 minutes; full: the papers' own sizes",
                            {"toy", "small", "full"});
  options.field("checkpoints", checkpoints, "directory of published checkpoints (default: the usual places)");
  options.field("imagenet", imagenet, "folder:DIR of ImageNet's validation images, one directory per class");
  options.field("voc", voc, "voc:DIR of PASCAL VOC 2012 (the directory of VOCdevkit)");
  options.field("seeds", seeds, "attribution: means over this many seeds (0: as many as the scale has)");
  options.essential().field("tables", tables,
                            "only the tables whose name this glob matches, also those that take long");
  options.field("fresh", fresh, "measure every row anew; with `tables`, every row of those");
  options.essential().field("list", list, "measure nothing: the rows there are, with what was measured before");
}

namespace {

struct TrainedElsewhere {};

}  // namespace

// What all other processes wait for may have their threads. For anything else that is in training there is other work.
Trainer Reproduction::sharing(Trainer trainer) const {
  return [this, trainer = std::move(trainer)](const Graph& graph, const Dataset& data, const TrainingOptions& options,
                                              TrainingJob job) {
    const ThreadsRestored after;
    if (job.awaited && options_.threads > 0) at::set_num_threads(options_.threads);
    if (!job.awaited && pass_ == Pass::at_once) job.waits = [] { throw TrainedElsewhere(); };
    return trainer(graph, data, options, std::move(job));
  };
}

Reproduction::Reproduction(const std::string& paper, const ReproduceOptions& options, Trainer trainer)
    : options_(options), trainer_(sharing(std::move(trainer))) {
  nlohmann::json definition = {
      {"paper", paper}, {"scale", options.scale}, {"seed", options.seed}, {"version", kVersion}};
  if (options.seeds > 0) definition["seeds"] = options.seeds;
  // Rows measured on other files are other rows.
  for (const auto& [name, place] :
       {std::pair("checkpoints", &options.checkpoints), {"imagenet", &options.imagenet}, {"voc", &options.voc}})
    if (!place->empty()) definition[name] = *place;
  run_ = open_run(options.runs, "reproduce-" + paper, definition);
  if (!options.fresh) return;
  for (const auto& entry : fs::directory_iterator(run_.path)) {
    if (!entry.path().filename().string().starts_with("row-")) continue;
    std::ifstream in(entry.path());
    const auto row = nlohmann::json::parse(in, nullptr, false);
    const bool whole = row.is_object() && row.contains("table") && row["table"].is_string();
    if (!whole || asked_for(row["table"].get<std::string>())) fs::remove(entry.path());
  }
}

bool Reproduction::asked_for(const std::string& table) const {
  return options_.tables.empty() || glob_matches(options_.tables, table);
}

void Reproduction::measure_free(const std::function<void(Reproduction&)>& paper) {
  do go_through(paper, Pass::at_once);
  while (left_ && measured_);
  if (left_) go_through(paper, Pass::free);
}

void Reproduction::measure_all(const std::function<void(Reproduction&)>& paper) {
  measure_free(paper);
  go_through(paper, Pass::all);
}

void Reproduction::go_through(const std::function<void(Reproduction&)>& paper, Pass pass) {
  pass_ = pass;
  left_ = measured_ = false;
  done_.clear();
  paper(*this);
  pass_ = Pass::all;
}

void Reproduction::row(TableRow row, const std::function<double()>& measure) {
  rows({std::move(row)}, [&] { return std::vector<double>{measure()}; });
}

void Reproduction::rows(std::vector<TableRow> rows, const std::function<std::vector<double>()>& measure) {
  this->rows(std::move(rows), [&] {
    std::vector<SeedMean> figures;
    for (const double value : measure()) figures.push_back({.mean = value});
    return figures;
  });
}

void Reproduction::rows(std::vector<TableRow> rows, const std::function<std::vector<SeedMean>()>& measure) {
  const TableRow& first = rows.front();
  if (!asked_for(first.table)) return;
  const fs::path key = stored(first);
  if (!known_.contains(key)) {
    if (!fill(rows, measure)) return;
    if (options_.on_row)
      for (const auto& row : rows) options_.on_row(row);
    known_[key] = std::move(rows);
  }
  const auto& known = known_.at(key);
  done_.insert(done_.end(), known.begin(), known.end());
}

bool Reproduction::fill(std::vector<TableRow>& rows, const std::function<std::vector<SeedMean>()>& measure) {
  if (restore(rows) || options_.list) return true;
  const TableRow& first = rows.front();
  if (first.on_request && options_.tables.empty()) {
    for (auto& row : rows) row.note = fmt::format("left out, it takes long: `tables` '{}' asks for it", first.table);
    return true;
  }
  const fs::path lock = run_.path / "lock";
  const uint64_t part = std::hash<std::string>()(stored(first).string());
  const auto wait = [&] {
    if (options_.on_wait) options_.on_wait(first);
  };
  const auto claim = pass_ == Pass::all ? FileLock::take(lock, part, wait, {}) : FileLock::try_take(lock, part);
  if (!claim) return false;
  if (restore(rows)) return true;
  const auto start = std::chrono::steady_clock::now();
  std::vector<SeedMean> figures(rows.size(), SeedMean{.mean = kNoFigure});
  bool measured = true;
  try {
    figures = measure();
  } catch (const TrainedElsewhere&) {
    left_ = true;
    return false;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::file) throw;
    measured = false;
    const std::string why = error.what();
    for (auto& row : rows) row.note = fmt::format("left out: {}", why.substr(0, why.find('\n')));
  }
  measured_ = true;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].ours = figures.at(i).mean;
    rows[i].error = figures.at(i).error;
    rows[i].deviation = figures.at(i).deviation;
    if (const std::string& more = figures.at(i).note; !more.empty())
      rows[i].note += (rows[i].note.empty() ? "" : "; ") + more;
    rows[i].seconds = seconds.count() / static_cast<double>(rows.size());
    if (!measured) continue;
    auto json = rows[i].json();
    json["ours"] = rows[i].ours;  // null where the measurement has no figure
    write_file_atomically(stored(rows[i]), [&](std::ostream& out) { out << json_text(json, 2) << "\n"; });
  }
  return true;
}

fs::path Reproduction::stored(const TableRow& row) const {
  const std::string text = row.table + "\n" + row.what + "\n" + row.metric;
  return run_.path / fmt::format("row-{}.json", sha256(std::as_bytes(std::span(text))).substr(0, 16));
}

// All of the rows or none.
bool Reproduction::restore(std::vector<TableRow>& rows) const {
  std::vector<TableRow> found = rows;
  for (auto& row : found) {
    std::ifstream in(stored(row));
    const auto json = nlohmann::json::parse(in, nullptr, false);
    if (!json.is_object() || !json.contains("ours")) return false;
    row.ours = json["ours"].is_number() ? json["ours"].get<double>() : kNoFigure;
    row.error = json.value("error", kNoFigure);
    row.deviation = json.value("deviation", kNoFigure);
    row.note = json.value("note", row.note);
    row.seconds = json.value("seconds", 0.0);
  }
  rows = std::move(found);
  return true;
}

fs::path Reproduction::checkpoint(const std::string& name) const {
  std::vector<fs::path> places;
  if (!options_.checkpoints.empty()) {
    places = {options_.checkpoints};
  } else {
    if (const char* place = std::getenv("PARE_CHECKPOINTS")) places.emplace_back(place);
    if (const char* shared = std::getenv("PARE_SHARED")) places.emplace_back(fs::path(shared) / "data");
    places.insert(places.end(), {"data/checkpoints", "../shared/data"});
  }
  std::error_code ignored;
  std::vector<std::string> looked;
  for (const auto& place : places) {
    if (fs::exists(place / name, ignored)) return place / name;
    looked.push_back(place.string());
  }
  throw Error(ErrorKind::file, name, "is not in {}; `checkpoints` names a directory", fmt::join(looked, ", "));
}

Dataset training_data(const TrainingPlan& plan) {
  return DataChoice{.data = plan.data, .split = "train", .limit = plan.limit}.load({});
}

std::string test_images_text(int64_t images) { return images > 0 ? fmt::format(", {} test images", images) : ""; }

Graph Reproduction::train(const TrainingPlan& plan) const { return train(plan, training_data(plan)); }

std::vector<Graph> Reproduction::train_each(const std::vector<TrainingPlan>& plans) const {
  std::vector<Graph> graphs;
  for (const auto& plan : plans) {
    try {
      graphs.push_back(train(plan));
    } catch (const TrainedElsewhere&) {  // said below
    }
  }
  if (graphs.size() < plans.size()) throw TrainedElsewhere();
  return graphs;
}

Graph Reproduction::untrained(const TrainingPlan& plan, const Dataset& data) const {
  ModelOptions model = plan.model;
  model.arch = plan.arch;
  model.classes = static_cast<int64_t>(data.classes.size());
  model.image = {data.channels(), data.height(), data.width()};
  return load_model("", model, options_.seed + plan.seed).graph;
}

TrainingOptions Reproduction::training(const TrainingPlan& plan) const {
  TrainingOptions training = plan.training;
  training.runs = options_.runs;
  training.train.seed = options_.seed + plan.seed;
  return training;
}

Graph Reproduction::train(const TrainingPlan& plan, const Dataset& data) const {
  const std::string variant =
      plan.model.activation.empty() || plan.model.activation == "relu" ? "" : " with " + plan.model.activation;
  return trainer_(untrained(plan, data), data, training(plan),
                  {.what = fmt::format("training {}{} on {} images of {}, seed {}", plan.arch, variant, data.size(),
                                       plan.data, options_.seed + plan.seed)})
      .graph;
}

Graph Reproduction::finetune(const Graph& graph, const TrainingPlan& plan, const std::string& what) const {
  return trainer_(graph, training_data(plan), training(plan), {.kind = "finetune", .what = "fine-tuning " + what})
      .graph;
}

const Dataset& Reproduction::data(const DataChoice& choice, const Graph& graph) {
  JsonWriter key;
  DataChoice copy = choice;
  if (copy.mean.empty()) copy.mean = stored_values(graph, "pare.mean");
  if (copy.std.empty()) copy.std = stored_values(graph, "pare.std");
  if (copy.preprocess.empty()) copy.preprocess = stored_preprocess(graph);
  copy.describe(key);
  auto& entry = data_[json_text(key.json())];
  if (!entry) entry = std::make_unique<Dataset>(copy.load(graph));
  return *entry;
}

double Reproduction::accuracy(const Graph& graph, const DataChoice& choice) {
  return metrics_of(evaluate({graph}, data(choice, graph)), 0).front().second;
}

}  // namespace pare
