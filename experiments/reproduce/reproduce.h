// The tables of the papers, row by row: what ran, the published figure, ours.
//
// A paper is one function that goes through its rows (papers.h lists them):
//
//   void reproduce_merging(Reproduction& table) {
//     table.row({.table = "LeNet-300-100", .what = "l1, 50 % removed", .published = 0.8840}, [&] { return …; });
//   }
//
// A row that was measured before is read back from the run's directory; what it needs (a trained network, data) is made
// only when a row asks for it. A row whose data or checkpoint is not on this machine says so and is left out.
//
// Several processes may work on one table, each on rows that no other is at.
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pare/core/options.h"
#include "pare/data/data_options.h"
#include "pare/metrics/seed_mean.h"
#include "pare/train/run_store.h"
#include "pare/workflow/sparsify.h"
#include "pare/zoo/model.h"

namespace pare {

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

struct TableRow {
  std::string table;             // network and data
  std::string what;              // exactly what ran
  std::string metric = "top1";   // fractions, not per cent
  double published = kNoFigure;  // NaN: the paper has none
  double ours = kNoFigure;       // NaN: it did not run, and the note says why
  double error = kNoFigure;      // standard error of ours, where that is a mean over seeds
  double deviation = kNoFigure;  // and the standard deviation over them
  std::string note;              // how it differs from the paper, or why it did not run
  bool on_request = false;       // takes long: only when its table is asked for by name
  double seconds = 0;

  double difference() const { return ours - published; }  // NaN unless both are there
  nlohmann::json json() const;                            // without the entries that are NaN
};

struct ReproduceOptions {
  std::string scale = "toy";
  std::string runs = "runs";
  std::string checkpoints;  // directory of published checkpoints; empty: the usual places
  std::string imagenet;     // folder:DIR of ImageNet's validation images
  std::string voc;          // voc:DIR of PASCAL VOC's development kit
  int64_t seeds = 0;        // of attribution's means; 0: as the scale has it
  std::string tables;       // glob: only tables with such a name
  bool fresh = false;       // measure every row of those anew
  bool list = false;        // measure nothing: what rows there are, and the figures of those that were measured
  int threads = 0;          // of all processes together (0: there is one)
  uint64_t seed = 0;
  std::function<void(const TableRow&)> on_row;
  std::function<void(const TableRow&)> on_wait;  // another process is at it

  void describe(OptionVisitor& options);
};

// A value made when it is first asked for.
template <typename T>
class Lazy {
 public:
  explicit Lazy(std::function<T()> make) : make_(std::move(make)) {}
  const T& get() {
    if (!value_) value_ = make_();
    return *value_;
  }

 private:
  std::function<T()> make_;
  std::optional<T> value_;
};

// A network that the rows need, trained by us. Its run is kept like that of any training.
struct TrainingPlan {
  std::string arch;
  std::string data;
  ModelOptions model;        // arch and classes are filled in
  int64_t limit = 0;         // training images; 0: all
  TrainingOptions training;  // runs and seed are filled in
  uint64_t seed = 0;         // added to that of the reproduction
};

// The images that it trains on.
Dataset training_data(const TrainingPlan& plan);

// For the name of a table: ", 2000 test images" where not all are taken (0).
std::string test_images_text(int64_t images);

class Reproduction {
 public:
  Reproduction(const std::string& paper, const ReproduceOptions& options, Trainer trainer);
  Reproduction(const Reproduction&) = delete;
  Reproduction& operator=(const Reproduction&) = delete;

  // The paper's rows that no other process has measured or is measuring now; those that need a network which another
  // process is training come last.
  void measure_free(const std::function<void(Reproduction&)>& paper);
  // All of its rows, in order: first those that are free, then what others were at.
  void measure_all(const std::function<void(Reproduction&)>& paper);

  const ReproduceOptions& options() const { return options_; }
  const Trainer& trainer() const { return trainer_; }
  // The value for the scale: toy, small or full.
  template <typename T>
  T at_scale(T toy, T small, T full) const {
    return options_.scale == "toy" ? toy : options_.scale == "small" ? small : full;
  }

  // `measure` gives the row's figure. Error{file} from it: the row is left out with that as its note.
  void row(TableRow row, const std::function<double()>& measure);
  // Several figures of one measurement; with standard errors.
  void rows(std::vector<TableRow> rows, const std::function<std::vector<double>()>& measure);
  void rows(std::vector<TableRow> rows, const std::function<std::vector<SeedMean>()>& measure);

  // The path of a published checkpoint by its file name. Error{file} with the places looked in.
  std::filesystem::path checkpoint(const std::string& name) const;
  Graph train(const TrainingPlan& plan) const;
  // One of each. Where another process is training one of them, the others are trained before the row is left for it.
  std::vector<Graph> train_each(const std::vector<TrainingPlan>& plans) const;
  // The plan's network on other data: a part of its data set, say.
  Graph train(const TrainingPlan& plan, const Dataset& data) const;
  // What these put together: the plan's network before training, and its options filled in.
  Graph untrained(const TrainingPlan& plan, const Dataset& data) const;
  TrainingOptions training(const TrainingPlan& plan) const;
  // A network that is trained already goes on with the plan's data and options.
  Graph finetune(const Graph& graph, const TrainingPlan& plan, const std::string& what) const;
  // A data set as the graph takes it, loaded once.
  const Dataset& data(const DataChoice& choice, const Graph& graph);
  // The metric that matters most of the data: top1, or map where it has several labels.
  double accuracy(const Graph& graph, const DataChoice& choice);

  const std::vector<TableRow>& done() const { return done_; }
  const RunDirectory& run() const { return run_; }

 private:
  enum class Pass {
    at_once,  // without rows that another process is at, or that need a network which another is training
    free,     // without rows that another process is at
    all,
  };
  void go_through(const std::function<void(Reproduction&)>& paper, Pass pass);
  bool asked_for(const std::string& table) const;  // by `tables`
  std::filesystem::path stored(const TableRow& row) const;
  // False: another process is at them, and this one does not wait.
  bool fill(std::vector<TableRow>& rows, const std::function<std::vector<SeedMean>()>& measure);
  bool restore(std::vector<TableRow>& rows) const;
  Trainer sharing(Trainer trainer) const;

  ReproduceOptions options_;
  Trainer trainer_;
  RunDirectory run_;
  Pass pass_ = Pass::all;
  bool left_ = false;      // in this pass, for a network that another process trains
  bool measured_ = false;  // in this pass
  std::map<std::filesystem::path, std::vector<TableRow>> known_;  // rows of one measurement, by the file of the first
  std::vector<TableRow> done_;
  std::map<std::string, std::unique_ptr<Dataset>> data_;
};

}  // namespace pare
