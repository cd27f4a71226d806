#include "pare/workflow/prune.h"

#include <cmath>
#include <filesystem>

#include "command.h"
#include "drift.h"
#include "input.h"
#include "metrics.h"
#include "output.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/report/line_plot.h"
#include "pare/zoo/model.h"
#include "plan_file.h"
#include "training.h"

namespace pare::cli {

namespace {

// Defaults for a network that is trained already.
TrainingOptions gentle_training() {
  TrainingOptions options;
  options.train.optimizer.lr = 0.01;
  options.train.schedule.schedule = ScheduleKind::cosine;
  return options;
}

class Prune : public Command {
 public:
  std::string_view name() const override { return "prune"; }
  std::string_view summary() const override {
    return "Remove channels, and let the kept ones take over from them (neuron merging and beyond)";
  }
  std::vector<Example> examples() const override {
    return {
        {"learns from the images, not their labels",
         "pare prune model.onnx --macs 0.3 --data folder:images -o slim.onnx"},
        {"without data", "pare prune model.onnx --macs 0.3 -o slim.onnx"},
        {"neuron merging as published", "pare prune model.onnx --channels 0.5 --compensate most-sim -o merged.onnx"},
        {"fine-tuned, looking where the original looks",
         "pare prune model.onnx --channels 0.5 --data cifar10 --finetune 5 --match sswa -o slim.onnx"}};
  }
  Ranks ranks() const override { return Ranks::together; }

  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch", false);
    options.heading("output");
    options.essential().field("output", output_, "file to write, .onnx or .safetensors");
    prune_.describe(options);
    options.heading("fine-tuning");
    options.essential().field("finetune", finetune_, "epochs of fine-tuning after every step");
    {
      const OptionGroup group(options, "fine-tuning");
      training_.describe(options, /*with_epochs=*/false);
      distill_.describe(options);
    }
    drift_.describe(options);
    options.heading("output");
    options.essential().field(
        "scan", scan_,
        "FILE.svg: instead, plot accuracy against the fraction removed of each group (of --layers) alone");
    options.heading("what to remove");
    options.field("widths", widths_file_, "FILE.toml: the widths of groups, as --save-plan writes them");
    options.heading("output");
    options.field("save-plan", plan_file_, "FILE.toml: write the widths that are left");
    options.field("plan-plot", plan_plot_, "FILE.svg: plot the widths that are left and what each costs");
    options.only({"channels", "params", "macs", "bytes", "widths", "empty", "steps", "finetune", "max-drop",
                  "attribution-drift", "plan", "save-plan", "plan-plot"},
                 {without("scan")});
    options.only({"scope", "round-to"}, {without("widths")});
    options.only({"finetune", "output", "attribution-drift"}, {without("plan")});
    const auto tuned = [&](OptionVisitor& visitor) {
      TrainingOptions().describe(visitor, /*with_epochs=*/false);
      DistillationOptions().describe(visitor);
    };
    options.only(described_names(tuned), {with("finetune")});
    written_.describe(options);
    model_options_.describe(options, {with("model", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if ((scan_.empty() ? 0 : 1) + (output_.empty() ? 0 : 1) + (prune_.plan ? 1 : 0) != 1)
      throw Error(ErrorKind::usage, "-o", "name the file to write with -o, or the plot with --scan, or only --plan");
    if (!widths_file_.empty()) prune_.widths = read_plan(widths_file_);
    for (const auto& file : {plan_file_, plan_plot_})
      if (!file.empty()) check_writable(file, session.common.force);
    if (!output_.empty()) check_output(output_, written_.save(session.common.force));
    if (!scan_.empty()) check_writable(scan_, session.common.force);
    Model model = read_model(session, model_, model_options_);
    if (prune_.data.has_pictures()) say_pictures(session, {model_}, {model.graph}, prune_.data);
    prune_.seed = static_cast<uint64_t>(session.common.seed);
    prune_.ranks = &session.ranks;
    Progress bar("pruning", session.common.verbosity());
    if (finetune_ < 0) throw Error(ErrorKind::usage, "--finetune", "expected 0 or more, found {}", finetune_);
    if (finetune_ > 0) {
      if (prune_.data.data.empty()) throw Error(ErrorKind::usage, "--finetune", "needs --data to train on");
      prune_.finetuning = {finetune_, training_, distill_, trainer_with_feedback(session)};
    }
    distill_.check();
    drift_.check(model.graph, prune_.data);
    prune_.progress = [&](const std::string& what, int64_t done, int64_t all) { bar.update(what, done, all); };
    if (!scan_.empty() && !session.ranks.main()) return {};
    return scan_.empty() ? prune_model(session, model) : scan_model(session, model);
  }

 private:
  nlohmann::json prune_model(Session& session, const Model& model) {
    prune_.on_missed = [&](const PruneResult& missed) {
      print(session, missed);
      session.found = {{"before", measured_json(model_.empty() ? model_options_.arch : model_, missed.before)},
                       {"after", measured_json(output_, missed.after)}};
    };
    PruneResult result = prune(model.graph, prune_);
    if (std::filesystem::path(output_).extension() == ".safetensors")
      result.notes.push_back(fmt::format(
          "{} holds weights alone, narrower than --arch builds them: write .onnx to read the model again", output_));
    for (const auto& note : result.notes) session.say("note: {}\n", note);
    if (!prune_.plan) write_model(session, result.graph, output_, {model_}, written_.save(session.common.force));
    if (!session.ranks.main()) return {};
    if (!plan_file_.empty()) write_plan(plan_file_, result.groups);
    if (!plan_plot_.empty())
      write_file_atomically(plan_plot_, [&](std::ostream& out) { out << plan_svg("widths", result.groups); });
    print(session, result);
    if (!prune_.plan) session.print("{} written\n", output_);
    nlohmann::json document = {{"method",
                                {{"criterion", result.criterion},
                                 {"scope", result.scope},
                                 {"compensate", result.compensate},
                                 {"judges", result.judges}}},
                               {"before", measured_json(model_.empty() ? model_options_.arch : model_, result.before)},
                               {"after", measured_json(output_, result.after)},
                               {"groups", groups_json(result.groups)},
                               {"notes", with_flags(result.notes)},
                               {"seconds",
                                {{"total", result.seconds},
                                 {"method", result.method_seconds},
                                 {"images", result.image_seconds},
                                 {"loading", model.seconds}}}};
    if (!prune_.plan) drift_.report(session, model.graph, result.graph, document);
    return document;
  }

  void print(Session& session, const PruneResult& result) const {
    const bool allocated = result.scope == "allocate";  // then a group says what it alone costs the network's answer
    Table groups({"channel group", "kept", "of", allocated ? "divergence" : "compensation", "why"});
    for (const auto& group : result.groups)
      groups.add({group.name, std::to_string(group.kept), std::to_string(group.total),
                  !allocated        ? group.compensation
                  : group.loss == 0 ? ""
                                    : fmt::format("{:.4f}", group.loss),
                  group.reason});
    session.print("{}\n", groups.text());
    const auto share = [](int64_t after, int64_t before) {
      return fmt::format("{:.1f} %",
                         before == 0 ? 0.0 : 100.0 * static_cast<double>(before - after) / static_cast<double>(before));
    };
    Table sizes({"", "before", "after", "removed"});
    const ModelCost& a = result.before.cost;
    const ModelCost& b = result.after.cost;
    sizes.add({"parameters", with_commas(a.parameters), with_commas(b.parameters), share(b.parameters, a.parameters)});
    sizes.add({"MACs", with_commas(a.macs), with_commas(b.macs), share(b.macs, a.macs)});
    int64_t total = 0;
    int64_t kept = 0;
    for (const auto& group : result.groups) total += group.total, kept += group.kept;
    sizes.add({"channels", with_commas(total), with_commas(kept), share(kept, total)});
    for (size_t i = 0; i < result.before.metrics.size(); ++i)
      sizes.add({result.before.metrics[i].first, fmt::format("{:.4f}", result.before.metrics[i].second),
                 fmt::format("{:.4f}", result.after.metrics[i].second), ""});
    session.print(
        "{}\n{} in {:.2f} s\n", sizes.text(),
        prune_.empty ? "empty channels" : fmt::format("{}, {}, {}", result.criterion, result.scope, result.compensate),
        result.method_seconds);
  }

  nlohmann::json scan_model(Session& session, const Model& model) {
    const Scan result = scan(model.graph, prune_);
    LinePlot plot{.title = fmt::format("{} with {}", model_.empty() ? model_options_.arch : model_, prune_.compensate),
                  .x = "fraction of channels removed",
                  .y = "top-1 accuracy"};
    auto curves = nlohmann::json::array();
    std::vector<std::string> heading = {"channel group"};
    for (int i = 1; i <= 9; ++i) heading.push_back(fmt::format("{:.1f}", 0.1 * i));
    Table table(heading);
    for (const auto& curve : result.curves) {
      std::vector<std::string> row(heading.size());
      row[0] = curve.name;
      for (size_t i = 0; i < curve.ratios.size(); ++i)
        row[static_cast<size_t>(std::lround(curve.ratios[i] * 10))] = fmt::format("{:.4f}", curve.top1[i]);
      table.add(row);
      LineSeries series{.name = curve.name, .x = curve.ratios, .y = curve.top1};
      series.x.insert(series.x.begin(), 0.0);
      series.y.insert(series.y.begin(), result.before);
      plot.series.push_back(std::move(series));
      curves.push_back({{"name", curve.name}, {"ratios", curve.ratios}, {"top1", curve.top1}});
    }
    write_file_atomically(scan_, [&](std::ostream& out) { out << to_svg(plot); });
    session.print("before: {:.4f}\n{}", result.before, table.text());
    auto left = nlohmann::json::array();
    for (const auto& group : result.left) {
      session.print("{}: left alone, {}\n", group.name, group.reason);
      left.push_back({{"name", group.name}, {"total", group.total}, {"reason", with_flags(group.reason)}});
    }
    return {{"before", result.before}, {"curves", curves}, {"left", left}, {"plot", scan_}};
  }

  std::string model_;
  std::string output_;
  std::string scan_;
  std::string widths_file_, plan_file_, plan_plot_;
  PruneJob prune_;
  int64_t finetune_ = 0;
  TrainingOptions training_ = gentle_training();
  DistillationOptions distill_ = {.alpha = 0};
  DriftMetric drift_;
  OutputOptions written_;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_prune() { return std::make_unique<Prune>(); }

}  // namespace pare::cli
