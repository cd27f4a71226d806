#include <algorithm>

#include "command.h"
#include "input.h"
#include "pare/analysis/cost.h"
#include "pare/data/data_options.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/report/record.h"
#include "pare/zoo/model.h"
#include "watch.h"

namespace pare::cli {

namespace {

class Eval : public Command {
 public:
  std::string_view name() const override { return "eval"; }
  std::string_view summary() const override { return "Accuracy of one or several models on a data set"; }
  std::vector<Example> examples() const override {
    return {{"accuracy of two models on pictures in one directory per class",
             "pare eval model.onnx small.onnx --data folder:images"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    data_.describe(options);
    options.heading("what is measured");
    options.essential().field(
        "metrics", metrics_,
        "what to report (default: top1,top5,loss; of multi-label data map,class-map,f1,macro-f1,loss)",
        {"top1", "top5", "loss", "map", "class-map", "f1", "macro-f1"});
    options.field("threshold", threshold_, "f1: a class is predicted where its logit is at least this");
    options.field("batch", batch_, "images that run at once, at most");
    options.essential().field("ensemble", ensemble_, "add the average of the models' predictions");
    model_options_.describe(options, {with("models", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if (batch_ < 1) throw Error(ErrorKind::usage, "--batch", "expected at least 1, found {}", batch_);
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    const Dataset data = data_.load(graphs.front());
    say_normalization(session, models_, graphs, data.mean, data.std);
    if (data_.has_pictures()) say_pictures(session, models_, graphs, data_);
    const std::vector<std::string> all = metric_names(data.multi_label());
    if (threshold_ != EvaluateOptions{}.threshold && !data.multi_label())
      throw Error(ErrorKind::usage, "--threshold", "is for data with several labels, {} has one for each image",
                  data.name);
    if (metrics_.empty()) metrics_ = all;
    for (const auto& metric : metrics_)
      if (std::find(all.begin(), all.end(), metric) == all.end())
        throw Error(ErrorKind::usage, "--metrics", "{} is not defined for the {}-label {}; choose from {}", metric,
                    data.multi_label() ? "multi" : "single", data.name, fmt::join(all, ", "));
    Watch watch(session, "evaluating");
    const Evaluation result =
        evaluate(graphs, data, {.batch = batch_, .ensemble = ensemble_, .threshold = threshold_}, watch);
    return report(session, graphs, data, result);
  }

 private:
  nlohmann::json report(Session& session, const std::vector<Graph>& graphs, const Dataset& data,
                        const Evaluation& result) const {
    std::vector<std::string> heading = {"model"};
    heading.insert(heading.end(), metrics_.begin(), metrics_.end());
    heading.insert(heading.end(), {"parameters", "MACs"});
    Table table(heading);
    auto list = nlohmann::json::array();
    int64_t all_parameters = 0;
    int64_t all_macs = 0;
    for (size_t m = 0; m < graphs.size() + (ensemble_ ? 1 : 0); ++m) {
      const bool is_ensemble = m >= graphs.size();
      const ModelCost cost =
          is_ensemble ? ModelCost{.parameters = all_parameters, .macs = all_macs} : cost_of(graphs[m]);
      all_parameters += cost.parameters;
      all_macs += cost.macs;
      const std::string name = is_ensemble ? "ensemble" : models_[m];
      std::vector<std::string> row = {name};
      nlohmann::json metrics;
      for (const auto& [metric, value] : metrics_of(result, m))
        if (std::find(metrics_.begin(), metrics_.end(), metric) != metrics_.end()) metrics[metric] = value;
      for (const auto& metric : metrics_) row.push_back(fmt::format("{:.4f}", metrics[metric].get<double>()));
      row.insert(row.end(), {with_commas(cost.parameters), with_commas(cost.macs)});
      table.add(row);
      ModelEntry entry = model_entry(name, cost);
      if (is_ensemble) entry.bytes.reset();
      list.push_back(to_json(entry));
      list.back()["metrics"] = metrics;
    }
    const double rate = static_cast<double>(result.samples) / result.seconds;
    session.print("{}\n{} of {}, {} images in {:.2f} s ({:.0f} images/s)\n", table.text(), data.split, data.name,
                  result.samples, result.seconds, rate);
    return {{"models", list},
            {"data", data.name},
            {"split", data.split},
            {"samples", result.samples},
            {"seconds", result.seconds},
            {"images_per_second", rate},
            {"mean", data.mean},
            {"std", data.std}};
  }

  std::vector<std::string> models_;
  DataChoice data_;
  std::vector<std::string> metrics_;
  double threshold_ = 0.5;
  int64_t batch_ = 1000;
  bool ensemble_ = false;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_eval() { return std::make_unique<Eval>(); }

}  // namespace pare::cli
