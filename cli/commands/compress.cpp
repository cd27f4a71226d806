#include "pare/workflow/compress.h"

#include <algorithm>

#include "command.h"
#include "input.h"
#include "metrics.h"
#include "output.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/report/line_plot.h"
#include "pare/train/run_store.h"
#include "pare/workflow/compress_memory.h"
#include "plan_file.h"

namespace pare::cli {

namespace {

class Compress : public Command {
 public:
  std::string_view name() const override { return "compress"; }
  std::string_view summary() const override {
    return "A goal in, a smaller model and its proof out: so much faster or smaller, or as small as a drop allows";
  }
  std::vector<Example> examples() const override {
    return {{"so much faster, at most a point lost, or exit code 5",
             "pare compress model.onnx --faster 1.5 --max-drop 0.01 --data folder:images -o small.onnx"},
            {"as small as half a point allows",
             "pare compress model.onnx --max-drop 0.005 --data csv:pictures.csv -o small.onnx"},
            {"show the widths, write nothing", "pare compress model.onnx --macs 0.3 --data folder:images --plan"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch", false);
    options.heading("output");
    options.essential().field("output", output_, "file to write, .onnx or .safetensors");
    job_.describe(options);
    options.heading("output");
    options.field("frontier", frontier_, "FILE.svg: accuracy against latency of all that was tried");
    options.field("save-plan", plan_file_, "FILE.toml: the widths, for prune --widths");
    options.field("fresh", fresh_, "forget what an earlier run of the same model learned");
    options.only({"output", "frontier"}, {without("plan")});
    written_.describe(options);
    model_options_.describe(options, {with("model", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    check(session);
    Model model = read_model(session, model_, model_options_);
    if (job_.data.has_pictures()) say_pictures(session, {model_}, {model.graph}, job_.data);
    job_.seed = static_cast<uint64_t>(session.common.seed);
    if (!session.common.no_record) job_.memory = memory_of(session, model.graph);
    Progress bar("compressing", session.common.verbosity());
    job_.progress = [&](const std::string& what, int64_t done, int64_t all) { bar.update(what, done, all); };
    const CompressResult result = compress(model.graph, job_);
    bar.clear();
    for (const auto& note : result.notes) session.say("note: {}\n", note);
    const nlohmann::json document = document_of(result);
    print(session, result);
    if (!frontier_.empty()) write_file_atomically(frontier_, [&](std::ostream& out) { out << to_svg(plot(result)); });
    if (!result.reached) {
      session.found = document;
      throw Error(ErrorKind::quality, "--max-drop", "{}; nothing was written", result.missed);
    }
    if (!plan_file_.empty()) write_plan(plan_file_, result.groups);
    if (!job_.plan) {
      write_model(session, result.graph, output_, {model_}, written_.save(session.common.force));
      session.print("{} written\n", output_);
    }
    return document;
  }

 private:
  void check(const Session& session) const {
    job_.check();
    if (job_.data.data.empty()) throw Error(ErrorKind::usage, "--data", "name the images to learn from");
    if (job_.plan == !output_.empty())
      throw Error(ErrorKind::usage, "-o", "name the file to write with -o, or only --plan");
    if (!output_.empty()) check_output(output_, written_.save(session.common.force));
    for (const auto& file : {frontier_, plan_file_})
      if (!file.empty()) check_writable(file, session.common.force);
  }

  std::filesystem::path memory_of(const Session& session, const Graph& graph) const {
    nlohmann::json definition = {{"model", fingerprint(graph)}};
    for (const char* name : {"data", "samples", "layers", "skip", "round-to", "inner-only", "runtime", "batch"})
      if (session.recipe.contains(name)) definition[name] = session.recipe.at(name);
    const std::filesystem::path path = open_run(session.common.runs, "compress-memory", definition).path;
    if (fresh_)
      for (const char* file : {"study.json", "fisher.safetensors", "points.json"}) std::filesystem::remove(path / file);
    return path;
  }

  static std::string of_whole(int64_t part, int64_t whole) {
    return fmt::format("{:.1f} %",
                       whole == 0 ? 0.0 : 100.0 * (1 - static_cast<double>(part) / static_cast<double>(whole)));
  }

  void print(Session& session, const CompressResult& result) const {
    if (!result.groups.empty()) {
      Table groups({"channel group", "kept", "of", "divergence", "why"});
      for (const auto& group : result.groups)
        groups.add({group.name, std::to_string(group.kept), std::to_string(group.total),
                    group.loss == 0 ? "" : fmt::format("{:.4f}", group.loss), group.reason});
      session.print("{}\n", groups.text());
    }
    const CompressPoint& original = result.points.front();
    Table points({"", "MACs fewer", "parameters fewer", "ms", "speed-up", result.metric, "drop", "95 %"});
    for (size_t i = 0; i < result.points.size(); ++i) {
      const CompressPoint& point = result.points[i];
      points.add({i == 0                                 ? "original"
                  : result.reached && i == result.chosen ? "chosen"
                                                         : "",
                  of_whole(point.macs, original.macs), of_whole(point.parameters, original.parameters),
                  fmt::format("{:.2f}", 1000 * point.latency), fmt::format("{:.2f}", point.speed_up()),
                  point.score ? fmt::format("{:.4f}", *point.score) : "",
                  i == 0 ? "" : fmt::format("{:.4f}", point.drop),
                  i == 0 ? "" : fmt::format("± {:.4f}", point.interval)});
    }
    session.print("{}\n{} of {} held-out samples; {}\n", points.text(), result.metric, result.held_out, result.runtime);
    print_steps(session, result);
    if (result.after.metrics.empty()) return;
    Table proof({"measured on " + job_.data.data, "before", "after"});
    for (size_t i = 0; i < result.before.metrics.size(); ++i)
      proof.add({result.before.metrics[i].first, fmt::format("{:.4f}", result.before.metrics[i].second),
                 fmt::format("{:.4f}", result.after.metrics[i].second)});
    session.print("{}", proof.text());
  }

  static void print_steps(Session& session, const CompressResult& result) {
    if (result.steps.empty()) return;
    std::vector<std::string> heading = {"", "bytes", "ms"};
    for (const auto& [name, value] : result.steps[0].measured.metrics) heading.push_back(name);
    Table steps(heading);
    for (const auto& step : result.steps) {
      std::vector<std::string> row = {step.name, with_commas(step.measured.cost.bytes),
                                      fmt::format("{:.2f}", 1000 * step.latency)};
      for (const auto& [name, value] : step.measured.metrics) row.push_back(fmt::format("{:.4f}", value));
      steps.add(row);
    }
    session.print("{}\n", steps.text());
  }

  static LinePlot plot(const CompressResult& result) {
    LinePlot plot{.title = "what was tried", .x = "latency, ms", .y = result.metric + " of held-out samples"};
    LineSeries all{.name = "tried"}, chosen{.name = "chosen", .line = false};
    for (size_t i = 0; i < result.points.size(); ++i) {
      // The original's time goes up and down with the machine: a point is where its own turns put it.
      const double ms = 1000 * result.points[0].latency / result.points[i].speed_up();
      all.x.push_back(ms);
      all.y.push_back(result.points[i].score.value_or(0));
      if (result.reached && i == result.chosen) chosen.x = {ms}, chosen.y = {result.points[i].score.value_or(0)};
    }
    plot.series = {all};
    if (!chosen.x.empty()) plot.series.push_back(chosen);
    return plot;
  }

  nlohmann::json document_of(const CompressResult& result) const {
    auto points = nlohmann::json::array();
    for (const auto& point : result.points) points.push_back(to_json(point));
    nlohmann::json document = {{"reached", result.reached},
                               {"held_out", {{"metric", result.metric}, {"samples", result.held_out}}},
                               {"runtime", result.runtime},
                               {"points", points},
                               {"chosen", result.chosen},
                               {"groups", groups_json(result.groups)},
                               {"before", measured_json(model_.empty() ? model_options_.arch : model_, result.before)},
                               {"notes", with_flags(result.notes)},
                               {"seconds", {{"total", result.seconds}}}};
    if (result.reached) document["after"] = measured_json(output_, result.after);
    for (const auto& step : result.steps) {
      document["steps"].push_back(measured_json(step.name, step.measured));
      document["steps"].back()["latency"] = step.latency;
    }
    return document;
  }

  std::string model_;
  std::string output_;
  std::string frontier_;
  std::string plan_file_;
  bool fresh_ = false;
  CompressJob job_;
  OutputOptions written_;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_compress() { return std::make_unique<Compress>(); }

}  // namespace pare::cli
