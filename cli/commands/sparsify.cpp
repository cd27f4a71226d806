#include <chrono>

#include "command.h"
#include "drift.h"
#include "metrics.h"
#include "output.h"
#include "pare/analysis/cost.h"
#include "pare/core/file.h"
#include "pare/data/data_options.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/samples/samples.h"
#include "pare/workflow/sparsifier_traits.h"
#include "pare/workflow/sparsify.h"
#include "pare/zoo/model.h"
#include "training.h"
#include "watch.h"

namespace pare::cli {

namespace {

class Sparsify : public Command {
 public:
  std::string_view name() const override { return "sparsify"; }
  std::string_view summary() const override {
    return "Find a sparse network: masks over weights, by training or from a few unlabelled images";
  }
  std::vector<Example> examples() const override {
    return {{"zeros in a trained model",
             "pare sparsify model.onnx --data cifar10 --method magnitude --sparsity 0.8 --finetune 3 -o sparse.onnx"},
            {"continuous sparsification from the start",
             "pare sparsify --arch lenet-300-100 --data fashion-mnist --method cs --finetune 4 -o sparse.onnx"}};
  }
  Ranks ranks() const override { return Ranks::together; }

  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "a trained model; without one --arch starts from its initial values", false);
    model_options_.describe(options, {with("model", {"!*.onnx"})});
    data_.describe(options);
    options.heading("output");
    options.essential().field("output", output_, "file to write: .onnx or .safetensors, with exact zeros");
    options.essential().field("masks", masks_, "also write the masks, one bit per weight, into this .safetensors file");
    sparsify_.describe(options);
    drift_.describe(options);
    written_.describe(options);
    options.only({"rewind"}, {without("method", {"cs"})});  // only tickets begin with early weights
    // Methods that remove at once train nothing but the fine-tuning of a trained model, which has a rate of its own.
    const OptionScope trains = {without("method", sparsifiers_with(&SparsifierTraits::at_once)), without("model")};
    options.only({"epochs", "lr"}, trains);
    TrainingOptions training;
    for (const auto& name : described_names([&](OptionVisitor& visitor) { training.describe(visitor); }))
      options.only({name}, {trains[0], trains[1], with("finetune")});
  }

  nlohmann::json run(Session& session) override {
    const auto start = std::chrono::steady_clock::now();
    if (output_.empty()) throw Error(ErrorKind::usage, "--output", "name the file to write");
    if (model_.empty() && model_options_.arch.empty())
      throw Error(ErrorKind::usage, "--arch", "name a model, or an architecture to train from its initial values");
    check_output(output_, written_.save(session.common.force));
    if (!masks_.empty()) check_writable(masks_, session.common.force);
    sparsify_.training.train.seed = static_cast<uint64_t>(session.common.seed);
    sparsify_.check(!model_.empty());
    const bool one_shot = is_one_shot(sparsify_.method);
    const auto [model, data] =
        load_for_training(session, model_, model_options_, data_, one_shot && sparsify_.finetune == 0);
    labelled_ = !data.unlabelled;
    drift_.check(model.graph, data_);
    const auto method_start = std::chrono::steady_clock::now();
    SparsifyResult result =
        one_shot ? in_one_shot(session, model.graph, data)
                 : sparsify(model.graph, !model_.empty(), data, sparsify_, trainer_with_feedback(session));
    const std::chrono::duration<double> method_seconds = std::chrono::steady_clock::now() - method_start;
    for (const auto& note : result.notes) session.say("note: {}\n", note);
    data_.keep_asked(result.graph);
    write_model(session, result.graph, output_, {model_}, written_.save(session.common.force));
    if (!session.ranks.main()) return {};
    if (!masks_.empty())
      write_masks(masks_, {.masks = result.masks, .recipe = json_text(portable_recipe(session.recipe))});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    nlohmann::json document = report(session, model.graph, result);
    document["seconds"] = {{"total", seconds.count()}, {"method", method_seconds.count()}};
    drift_.report(session, result.dense ? *result.dense : model.graph, result.graph, document);
    return document;
  }

 private:
  SparsifyResult in_one_shot(Session& session, const Graph& graph, const Dataset& data) const {
    Watch watch(session, "sparsifying");
    return sparsify(graph, {samples_of(data, graph), data}, sparsify_, trainer_with_feedback(session), watch);
  }

  nlohmann::json report(Session& session, const Graph& before, const SparsifyResult& result) const {
    std::vector<Graph> graphs = {before};
    for (const auto& round : result.rounds) graphs.push_back(round.graph);
    const auto metrics = labelled_ ? test_metrics(data_, graphs) : std::vector<MetricList>{};
    std::vector<std::string> heading = {"network", "sparsity", "of all parameters", "epochs"};
    if (!metrics.empty())
      for (const auto& [name, value] : metrics[0]) heading.push_back(name);
    Table table(heading);
    nlohmann::json json = {
        {"rounds", nlohmann::json::array()}, {"groups", nlohmann::json::array()}, {"output", output_}};
    json["splits"] = splits_json(sparsify_.keeps_last() && sparsify_.finetune == 0 ? 0 : sparsify_.training.validation);
    json["removed"] = result.removed;
    if (const auto asked = sparsify_.asked()) json["asked"] = *asked;
    json["notes"] = with_flags(result.notes);
    const auto add = [&](const std::string& name, const SparsityReport& sparsity, int64_t epochs, size_t at) {
      const ModelCost cost = cost_of(graphs[at]);
      nlohmann::json entry = {{"name", name},
                              {"sparsity", sparsity.over_masked()},
                              {"sparsity_all", sparsity.over_parameters()},
                              {"kept", sparsity.masked_kept},
                              {"masked", sparsity.masked_total},
                              {"parameters", cost.parameters},
                              {"macs", cost.macs},
                              {"macs_at", macs_at(cost)},
                              {"epochs", epochs}};
      std::vector<std::string> row = {name, fmt::format("{:.2f} %", 100 * sparsity.over_masked()),
                                      fmt::format("{:.2f} %", 100 * sparsity.over_parameters()),
                                      std::to_string(epochs)};
      if (!metrics.empty())
        for (const auto& [metric, value] : metrics[at]) {
          entry["metrics"][metric] = value;
          row.push_back(fmt::format("{:.4f}", value));
        }
      table.add(row);
      return entry;
    };
    json["before"] = add("before", {}, 0, 0);
    for (size_t r = 0; r < result.rounds.size(); ++r)
      json["rounds"].push_back(add(result.rounds[r].name, result.rounds[r].sparsity, result.rounds[r].epochs, r + 1));
    json["after"] = json["rounds"].back();
    for (const auto& layer : result.rounds.back().sparsity.layers)
      json["groups"].push_back({{"name", layer.name}, {"kept", layer.kept}, {"total", layer.total}});
    for (const auto& group : result.channels)
      json["groups"].push_back({{"name", group.name}, {"kept", group.kept}, {"total", group.total}});
    session.print("{}", table.text());
    return json;
  }

  std::string model_;
  ModelOptions model_options_;
  DataChoice data_{.split = "train"};
  std::string output_;
  std::string masks_;
  bool labelled_ = true;
  SparsifyOptions sparsify_;
  DriftMetric drift_;
  OutputOptions written_;
};

}  // namespace

std::unique_ptr<Command> make_sparsify() { return std::make_unique<Sparsify>(); }

}  // namespace pare::cli
