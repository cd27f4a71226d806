#include "experiments/roar.h"

#include <chrono>

#include "command.h"
#include "input.h"
#include "metrics.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/report/line_plot.h"
#include "training.h"

namespace pare::cli {

namespace {

class RoarCommand : public Command {
 public:
  std::string_view name() const override { return "roar"; }
  std::string_view summary() const override {
    return "Remove the pixels that models' maps name, retrain, and see how much was lost";
  }
  std::vector<Example> examples() const override {
    return {{"what is lost without the pixels that the maps name",
             "pare roar model.onnx small.onnx --data scenes --limit 5000 --epochs 8 --plot roar.svg"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    data_.describe(options);
    options.heading("remove and retrain");
    options.essential().field("retrain", retrain_, "architecture that is trained on what is left");
    options.field("retrain-width", retrain_width_, "its width multiplier");
    options.essential().field("plot", plot_, "FILE.svg: the curves");
    options_.describe(options);
    model_options_.describe(options, {with("models", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    const auto start = std::chrono::steady_clock::now();
    options_.check();
    check_training_split(data_);
    if (!plot_.empty()) check_writable(plot_, session.common.force);
    const auto seed = static_cast<uint64_t>(session.common.seed);
    options_.attribution.seed = options_.training.train.seed = seed;
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    std::vector<std::pair<std::string, Graph>> models;
    for (size_t i = 0; i < graphs.size(); ++i) models.emplace_back(models_[i], graphs[i]);
    const Dataset train = data_.load(graphs.front());
    say_normalization(session, models_, graphs, train.mean, train.std);
    DataChoice choice = data_;
    choice.split = "test";
    choice.limit = 0;
    const Dataset test = choice.load(graphs.front());
    const auto classifier = [&](uint64_t own_seed) { return fresh(train, own_seed); };
    const RoarResult result = roar(models, {train, test, classifier}, options_, trainer_with_feedback(session));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return report(session, result, seconds.count());
  }

 private:
  Graph fresh(const Dataset& data, uint64_t seed) const {
    ModelOptions options;
    options.arch = retrain_;
    options.width = retrain_width_;
    options.image = {data.channels(), data.height(), data.width()};
    options.classes = static_cast<int64_t>(data.classes.size());
    return load_model("", options, seed).graph;
  }

  nlohmann::json report(Session& session, const RoarResult& result, double seconds) const {
    const double whole = mean_of(result.whole, result.metric).mean;
    std::vector<std::string> heading = {"maps of"};
    for (const double level : options_.levels) heading.push_back(fmt::format("{:.0f} %", 100 * level));
    heading.insert(heading.end(), {"mean", "below random", "from the first"});
    Table table(heading);
    LinePlot plot{.title = "Remove and retrain", .x = "part of the pixels removed", .y = result.metric};
    const auto random = result.curves.back().means(result.metric), first = result.curves.front().means(result.metric);
    auto curves = nlohmann::json::array();
    for (const auto& curve : result.curves) {
      const auto values = curve.means(result.metric);
      double mean = 0, below = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        mean += values[i] / static_cast<double>(values.size());
        below += (random[i] - values[i]) / static_cast<double>(values.size());
      }
      const double distance = curve_distance(values, first);
      std::vector<std::string> row = {curve.name};
      std::vector<double> errors;
      for (const auto& figure : curve.figures(result.metric)) {
        row.push_back(text_of(figure));
        errors.push_back(figure.error);
      }
      for (const double value : {mean, below, distance}) row.push_back(fmt::format("{:.4f}", value));
      table.add(row);
      auto points = nlohmann::json::array();
      for (const auto& point : curve.points) points.push_back(metrics_json(means_of(point)));
      curves.push_back({{"maps", curve.name},
                        {"points", points},
                        {"mean", mean},
                        {"below_random", below},
                        {"distance_to_first", distance},
                        {"zero_maps", curve.counts.zero},
                        {"nan_maps", curve.counts.nan}});
      if (options_.seeds > 1) curves.back()["standard_errors"] = errors;
      constexpr std::string_view ties = "the pixels of their images go from the top";
      say_empty_maps(session, curve.name, curve.counts, ties, ties);
      LineSeries series{.name = curve.name, .x = options_.levels, .y = values};
      series.x.insert(series.x.begin(), 0.0);
      series.y.insert(series.y.begin(), whole);
      plot.series.push_back(std::move(series));
    }
    if (!plot_.empty()) write_file_atomically(plot_, [&](std::ostream& out) { out << to_svg(plot); });
    session.print("{} of {} trained on what is left; {:.4f} with nothing removed\n{}", result.metric, retrain_, whole,
                  table.text());
    nlohmann::json document = {{"metric", result.metric},
                               {"levels", options_.levels},
                               {"curves", curves},
                               {"whole", metrics_json(means_of(result.whole))},
                               {"method", options_.attribution.method},
                               {"seconds", seconds}};
    if (!plot_.empty()) document["plot"] = plot_;
    return document;
  }

  std::vector<std::string> models_;
  DataChoice data_{.split = "train"};
  std::string retrain_ = "vgg9-bn";
  double retrain_width_ = 0.5;
  std::string plot_;
  RoarOptions options_;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_roar() { return std::make_unique<RoarCommand>(); }

}  // namespace pare::cli
