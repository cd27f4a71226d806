#include "pare/workflow/localize.h"
#include "command.h"
#include "input.h"
#include "metrics.h"
#include "pare/data/data_options.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace {

class Localize : public Command {
 public:
  std::string_view name() const override { return "localize"; }
  std::string_view summary() const override { return "How well models' attribution maps find the objects, by masks"; }
  std::vector<Example> examples() const override {
    return {{"do the maps find the objects?",
             "pare localize model.onnx small.onnx --data voc:VOCdevkit --split segmentation"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    data_.describe(options);
    attribution_.describe(options);
    options.heading("what is measured");
    options.field("tolerance", tolerance_, "point accuracy: pixels by which the maximum may miss the object");
    options.field("threshold", threshold_, "f1: a class is predicted where its logit is at least this");
    options.field("batch", batch_, "images explained at once");
    model_options_.describe(options, {with("models", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if (batch_ < 1) throw Error(ErrorKind::usage, "--batch", "expected at least 1, found {}", batch_);
    attribution_.check();
    attribution_.seed = static_cast<uint64_t>(session.common.seed);
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    const Dataset data = data_.load(graphs.front());
    say_normalization(session, models_, graphs, data.mean, data.std);
    if (data_.has_pictures()) say_pictures(session, models_, graphs, data_);
    Progress bar("localizing", session.common.verbosity());
    const LocalizeResult result = localize(graphs, data,
                                           {.attribution = attribution_,
                                            .tolerance = tolerance_,
                                            .threshold = threshold_,
                                            .batch = batch_,
                                            .names = models_,
                                            .progress = [&](int64_t done, int64_t all) { bar.update(done, all); }});
    return report(session, data, result);
  }

 private:
  static std::string number(double value) { return fmt::format("{:.4f}", value); }

  nlohmann::json report(Session& session, const Dataset& data, const LocalizeResult& result) const {
    Table table({"model", "map", "f1", "auc", "point", "auc all", "point all", "auc first", "point first", "mass",
                 "rank", "cosine", "spearman"});
    auto list = nlohmann::json::array();
    for (size_t m = 0; m < result.models.size(); ++m) {
      const Localization& l = result.models[m];
      table.add({models_[m], number(l.classification.sample_precision), number(l.classification.f1),
                 number(l.predicted.auc.mean()), number(l.predicted.point.mean()), number(l.present.auc.mean()),
                 number(l.present.point.mean()), number(l.shared.auc.mean()), number(l.shared.point.mean()),
                 number(l.present.mass.mean()), number(l.present.rank.mean()), number(l.cosine.mean()),
                 number(l.rank_correlation.mean())});
      nlohmann::json entry = {{"model", models_[m]},
                              {"layer", l.layer},
                              {"metrics", metrics_json(metrics_of(l.classification))},
                              {"predicted", pairs(l.predicted)},
                              {"present", pairs(l.present)},
                              {"predicted_by_first", pairs(l.shared)},
                              {"cosine", l.cosine.mean()},
                              {"rank_correlation", l.rank_correlation.mean()}};
      if (l.conservation_error.counted > 0) entry["conservation_error"] = l.conservation_error.mean();
      list.push_back(entry);
      say_empty_maps(session, models_[m],
                     {.maps = l.present.pairs, .zero = l.present.zero_maps, .nan = l.present.nan_maps},
                     "an AUC of 0.5, pointing at the corner", "left out");
    }
    session.print("{}\n{} of {}, {} at {}: {} pairs of {} images in {:.2f} s\n", table.text(), data.split, data.name,
                  attribution_.method, result.models.front().layer, with_commas(result.pairs),
                  with_commas(result.samples), result.seconds);
    session.print(
        "auc and point: classes present and predicted; all: every class present; first: those that the first model "
        "predicts, the same for all; cosine and spearman: to the first model's maps\n");
    for (size_t m = 0; m < result.models.size(); ++m)
      if (const auto& error = result.models[m].conservation_error; error.counted > 0)
        say_relevance(session, models_[m], error.mean(), "in the mean");
    return {{"models", list},
            {"data", data.name},
            {"split", data.split},
            {"method", attribution_.method},
            {"samples", result.samples},
            {"pairs", result.pairs},
            {"seconds", result.seconds}};
  }

  static nlohmann::json pairs(const LocalizationMetrics& l) {
    return {{"auc", l.auc.mean()},    {"point", l.point.mean()},
            {"mass", l.mass.mean()},  {"rank", l.rank.mean()},
            {"pairs", l.pairs},       {"zero_maps", l.zero_maps},
            {"nan_maps", l.nan_maps}, {"undefined_auc", l.auc.undefined}};
  }

  std::vector<std::string> models_;
  DataChoice data_;
  AttributionOptions attribution_;
  double tolerance_ = 0;
  double threshold_ = 0.5;
  int64_t batch_ = 32;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_localize() { return std::make_unique<Localize>(); }

}  // namespace pare::cli
