#include "command.h"
#include "input.h"
#include "output.h"
#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "pare/passes/bind_inputs.h"
#include "pare/passes/fold_batch_norm.h"
#include "pare/passes/run_pass.h"
#include "pare/passes/simplify.h"
#include "pare/report/record.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace {

class Convert : public Command {
 public:
  std::string_view name() const override { return "convert"; }
  std::string_view summary() const override { return "Any input format to .onnx or .safetensors"; }
  std::vector<Example> examples() const override {
    return {{"weights to ONNX, batch norms folded",
             "pare convert weights.pth --arch resnet20 --fold-batch-norm -o model.onnx"},
            {"an input that is always the same, and the branch that it takes",
             "pare convert model.onnx --bind sr=16000 -o bound.onnx"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch", false);
    options.heading("output");
    options.essential().field("output", output_, "file to write, .onnx or .safetensors");
    model_options_.describe(options, {with("model", {"!*.onnx"})});
    written_.describe(options);
    options.heading("output");
    options.essential().field("fold-batch-norm", fold_, "fold each batch norm into the layer before it");
    options.field("bind", bind_,
                  "NAME=NUMBER: make inputs that are always the same constants, and what they decide with them");
  }

  nlohmann::json run(Session& session) override {
    if (output_.empty()) throw Error(ErrorKind::usage, "-o", "name the file to write");
    check_output(output_, written_.save(session.common.force));
    Model model = read_model(session, model_, model_options_);
    if (fold_) model.graph = run_pass("fold_batch_norm", fold_batch_norm, model.graph);
    if (!bind_.empty()) {
      const auto bind = [&](const Graph& graph) { return bind_inputs(graph, bind_); };
      model.graph = run_pass("simplify", simplify, run_pass("bind_inputs", bind, model.graph));
    }
    const auto notes = write_model(session, model.graph, output_, {model_}, written_.save(session.common.force));
    const ModelCost cost = cost_of(model.graph);
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(output_));
    session.print("{}: {} nodes, {} parameters, {} bytes\n", output_, model.graph.nodes.size(),
                  with_commas(cost.parameters), with_commas(bytes));
    return {{"output", output_}, {"nodes", model.graph.nodes.size()}, {"parameters", cost.parameters},
            {"macs", cost.macs}, {"macs_at", macs_at(cost)},          {"file_bytes", bytes},
            {"notes", notes}};
  }

 private:
  std::string model_;
  std::string output_;
  ModelOptions model_options_;
  OutputOptions written_;
  bool fold_ = false;
  std::vector<std::string> bind_;
};

}  // namespace

std::unique_ptr<Command> make_convert() { return std::make_unique<Convert>(); }

}  // namespace pare::cli
