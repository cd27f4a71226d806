#include <algorithm>

#include "command.h"
#include "input.h"
#include "pare/analysis/cost.h"
#include "pare/compare.h"
#include "pare/data/data_options.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/report/record.h"
#include "pare/run.h"
#include "pare/samples/samples.h"
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
             "pare eval model.onnx small.onnx --data folder:images"},
            {"how far a small model agrees with the original, without labels",
             "pare eval model.onnx small.onnx --data folder:images --metrics agreement"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    data_.describe(options);
    options.heading("what is measured");
    options.essential().field(
        "metrics", metrics_,
        "what to report (default: top1,top5,loss; of multi-label data map,class-map,f1,macro-f1,loss; of masks "
        "miou,pixel-accuracy,mean-accuracy; of boxes box-map,box-map50,box-map75,box-recall); agreement: how far the "
        "outputs of each model are from the first one's, without labels",
        all_metrics());
    options_.describe(options);
    agreement_.describe_boxes(options);
    options.field("random", random_, "agreement: on so many random inputs instead of data");
    options.only({"box-score", "box-overlap", "random"}, {with("metrics", {"agreement"})});
    options.only({"random"}, {without("data")});
    model_options_.describe(options, {with("models", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    if (std::ranges::find(metrics_, "agreement") != metrics_.end()) return run_agreement(session, graphs);
    const Dataset data = labelled(data_.load(graphs.front()));
    say_normalization(session, models_, graphs, data.mean, data.std);
    if (data_.has_pictures()) say_pictures(session, models_, graphs, data_);
    check_metrics(data);
    Watch watch(session, "evaluating");
    const Evaluation result = evaluate(graphs, data, options_, watch);
    return report(session, graphs, data, result);
  }

 private:
  static std::vector<std::string> all_metrics() {
    std::vector<std::string> all;
    for (const LabelKind kind : {LabelKind::one_class, LabelKind::classes, LabelKind::masks, LabelKind::boxes})
      for (const auto& name : metric_names(kind))
        if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    all.emplace_back("agreement");
    return all;
  }

  bool asks_for(LabelKind kind) const {
    const auto names = metric_names(kind);
    return std::ranges::find_first_of(metrics_, names) != metrics_.end();
  }

  // By the labels that the metrics are of, where the data has several kinds.
  Dataset labelled(Dataset data) const {
    if (asks_for(LabelKind::masks)) return labelled_by(std::move(data), LabelKind::masks);
    if (asks_for(LabelKind::boxes) || !options_.decoder.empty()) return labelled_by(std::move(data), LabelKind::boxes);
    return data;
  }

  static const char* labels_of(LabelKind kind) {
    switch (kind) {
      case LabelKind::classes: return "the several labels";
      case LabelKind::masks: return "the masks";
      case LabelKind::boxes: return "the boxes";
      default: return "the single labels";
    }
  }

  void check_metrics(const Dataset& data) {
    const LabelKind kind = data.label_kind();
    const std::vector<std::string> all = metric_names(kind);
    if (options_.threshold != EvaluateOptions{}.threshold && kind != LabelKind::classes && kind != LabelKind::masks)
      throw Error(ErrorKind::usage, "--threshold", "is for data with several labels and for masks, not for {} of {}",
                  labels_of(kind), data.name);
    if (metrics_.empty()) metrics_ = all;
    for (const auto& metric : metrics_)
      if (std::find(all.begin(), all.end(), metric) == all.end())
        throw Error(ErrorKind::usage, "--metrics", "{} is not defined for {} of {}; choose from {}", metric,
                    labels_of(kind), data.name, fmt::join(all, ", "));
  }

  // --- agreement with the first model

  Samples compared_on(const Session& session, const std::vector<Graph>& graphs) const {
    if (random_ == 0) {
      const Dataset data = data_.load(graphs.front(), /*unlabelled=*/true);
      if (data_.has_pictures()) say_pictures(session, models_, graphs, data_);
      return samples_of(data, graphs.front());
    }
    const auto seed = static_cast<uint64_t>(session.common.seed);
    return {.size = random_, .inputs = [&graphs, seed](int64_t begin, int64_t end) {
              return gathered(end - begin, [&](int64_t i) {
                return random_inputs(graphs.front(), 1, seed + static_cast<uint64_t>(begin + i));
              });
            }};
  }

  nlohmann::json run_agreement(Session& session, const std::vector<Graph>& graphs) {
    if (metrics_.size() > 1)
      throw Error(ErrorKind::usage, "--metrics", "agreement stands alone: the other metrics are of labels");
    if (graphs.size() < 2)
      throw Error(ErrorKind::usage, "--metrics", "agreement is with the first model: name a second one");
    if (random_ < 0 || (random_ == 0 && data_.data.empty()))
      throw Error(ErrorKind::usage, "--random", "expected --data, or 1 or more random inputs");
    agreement_.decoder = options_.decoder;
    Watch watch(session, "comparing");
    const Samples samples = compared_on(session, graphs);
    const std::vector<Agreement> found =
        agreement(graphs.front(), {graphs.begin() + 1, graphs.end()}, samples, agreement_, watch);
    return report_agreement(session, graphs, found, samples.size);
  }

  nlohmann::json report_agreement(Session& session, const std::vector<Graph>& graphs,
                                  const std::vector<Agreement>& found, int64_t samples) const {
    std::vector<std::string> heading = {"model"};
    const auto names = agreement_names(!options_.decoder.empty());
    heading.insert(heading.end(), names.begin(), names.end());
    heading.insert(heading.end(), {"parameters", "MACs"});
    Table table(heading);
    auto list = nlohmann::json::array();
    for (size_t m = 0; m < graphs.size(); ++m) {
      const ModelCost cost = cost_of(graphs[m]);
      list.push_back(to_json(model_entry(models_[m], cost)));
      std::vector<std::string> row = {models_[m]};
      const MetricList metrics = m == 0 ? MetricList{} : metrics_of(found[m - 1]);
      for (const auto& name : names) row.push_back(m == 0 ? "-" : fmt::format("{:.4g}", metric_of(metrics, name)));
      row.insert(row.end(), {with_commas(cost.parameters), with_commas(cost.macs)});
      table.add(row);
      list.back()["metrics"] = nlohmann::json::object();
      for (const auto& [name, value] : metrics) list.back()["metrics"][name] = value;
      for (const auto& output : m == 0 ? std::vector<OutputAgreement>{} : found[m - 1].outputs)
        list.back()["outputs"].push_back({{"output", output.name},
                                          {"distance", output.distance},
                                          {"cosine", output.cosine},
                                          {"max_difference", output.largest},
                                          {"argmax", output.classes}});
      if (m > 0 && !options_.decoder.empty()) list.back()["reference_boxes"] = found[m - 1].reference_boxes;
    }
    session.print("{}\nagreement with {} on {} {}\n", table.text(), models_.front(), samples,
                  random_ > 0 ? "random inputs" : "samples of " + data_.data);
    return {{"models", list}, {"data", random_ > 0 ? "random" : data_.data}, {"samples", samples}};
  }

  // Intersection over union, or average precision, of every class that the labels have.
  static nlohmann::json by_class(const Dataset& data, const Evaluation& result, size_t model) {
    std::vector<double> values;
    if (!result.segmentation.empty()) values = result.segmentation[model].iou();
    if (!result.detection.empty()) values = result.detection[model].classes;
    nlohmann::json classes = nlohmann::json::object();
    for (size_t c = 0; c < values.size() && c < data.classes.size(); ++c)
      if (values[c] == values[c]) classes[data.classes[c]] = values[c];
    return classes;
  }

  nlohmann::json report(Session& session, const std::vector<Graph>& graphs, const Dataset& data,
                        const Evaluation& result) const {
    std::vector<std::string> heading = {"model"};
    heading.insert(heading.end(), metrics_.begin(), metrics_.end());
    heading.insert(heading.end(), {"parameters", "MACs"});
    Table table(heading);
    auto list = nlohmann::json::array();
    int64_t all_parameters = 0;
    int64_t all_macs = 0;
    for (size_t m = 0; m < graphs.size() + (options_.ensemble ? 1 : 0); ++m) {
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
      if (const nlohmann::json classes = by_class(data, result, m); !classes.empty()) list.back()["classes"] = classes;
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
  EvaluateOptions options_;
  AgreementOptions agreement_;
  int64_t random_ = 0;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_eval() { return std::make_unique<Eval>(); }

}  // namespace pare::cli
