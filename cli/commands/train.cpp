#include <chrono>

#include "command.h"
#include "output.h"
#include "pare/analysis/cost.h"
#include "pare/data/data_options.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/report/record.h"
#include "pare/workflow/train.h"
#include "pare/zoo/model.h"
#include "training.h"

namespace pare::cli {

namespace {

class Train : public Command {
 public:
  std::string_view name() const override { return "train"; }
  std::string_view summary() const override { return "Train an architecture, or fine-tune a model, on a data set"; }
  std::vector<Example> examples() const override {
    return {{"an architecture from the start",
             "pare train --arch resnet20 --data cifar10 --epochs 30 --batch 128 --lr 0.4 --augment standard -o "
             "resnet20.onnx"},
            {"fine-tune a model",
             "pare train --model slim.onnx --data folder:images --epochs 2 --lr 0.01 --validation 0.1 -o tuned.onnx"}};
  }
  Ranks ranks() const override { return Ranks::together; }

  void describe(OptionVisitor& options) override {
    options.heading("model");
    options.essential().field("model", model_, "fine-tune this model instead of an architecture's initial values");
    model_options_.describe(options, {with("model", {"!*.onnx"})});
    data_.describe(options);
    options.heading("output");
    options.essential().field("output", output_, "file to write: .onnx or .safetensors");
    training_.describe(options);
    written_.describe(options);
  }

  nlohmann::json run(Session& session) override {
    const auto start = std::chrono::steady_clock::now();
    if (output_.empty()) throw Error(ErrorKind::usage, "--output", "name the file to write");
    if (model_.empty() && model_options_.arch.empty())
      throw Error(ErrorKind::usage, "--arch", "name an architecture, or a model to fine-tune by --model");
    training_.train.seed = static_cast<uint64_t>(session.common.seed);
    const auto [model, data] = load_for_training(session, model_, model_options_, data_);
    // A run that is done already may find its own output (write_trained).
    TrainingJob job;
    job.begin = [&](bool done) { check_output(output_, written_.save(done || session.common.force)); };
    const TrainingOutcome outcome = train_with_feedback(session, model.graph, data, training_, std::move(job));
    write_trained(session, outcome, output_, {model_}, written_.save(session.common.force));
    if (!session.ranks.main()) return {};
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return report(session, outcome, seconds.count());
  }

 private:
  nlohmann::json report(Session& session, const TrainingOutcome& outcome, double seconds) const {
    const ModelCost cost = cost_of(outcome.graph);
    const auto& history = outcome.state.history;
    nlohmann::json result = {{"output", output_},
                             {"run", outcome.run.path.string()},
                             {"epochs", history.size()},
                             {"steps", outcome.state.step},
                             {"resumed_at", outcome.resumed_at},
                             {"parameters", cost.parameters},
                             {"macs", cost.macs},
                             {"macs_at", macs_at(cost)},
                             {"history", nlohmann::json::array()},
                             {"seconds", {{"total", seconds}}}};
    double training = 0;
    for (const auto& epoch : history) {
      result["history"].push_back(to_json(epoch));
      training += epoch.seconds;
    }
    result["seconds"]["training"] = training;
    result["splits"] = splits_json(training_.validation);
    std::vector<std::string> heading = {"model"};
    std::vector<std::string> row = {output_};
    for (const auto& metrics : test_metrics(data_, {outcome.graph}))
      for (const auto& [name, value] : metrics) {
        result["metrics"][name] = value;
        heading.push_back(name);
        row.push_back(fmt::format("{:.4f}", value));
      }
    heading.insert(heading.end(), {"parameters", "MACs", "training"});
    row.insert(row.end(), {with_commas(cost.parameters), with_commas(cost.macs),
                           fmt::format("{} epochs, {:.1f} s", history.size(), training)});
    Table table(heading);
    table.add(row);
    session.print("{}", table.text());
    return result;
  }

  std::string model_;
  ModelOptions model_options_;
  DataChoice data_{.split = "train"};
  std::string output_;
  TrainingOptions training_;
  OutputOptions written_;
};

}  // namespace

std::unique_ptr<Command> make_train() { return std::make_unique<Train>(); }

}  // namespace pare::cli
