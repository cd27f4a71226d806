#include <filesystem>

#include "command.h"
#include "input.h"
#include "pare/error.h"
#include "pare/workflow/compare.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace {

class Verify : public Command {
 public:
  std::string_view name() const override { return "verify"; }
  std::string_view summary() const override { return "Do two models give the same outputs? (exit 4 if not)"; }
  std::vector<Example> examples() const override {
    return {{"exit code 4 if any output differs", "pare verify model.onnx folded.onnx"},
            {"ONNX's own test data", "pare verify model.onnx --test-data DIR"}};
  }
  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "two models, or one with --test-data");
    model_options_.describe(options, {with("models", {"!*.onnx"})});
    options.heading("how it is compared");
    options.essential().field("samples", samples_, "random inputs to compare on");
    options.essential().field("tolerance", tolerance_, "relative tolerance; a hundredth of it is allowed absolutely");
    options.essential().field("test-data", test_data_,
                              "directory in ONNX's test-data layout (test_data_set_0/input_0.pb …)");
    options.only({"samples"}, {without("test-data")});
  }

  nlohmann::json run(Session& session) override {
    if (samples_ < 1) throw Error(ErrorKind::usage, "--samples", "expected at least 1, found {}", samples_);
    if (!(tolerance_ >= 0)) throw Error(ErrorKind::usage, "--tolerance", "expected 0 or more");
    if (models_.size() != (test_data_.empty() ? 2 : 1))
      throw Error(ErrorKind::usage, "verify", "expected two models, or one model and --test-data; found {} models",
                  models_.size());
    const Tolerance tolerance{.relative = tolerance_, .absolute = tolerance_ * 1e-2};
    const auto differences = test_data_.empty() ? compare(session, tolerance)
                                                : check_test_data(read_model(session, models_[0], model_options_).graph,
                                                                  test_data_, tolerance);
    Table table({"output", "largest difference", "relative", "outside tolerance", "verdict"});
    auto list = nlohmann::json::array();
    std::string failure;
    for (const auto& d : differences) {
      if (d.nan > 0)
        session.say("note: output '{}': {} of {} numbers are NaN in both{}\n", d.name, d.nan, d.elements,
                    d.nan == d.elements ? ", which says nothing of whether the models are the same" : "");
      table.add({d.name, fmt::format("{:.3g}", d.largest), fmt::format("{:.3g}", d.relative_to_largest),
                 std::to_string(d.outside), d.problem.empty() ? (d.ok() ? "same" : "differs") : d.problem});
      list.push_back({{"output", d.name},
                      {"largest", d.largest},
                      {"relative", d.relative_to_largest},
                      {"outside", d.outside},
                      {"nan", d.nan},
                      {"same", d.ok()},
                      {"problem", d.problem}});
      if (!d.ok() && failure.empty())
        failure = fmt::format(
            "output '{}' differs: {}", d.name,
            d.problem.empty()
                ? fmt::format("{} elements outside the tolerance, largest difference {:.3g}", d.outside, d.largest)
                : d.problem);
    }
    session.print("{}", table.text());
    nlohmann::json result = {{"same", failure.empty()}, {"outputs", list}};
    if (failure.empty()) return result;
    session.found = std::move(result);
    throw Error(ErrorKind::verification, models_.back(), failure);
  }

 private:
  std::vector<Difference> compare(Session& session, const Tolerance& tolerance) const {
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    return verify(graphs[0], graphs[1],
                  {.tolerance = tolerance, .samples = samples_, .seed = static_cast<uint64_t>(session.common.seed)})
        .outputs;
  }

  std::vector<std::string> models_;
  ModelOptions model_options_;
  int64_t samples_ = 4;
  double tolerance_ = 1e-3;
  std::string test_data_;
};

}  // namespace

std::unique_ptr<Command> make_verify() { return std::make_unique<Verify>(); }

}  // namespace pare::cli
