#include "pare/workflow/distill.h"

#include <chrono>

#include "command.h"
#include "drift.h"
#include "input.h"
#include "metrics.h"
#include "output.h"
#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "training.h"

namespace pare::cli {

namespace {

class Distill : public Command {
 public:
  std::string_view name() const override { return "distill"; }
  std::string_view summary() const override {
    return "Train a smaller model that learns from a teacher, and looks where it looks";
  }
  std::vector<Example> examples() const override {
    return {{"a quarter of the width, looking where the teacher looks",
             "pare distill --teacher model.onnx --arch vgg9-bn --width 0.25 --data scenes --match sswa --epochs 30 -o "
             "student.onnx"}};
  }
  Ranks ranks() const override { return Ranks::together; }

  void describe(OptionVisitor& options) override {
    options.heading("teacher and student");
    options.essential().field("teacher", teacher_, "the trained model: an ONNX file, or weights with --teacher-arch");
    options.field("teacher-arch", teacher_arch_, "architecture of a teacher whose file holds only weights");
    options.field("teacher-width", teacher_width_, "its width multiplier");
    options.essential().field("student", student_, "model to train; without one --arch starts from its initial values");
    model_options_.describe(options, {with("student", {"!*.onnx"})});
    options.only({"teacher-arch"}, {with("teacher", {"!*.onnx"})});
    options.only({"teacher-width"}, {with("teacher-arch")});
    data_.describe(options);
    options.heading("output");
    options.essential().field("output", output_, "file to write: .onnx or .safetensors");
    distill_.describe(options);
    training_.describe(options);
    drift_.describe(options);
    written_.describe(options);
  }

  nlohmann::json run(Session& session) override {
    const auto start = std::chrono::steady_clock::now();
    if (output_.empty()) throw Error(ErrorKind::usage, "--output", "name the file to write");
    if (teacher_.empty()) throw Error(ErrorKind::usage, "--teacher", "name the trained model to learn from");
    if (student_.empty() && model_options_.arch.empty())
      throw Error(ErrorKind::usage, "--arch", "name an architecture for the student, or a model by --student");
    distill_.check();
    training_.train.seed = static_cast<uint64_t>(session.common.seed);
    const Model teacher = load_teacher(session);
    drift_.check(teacher.graph, data_);
    const auto [model, data] = load_for_training(session, student_, model_options_, data_);
    drift_.check_compared(model.graph);
    TrainingJob job{.kind = "distill"};
    // A run that is done already may find its own output (write_trained).
    job.begin = [&](bool done) { check_output(output_, written_.save(done || session.common.force)); };
    const TrainingOutcome outcome = distill({teacher.graph, model.graph, distill_}, data, training_,
                                            trainer_with_feedback(session), std::move(job));
    write_trained(session, outcome, output_, {teacher_, student_}, written_.save(session.common.force));
    if (!session.ranks.main()) return {};
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    nlohmann::json document = report(session, teacher.graph, outcome, seconds.count());
    drift_.report(session, teacher.graph, outcome.graph, document);
    return document;
  }

 private:
  // Both networks see the images as the teacher learned them.
  Model load_teacher(Session& session) {
    ModelOptions options = model_options_;
    options.arch = teacher_arch_;
    options.width = teacher_width_;
    Model model = read_model(session, teacher_, options);
    if (data_.mean.empty()) data_.mean = stored_values(model.graph, "pare.mean");
    if (data_.std.empty()) data_.std = stored_values(model.graph, "pare.std");
    if (data_.preprocess.empty() && data_.has_pictures()) data_.preprocess = stored_preprocess(model.graph);
    if (data_.has_pictures()) say_pictures(session, {teacher_}, {model.graph}, data_);
    return model;
  }

  nlohmann::json report(Session& session, const Graph& teacher, const TrainingOutcome& outcome, double seconds) const {
    const std::vector<Graph> graphs = {teacher, outcome.graph};
    const std::vector<std::string> names = {teacher_, output_};
    const auto metrics = test_metrics(data_, graphs);
    std::vector<std::string> heading = {"model", "parameters", "MACs"};
    if (!metrics.empty())
      for (const auto& [name, value] : metrics[0]) heading.push_back(name);
    Table table(heading);
    auto entries = nlohmann::json::array();
    for (size_t m = 0; m < graphs.size(); ++m) {
      const ModelCost cost = cost_of(graphs[m]);
      nlohmann::json entry = to_json(model_entry(names[m], cost, metrics.empty() ? MetricList{} : metrics[m]));
      std::vector<std::string> row = {names[m], with_commas(cost.parameters), with_commas(cost.macs)};
      if (!metrics.empty()) {
        for (const auto& [name, value] : metrics[m]) row.push_back(fmt::format("{:.4f}", value));
      }
      table.add(row);
      entries.push_back(entry);
    }
    session.print("{}", table.text());
    auto history = nlohmann::json::array();
    for (const auto& epoch : outcome.state.history) history.push_back(to_json(epoch));
    return {{"before", entries[0]},
            {"after", entries[1]},
            {"match", distill_.match},
            {"run", outcome.run.path.string()},
            {"resumed_at", outcome.resumed_at},
            {"history", history},
            {"splits", splits_json(training_.validation)},
            {"seconds", {{"total", seconds}}}};
  }

  std::string teacher_;
  std::string teacher_arch_;
  double teacher_width_ = 1;
  std::string student_;
  ModelOptions model_options_;
  DataChoice data_{.split = "train"};
  std::string output_;
  DistillationOptions distill_;
  TrainingOptions training_;
  DriftMetric drift_;
  OutputOptions written_;
};

}  // namespace

std::unique_ptr<Command> make_distill() { return std::make_unique<Distill>(); }

}  // namespace pare::cli
