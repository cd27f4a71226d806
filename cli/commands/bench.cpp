#include <ATen/Parallel.h>
#include <unistd.h>

#include <filesystem>

#include "command.h"
#include "pare/analysis/cost.h"
#include "pare/core/error.h"
#include "pare/workflow/benchmark.h"
#include "pare/workflow/model.h"
#include "pare/workflow/onnx_runtime.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

// ONNX files of the models for another runtime: their own where they are ONNX, else written for the time of its life.
class RuntimeFiles {
 public:
  RuntimeFiles(const std::vector<std::string>& paths, const std::vector<Graph>& graphs)
      : directory_(fs::temp_directory_path() / fmt::format("pare-bench-{}", ::getpid())) {
    fs::create_directories(directory_);
    for (size_t m = 0; m < paths.size(); ++m) {
      fs::path file = paths[m];
      if (file.extension() != ".onnx") {
        file = directory_ / fmt::format("{}.onnx", m);
        save_model(graphs[m], file, {.force = true});
      }
      models.push_back({file, graphs[m]});
    }
  }
  ~RuntimeFiles() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  RuntimeFiles(const RuntimeFiles&) = delete;
  RuntimeFiles& operator=(const RuntimeFiles&) = delete;

  std::vector<OnnxRuntime::Model> models;

 private:
  fs::path directory_;
};

class Bench : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "Latency and throughput of models in turns, here and in ONNX Runtime where that is installed";
  }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    options.field("batch", batch_, "images in a batch");
    options.field("rounds", rounds_, "timed runs of each model");
    options.field("seconds", seconds_, "stop after this time (and at least 5 rounds)");
    options.field("no-onnxruntime", no_onnxruntime_, "do not measure in ONNX Runtime too");
    model_options_.describe(options);
  }

  nlohmann::json run(Session& session) override {
    if (batch_ < 1 || rounds_ < 1) throw Error(ErrorKind::usage, "--batch/--rounds", "expected at least 1");
    std::vector<Graph> graphs;
    std::vector<TimedRun> runs;
    const auto seed = static_cast<uint64_t>(session.common.seed);
    for (const auto& path : models_) {
      graphs.push_back(load_model(path, model_options_, seed).graph);
      runs.push_back(timed_run(graphs.back(), batch_, seed));
    }
    const auto runtime = start_runtime(session, graphs);
    for (size_t m = 0; runtime && m < graphs.size(); ++m) runs.emplace_back([&runtime, m] { return runtime->run(m); });
    Progress bar("measuring", session.common.verbosity());
    const auto latencies =
        benchmark(runs, {.rounds = rounds_, .seconds = seconds_, .progress = [&](int64_t done, int64_t all) {
                           bar.update(done, all);
                         }});
    bar.clear();
    return report(session, graphs, latencies, runtime ? runtime->version() : "");
  }

 private:
  std::unique_ptr<OnnxRuntime> start_runtime(Session& session, const std::vector<Graph>& graphs) const {
    if (no_onnxruntime_) return nullptr;
    const fs::path modules = OnnxRuntime::find();
    if (modules.empty()) {
      session.say("ONNX Runtime is not here; npm install onnxruntime-node --ignore-scripts in ./data gets it\n");
      return nullptr;
    }
    try {
      const RuntimeFiles files(models_, graphs);
      return std::make_unique<OnnxRuntime>(modules, files.models, batch_, at::get_num_threads());
    } catch (const Error& error) {
      session.say("note: not measured in ONNX Runtime: {}\n", error.what());
      return nullptr;
    }
  }

  nlohmann::json report(Session& session, const std::vector<Graph>& graphs, const std::vector<Latency>& latencies,
                        const std::string& version) const {
    const size_t count = graphs.size();
    Table table({"model", "by", "median ms", "p10", "p90", "p99", "images/s", "speed-up", "MACs fewer"});
    auto list = nlohmann::json::array();
    auto notes = nlohmann::json::array();
    const ModelCost first = cost_of(graphs.front());
    for (size_t m = 0; m < count; ++m) {
      const ModelCost cost = cost_of(graphs[m]);
      const double fewer = cost.macs > 0 ? static_cast<double>(first.macs) / static_cast<double>(cost.macs) : 0;
      nlohmann::json entry = latency_json(latencies[m], latencies[0]);
      entry.update({{"model", models_[m]},
                    {"mac_ratio", fewer},
                    {"zeros", part_of_zeros(graphs[m])},
                    {"parameters", cost.parameters},
                    {"macs", cost.macs}});
      add_row(table, m, "pare", latencies[m], latencies[0], fewer);
      if (!version.empty()) {
        entry["onnxruntime"] = latency_json(latencies[count + m], latencies[count]);
        add_row(table, m, "ONNX Runtime", latencies[count + m], latencies[count], fewer);
      }
      if (const std::string note = sparsity_note(entry); !note.empty()) notes.push_back(note);
      list.push_back(std::move(entry));
    }
    session.print("{}\n{} threads, batch {}, {} rounds in turns{}\n", table.text(), at::get_num_threads(), batch_,
                  latencies.front().rounds, version.empty() ? "" : fmt::format("; ONNX Runtime {}", version));
    for (const auto& note : notes) session.print("{}\n", note.get<std::string>());
    nlohmann::json result = {{"models", list}, {"threads", at::get_num_threads()}, {"batch", batch_}, {"notes", notes}};
    if (!version.empty()) result["onnxruntime"] = version;
    return result;
  }

  void add_row(Table& table, size_t m, const char* by, const Latency& l, const Latency& base, double fewer) const {
    const auto ms = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
    table.add({models_[m], by, ms(l.median), ms(l.p10), ms(l.p90), ms(l.p99),
               fmt::format("{:.0f}", static_cast<double>(batch_) / l.median),
               fmt::format("{:.2f}", base.median / l.median), fmt::format("{:.2f}", fewer)});
  }

  nlohmann::json latency_json(const Latency& l, const Latency& base) const {
    return {{"median_seconds", l.median},
            {"p10_seconds", l.p10},
            {"p90_seconds", l.p90},
            {"p99_seconds", l.p99},
            {"rounds", l.rounds},
            {"images_per_second", static_cast<double>(batch_) / l.median},
            {"speed_up", base.median / l.median}};
  }

  // Zeros that no runtime makes use of.
  static std::string sparsity_note(const nlohmann::json& entry) {
    const double zeros = entry["zeros"].get<double>();
    const double speed_up = entry["speed_up"].get<double>();
    if (zeros < 0.2 || speed_up > 1.1 * std::max(1.0, entry["mac_ratio"].get<double>())) return "";
    return fmt::format(
        "{}: {:.0f} % of its weights are zero, and that bought nothing: {:.2f} times as fast for {:.2f} times fewer "
        "MACs. Remove channels instead (pare prune).",
        entry["model"].get<std::string>(), 100 * zeros, speed_up, entry["mac_ratio"].get<double>());
  }

  std::vector<std::string> models_;
  int64_t batch_ = 1;
  int64_t rounds_ = 50;
  double seconds_ = 10;
  bool no_onnxruntime_ = false;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace pare::cli
