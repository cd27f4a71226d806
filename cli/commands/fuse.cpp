#include <filesystem>

#include "command.h"
#include "drift.h"
#include "input.h"
#include "metrics.h"
#include "output.h"
#include "pare/analysis/cost.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/workflow/fuse.h"
#include "pare/zoo/model.h"
#include "watch.h"

namespace pare::cli {

namespace {

class Fuse : public Command {
 public:
  std::string_view name() const override { return "fuse"; }
  std::string_view summary() const override { return "Several trained models into one"; }
  std::vector<Example> examples() const override {
    return {{"aligned by their weights, no data", "pare fuse a.onnx b.onnx -o fused.onnx"},
            {"repaired on 200 images",
             "pare fuse a.onnx b.onnx --method rebasin --repair regression --data mnist --samples 200 -o fused.onnx"}};
  }
  Ranks ranks() const override { return Ranks::together; }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    options.heading("output");
    options.essential().field("output", output_, "file to write, .onnx or .safetensors");
    run_.fuse.describe(options);
    options.heading("how neurons are matched");
    options.field("weights", run_.fuse.weights, "share of each model (default: equal)");
    options.essential().field(
        "into", into_, "model whose widths and neurons are the target; joins the others if it is not one of them");
    run_.data.describe(options);
    options.heading("data");
    options.essential().field("samples", run_.samples, "training images that alignment and repair may see (0: none)");
    options.heading("output");
    options.field("plans", plans_, "directory for the transport plans as images");
    drift_.describe(options);
    written_.describe(options);
    options.only({"samples"}, {with("data")});
    options.only({"samples"}, {with("align", {"activations"}), without("repair", {"none"})});
    model_options_.describe(options, {with("models", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if (output_.empty()) throw Error(ErrorKind::usage, "-o", "name the file to write");
    check_output(output_, written_.save(session.common.force));
    if (!plans_.empty() && session.ranks.main()) make_directory(plans_);
    run_.fuse.seed = static_cast<uint64_t>(session.common.seed);
    choose_target();
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    if (run_.data.has_pictures()) say_pictures(session, models_, graphs, run_.data);
    const auto reference = static_cast<size_t>(std::max<int64_t>(run_.fuse.reference, 0));
    if (reference < graphs.size()) drift_.check(graphs[reference], run_.data);
    Watch watch(session, "evaluating");
    FuseRun done = run_fuse(graphs, run_, watch);
    write_model(session, done.result.fused, output_, models_, written_.save(session.common.force));
    if (!session.ranks.main()) return {};
    nlohmann::json result = report(session, graphs, done);
    result["plans"] = plan_images(session, done.result);
    if (!done.split.empty()) result["split"] = done.split;
    if (done.split == "all" && done.samples > 0)
      session.say(
          "note: the data is not divided into train and test: metrics are measured on images that were learned from\n");
    drift_.report(session, graphs.at(reference), done.result.fused, result);
    return result;
  }

 private:
  // Into --plans, else beside the record; like the record they are left out where they cannot be written.
  nlohmann::json plan_images(Session& session, const FusionResult& result) const {
    if (!plans_.empty()) {
      auto list = plans_in(plans_, result);
      session.say("{} plans in {}\n", list.size(), plans_);
      return list;
    }
    if (session.common.no_record) return nlohmann::json::array();
    try {
      return plans_in(session.run_directory() / "plans", result);
    } catch (const Error& error) {
      session.say("note: no plans were kept: {}\n", error.what());
      return nlohmann::json::array();
    }
  }

  nlohmann::json plans_in(const std::filesystem::path& directory, const FusionResult& result) const {
    auto list = nlohmann::json::array();
    for (const auto& image : write_plans(result, static_cast<size_t>(run_.fuse.reference), directory))
      list.push_back({{"model", models_[image.model]}, {"name", image.name}, {"file", image.file.string()}});
    return list;
  }

  // --into names the reference: one of the models, or one more.
  void choose_target() {
    if (into_.empty()) return;
    for (size_t k = 0; k < models_.size(); ++k) {
      std::error_code failed;
      if (models_[k] == into_ || std::filesystem::equivalent(models_[k], into_, failed)) {
        run_.fuse.reference = static_cast<int64_t>(k);
        return;
      }
    }
    if (run_.fuse.weights.size() == models_.size()) run_.fuse.weights.push_back(0);  // it gives its shape only
    run_.fuse.reference = static_cast<int64_t>(models_.size());
    models_.push_back(into_);
  }

  nlohmann::json report(Session& session, const std::vector<Graph>& graphs, const FuseRun& done) const {
    const auto groups = report_groups(session, done.result);
    Table table({"model", "share", "parameters", "MACs", "top1", "aligned alone"});
    const auto percent = [](double value) { return fmt::format("{:.4f}", value); };
    auto list = nlohmann::json::array();
    int64_t parameters = 0;
    int64_t macs = 0;
    for (size_t k = 0; k < graphs.size(); ++k) {
      const ModelCost cost = cost_of(graphs[k]);
      parameters += cost.parameters;
      macs += cost.macs;
      nlohmann::json entry = to_json(model_entry(models_[k], cost));
      entry["share"] = done.result.shares[k];
      std::vector<std::string> row = {models_[k], fmt::format("{:.3g}", done.result.shares[k]),
                                      with_commas(cost.parameters), with_commas(cost.macs)};
      if (!done.fused.empty()) {
        entry["metrics"] = metrics_json(done.models[k]);
        entry["aligned"] = metrics_json(done.aligned[k]);
        row.insert(row.end(), {percent(done.models[k].front().second), percent(done.aligned[k].front().second)});
      } else {
        row.insert(row.end(), {"", ""});
      }
      list.push_back(entry);
      table.add(row);
    }
    const ModelCost cost = cost_of(done.result.fused);
    nlohmann::json before = {{"models", list}, {"parameters", parameters}, {"macs", macs}};
    nlohmann::json after = to_json(model_entry(output_, cost, done.fused));
    after["times_fewer_parameters"] = static_cast<double>(parameters) / static_cast<double>(cost.parameters);
    if (!done.fused.empty()) {
      before["metrics"] = metrics_json(done.ensemble);  // of the average of the models' predictions
      table.add({"their predictions averaged", "", with_commas(parameters), with_commas(macs),
                 percent(done.ensemble.front().second), ""});
    }
    table.add({output_, "", with_commas(cost.parameters), with_commas(cost.macs),
               done.fused.empty() ? "" : percent(done.fused.front().second), ""});
    session.print("\n{}\n", table.text());
    const bool looked = run_.fuse.align == AlignBy::activations || run_.fuse.repair != FusionRepair::none;
    const std::string saw = done.samples > 0 && looked ? fmt::format("{} training images", done.samples)
                            : done.result.on_noise     ? fmt::format("{} images made from noise", run_.fuse.inputs)
                                                       : std::string("no data");
    session.print("{} in {:.2f} s, having seen {}; {:.3g} times fewer parameters than all models\n", run_.fuse.method,
                  done.fuse_seconds, saw, after["times_fewer_parameters"].get<double>());
    return {{"before", before},
            {"after", after},
            {"groups", groups},
            {"fixed", fixed_json(done.result)},
            {"samples", done.samples},
            {"on_noise", done.result.on_noise},
            {"seconds", {{"total", session_seconds()}, {"method", done.fuse_seconds}}}};
  }

  // Channels that stay in the order they have in each model, and why.
  static nlohmann::json fixed_json(const FusionResult& result) {
    auto list = nlohmann::json::array();
    for (const ClassAlignment& own : result.alignments.front().classes)
      if (own.fixed) list.push_back({{"name", own.name}, {"channels", own.source}, {"reason", own.reason}});
    return list;
  }

  // Each class and model: what its transport cost, and how far the plan is from a permutation.
  nlohmann::json report_groups(Session& session, const FusionResult& result) const {
    auto groups = nlohmann::json::array();
    Table table({"model", "layer", "channels", "cost", "split"});
    for (size_t k = 0; k < result.alignments.size(); ++k) {
      if (static_cast<int64_t>(k) == run_.fuse.reference && run_.fuse.method != "barycentre") continue;
      for (const ClassAlignment& own : result.alignments[k].classes) {
        if (own.fixed) continue;
        const std::string channels =
            own.source == own.target ? std::to_string(own.source) : fmt::format("{} -> {}", own.source, own.target);
        table.add({models_[k], own.name, channels, fmt::format("{:.5g}", own.cost), fmt::format("{:.4f}", own.split)});
        if (!own.converged) session.say("note: the plan of {} for {} did not converge\n", own.name, models_[k]);
        groups.push_back({{"model", models_[k]},
                          {"name", own.name},
                          {"channels", own.source},
                          {"target_channels", own.target},
                          {"cost", own.cost},
                          {"split", own.split},
                          {"converged", own.converged}});
      }
    }
    session.print("{}", table.text());
    return groups;
  }

  double session_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  std::vector<std::string> models_;
  std::string output_;
  std::string into_;
  std::string plans_;
  FuseRunOptions run_;
  DriftMetric drift_;
  OutputOptions written_;
  ModelOptions model_options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::unique_ptr<Command> make_fuse() { return std::make_unique<Fuse>(); }

}  // namespace pare::cli
