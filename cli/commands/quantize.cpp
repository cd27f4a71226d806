#include "pare/workflow/quantize.h"

#include <filesystem>

#include "command.h"
#include "input.h"
#include "metrics.h"
#include "output.h"
#include "pare/error.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace {

class Quantize : public Command {
 public:
  std::string_view name() const override { return "quantize"; }
  std::string_view summary() const override {
    return "Store weights and activations as 8-bit integers (or weights as 4-bit ones), from a few unlabelled images";
  }
  std::vector<Example> examples() const override {
    return {{"8-bit weights and activations, from unlabelled images",
             "pare quantize model.onnx --data folder:images -o int8.onnx"},
            {"4-bit weights alone", "pare quantize model.onnx --weights int4 --activations none -o int4.onnx"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch", false);
    options.heading("output");
    options.essential().field("output", output_, "file to write, .onnx");
    job_.describe(options);
    options.heading("output");
    options.essential().field("scan", scan_, "instead, say what each layer alone costs the network's answer");
    options.only({"output", "compensate", "max-drop"}, {without("scan")});
    written_.describe(options);
    model_options_.describe(options, {with("model", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    job_.check();
    if (scan_ == !output_.empty())
      throw Error(ErrorKind::usage, "-o", "name the file to write with -o, or ask for --scan");
    if (!scan_ && std::filesystem::path(output_).extension() != ".onnx")
      throw Error(ErrorKind::usage, "-o", "{}: integers and their scales are written as .onnx", output_);
    if (!scan_) check_output(output_, written_.save(session.common.force));
    const Model model = read_model(session, model_, model_options_);
    if (job_.data.has_pictures()) say_pictures(session, {model_}, {model.graph}, job_.data);
    job_.seed = static_cast<uint64_t>(session.common.seed);
    Progress bar("quantising", session.common.verbosity());
    job_.progress = [&](const std::string& what, int64_t done, int64_t all) { bar.update(what, done, all); };
    job_.on_missed = [&](const QuantizeResult& missed) {
      print(session, missed);
      session.found = document(missed);
    };
    const QuantizeResult result = scan_ ? scan_quantization(model.graph, job_) : quantize(model.graph, job_);
    bar.clear();
    for (const auto& note : result.notes) session.say("note: {}\n", note);
    if (scan_) return print_scan(session, result);
    write_model(session, result.graph, output_, {model_}, written_.save(session.common.force));
    print(session, result);
    session.print("{} written\n", output_);
    return document(result);
  }

 private:
  static nlohmann::json layers_json(const QuantizeResult& result, bool scan) {
    auto layers = nlohmann::json::array();
    for (const auto& layer : result.layers) {
      nlohmann::json entry = {{"name", layer.name}, {"op", layer.op},       {"weights", layer.weights},
                              {"bits", layer.bits}, {"error", layer.error}, {"reason", with_flags(layer.reason)}};
      if (scan && layer.bits < 32) entry["divergence"] = layer.divergence;
      layers.push_back(std::move(entry));
    }
    return layers;
  }

  nlohmann::json document(const QuantizeResult& result) const {
    nlohmann::json ranges = nlohmann::json::object();
    for (const auto& [name, range] : result.ranges) ranges[name] = {range.first, range.second};
    return {{"before", measured_json(model_.empty() ? model_options_.arch : model_, result.before)},
            {"after", measured_json(output_, result.after)},
            {"groups", nlohmann::json::array()},
            {"layers", layers_json(result, false)},
            {"ranges", ranges},
            {"notes", with_flags(result.notes)},
            {"seconds", {{"total", result.seconds}, {"method", result.method_seconds}}}};
  }

  static void print(Session& session, const QuantizeResult& result) {
    for (const auto& layer : result.layers)
      if (layer.bits == 32) session.print("{}: left in float, {}\n", layer.name, layer.reason);
    Table sizes({"", "before", "after", "part"});
    const ModelCost& a = result.before.cost;
    const ModelCost& b = result.after.cost;
    const auto part = [](int64_t after, int64_t before) {
      return before == 0 ? "" : fmt::format("{:.3f}", static_cast<double>(after) / static_cast<double>(before));
    };
    sizes.add({"bytes of tensors", with_commas(a.bytes), with_commas(b.bytes), part(b.bytes, a.bytes)});
    for (size_t i = 0; i < result.before.metrics.size(); ++i)
      sizes.add({result.before.metrics[i].first, fmt::format("{:.4f}", result.before.metrics[i].second),
                 fmt::format("{:.4f}", result.after.metrics[i].second), ""});
    session.print("{}\n{} layers in {:.2f} s\n", sizes.text(), result.layers.size(), result.method_seconds);
  }

  static nlohmann::json print_scan(Session& session, const QuantizeResult& result) {
    Table table({"layer", "operator", "weights", "bits", "error of weights", "divergence", "why"});
    for (const auto& layer : result.layers) {
      const bool left = layer.bits == 32;
      table.add({layer.name, layer.op, with_commas(layer.weights), left ? "float" : std::to_string(layer.bits),
                 left ? "" : fmt::format("{:.2e}", layer.error), left ? "" : fmt::format("{:.6f}", layer.divergence),
                 layer.reason});
    }
    session.print("{}", table.text());
    return {{"layers", layers_json(result, true)}, {"seconds", {{"total", result.seconds}}}};
  }

  std::string model_;
  std::string output_;
  bool scan_ = false;
  QuantizeJob job_;
  OutputOptions written_;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_quantize() { return std::make_unique<Quantize>(); }

}  // namespace pare::cli
