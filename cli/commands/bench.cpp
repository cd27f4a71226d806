#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "command.h"
#include "input.h"
#include "pare/analysis/cost.h"
#include "pare/error.h"
#include "pare/report/record.h"
#include "pare/workflow/benchmark.h"
#include "pare/workflow/onnx_runtime.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace fs = std::filesystem;

namespace {

// ONNX files for another runtime: a model's own where it is ONNX, else one that is written for the time of this life.
class RuntimeFiles {
 public:
  RuntimeFiles() : directory_(fs::temp_directory_path() / fmt::format("pare-bench-{}", ::getpid())) {
    fs::create_directories(directory_);
  }
  ~RuntimeFiles() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  RuntimeFiles(const RuntimeFiles&) = delete;
  RuntimeFiles& operator=(const RuntimeFiles&) = delete;

  fs::path file_of(const fs::path& model, const Graph& graph) {
    if (model.extension() == ".onnx") return model;
    fs::path file = directory_ / fmt::format("{}.onnx", written_++);
    save(graph, file, {.force = true});
    return file;
  }

 private:
  fs::path directory_;
  int written_ = 0;
};

// ONNX Runtime beside us.
struct Peer {
  std::unique_ptr<OnnxRuntime> runtime;        // none where it is not measured
  std::vector<std::optional<size_t>> numbers;  // of the models in it; none for one that it cannot run
  std::vector<std::string> notes;              // what it could not do
};

class Bench : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "Latency and throughput of models in turns, here and in ONNX Runtime where that is installed";
  }
  std::vector<Example> examples() const override {
    return {{"here and in ONNX Runtime, in turns", "pare bench model.onnx small.onnx --threads 1"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    options.heading("how it is measured");
    options.essential().field(
        "batch", batch_,
        "images in a batch; a model whose file fixes another batch is timed with that, and a note says so");
    options.field("rounds", rounds_, "turns of each model");
    options.essential().field("seconds", seconds_, "stop after this many seconds (and at least 5 rounds)");
    options.field("no-onnxruntime", no_onnxruntime_, "do not measure in ONNX Runtime as well");
    model_options_.describe(options, {with("models", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if (batch_ < 1 || rounds_ < 1) throw Error(ErrorKind::usage, "--batch/--rounds", "expected at least 1");
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    std::vector<TimedRun> runs;
    for (const auto& graph : graphs)
      runs.push_back(timed_run(graph, batch_, static_cast<uint64_t>(session.common.seed)));
    const double load = others_at_work();
    Peer peer = start_peer(session, graphs);
    std::vector<Latency> latencies;
    try {
      latencies = measure(session, with_peer(runs, peer));
    } catch (const Error& error) {
      if (!peer.runtime) throw;
      // It may have ended in the middle; our own figures come without it.
      peer.runtime = nullptr;
      peer.numbers.assign(models_.size(), std::nullopt);
      peer.notes.push_back(fmt::format("Not measured in ONNX Runtime: {}", error.message()));
      latencies = measure(session, runs);
    }
    if (load > 0.5 && at::get_num_threads() > 1)
      peer.notes.push_back(
          fmt::format("Other programs were at work (load {:.1f}): threads that wait for each other lose most by that, "
                      "and figures of "
                      "--threads 1 mean more.",
                      load));
    return report(session, graphs, latencies, peer);
  }

 private:
  // How many programs computed on this machine in the last minute, on average.
  static double others_at_work() {
    double load = 0;
    return ::getloadavg(&load, 1) == 1 ? load : 0;
  }

  Peer start_peer(Session& session, const std::vector<Graph>& graphs) const {
    Peer peer;
    peer.numbers.resize(models_.size());
    if (no_onnxruntime_) return peer;
    const fs::path modules = OnnxRuntime::find();
    if (modules.empty()) {
      session.say(
          "ONNX Runtime is not installed here; npm install onnxruntime-node --ignore-scripts in ./data gets it\n");
      return peer;
    }
    try {
      peer.runtime = std::make_unique<OnnxRuntime>(modules, batch_, at::get_num_threads());
    } catch (const Error& error) {
      session.say("note: not measured in ONNX Runtime: {}\n", error.what());
      return peer;
    }
    add_models(peer, graphs);
    return peer;
  }

  // One that ONNX Runtime refuses is left out there, not here.
  void add_models(Peer& peer, const std::vector<Graph>& graphs) const {
    RuntimeFiles files;
    bool any = false;
    for (size_t m = 0; m < graphs.size(); ++m) {
      try {
        peer.numbers[m] = peer.runtime->add({files.file_of(models_[m], graphs[m]), graphs[m]});
        any = true;
      } catch (const Error& error) {
        peer.notes.push_back(fmt::format("{}: not measured in ONNX Runtime: {}", models_[m], error.message()));
      }
    }
    if (!any) peer.runtime = nullptr;
  }

  // Our runs, then those of the models that ONNX Runtime has, in the same order.
  static std::vector<TimedRun> with_peer(std::vector<TimedRun> runs, const Peer& peer) {
    for (const auto& number : peer.numbers)
      if (number) runs.emplace_back([runtime = peer.runtime.get(), which = *number] { return runtime->run(which); });
    return runs;
  }

  std::vector<Latency> measure(Session& session, const std::vector<TimedRun>& runs) const {
    Progress bar("measuring", session.common.verbosity());
    auto latencies =
        benchmark(runs, {.rounds = rounds_, .seconds = seconds_, .progress = [&](int64_t done, int64_t all) {
                           bar.update(done, all);
                         }});
    bar.clear();
    return latencies;
  }

  nlohmann::json report(Session& session, const std::vector<Graph>& graphs, const std::vector<Latency>& latencies,
                        const Peer& peer) const {
    std::vector<std::string> heading = {"model", "by",       "median ms", "p10",       "p90",
                                        "p99",   "images/s", "speed-up",  "MACs fewer"};
    if (peer.runtime) heading.emplace_back("vs ONNX Runtime");
    Table table(heading);
    auto list = nlohmann::json::array();
    auto notes = nlohmann::json::array();
    size_t next = graphs.size();  // of the latencies of ONNX Runtime
    const Latency* peer_base = peer.numbers.front() ? &latencies[next] : nullptr;
    const ModelCost first = cost_of(graphs.front());
    for (size_t m = 0; m < graphs.size(); ++m) {
      const ModelCost cost = cost_of(graphs[m]);
      const std::optional<double> fewer = fewer_macs(cost, first);
      const Figures own_figures = figures_of(latencies[m], &latencies[0], graphs[m], graphs[0]);
      nlohmann::json entry = latency_json(latencies[m], own_figures);
      entry.update(to_json(model_entry(models_[m], cost)));
      entry.update({{"zeros", part_of_zeros(graphs[m])}, {"batch", batch_of(graphs[m], batch_)}});
      if (fewer) entry["mac_ratio"] = *fewer;
      if (cost.inputs != first.inputs)
        notes.push_back(fmt::format("{}: MACs are counted at {}, those of {} at {}: they are not compared.", models_[m],
                                    macs_at(cost), models_.front(), macs_at(first)));
      if (const int64_t batch = batch_of(graphs[m], batch_); batch != batch_)
        notes.push_back(
            fmt::format("{}: its file fixes a batch of {}, not {}: times are for that batch; images/s, speed-up and "
                        "MACs are per image.",
                        models_[m], batch, batch_));
      const Latency* theirs = peer.numbers[m] ? &latencies[next++] : nullptr;
      std::vector<std::string> own = row(m, "pare", latencies[m], own_figures, fewer);
      if (theirs != nullptr) {
        const double ratio = theirs->median / latencies[m].median;
        entry["onnxruntime"] = latency_json(*theirs, figures_of(*theirs, peer_base, graphs[m], graphs[0]));
        entry["onnxruntime_ratio"] = ratio;
        own.push_back(fmt::format("{:.2f}", ratio));
      }
      table.add(own);
      if (theirs != nullptr)
        table.add(row(m, "ONNX Runtime", *theirs, figures_of(*theirs, peer_base, graphs[m], graphs[0]), fewer));
      // The first is compared with itself.
      if (const std::string note = m > 0 ? sparsity_note(entry) : ""; !note.empty()) notes.push_back(note);
      list.push_back(std::move(entry));
    }
    for (const auto& note : peer.notes) notes.push_back(note);
    session.print(
        "{}\n{} threads, batch {}, {} rounds in turns{}\n", table.text(), at::get_num_threads(), batch_,
        latencies.front().rounds,
        peer.runtime ? fmt::format("; vs ONNX Runtime {}: above 1 is faster than it", peer.runtime->version()) : "");
    for (const auto& note : notes) session.print("{}\n", note.get<std::string>());
    nlohmann::json result = {{"models", list}, {"threads", at::get_num_threads()}, {"batch", batch_}, {"notes", notes}};
    if (peer.runtime) result["onnxruntime"] = peer.runtime->version();
    return result;
  }

  // Times that a model has fewer MACs than the first; nothing where they are of inputs of another size, or not all of
  // them are known.
  static std::optional<double> fewer_macs(const ModelCost& cost, const ModelCost& first) {
    if (cost.inputs != first.inputs || !cost.complete || !first.complete || cost.macs == 0) return {};
    return static_cast<double>(first.macs) / static_cast<double>(cost.macs);
  }

  // Of an image: models may come in batches of different sizes.
  struct Figures {
    double images_per_second = 0;
    std::optional<double> speed_up;
  };

  // `base` is the first model by the same runtime; none where that could not run it.
  Figures figures_of(const Latency& l, const Latency* base, const Graph& model, const Graph& first) const {
    const auto rate = [&](const Latency& times, const Graph& graph) {
      return static_cast<double>(batch_of(graph, batch_)) / times.median;
    };
    Figures figures{.images_per_second = rate(l, model), .speed_up = {}};
    if (base != nullptr) figures.speed_up = figures.images_per_second / rate(*base, first);
    return figures;
  }

  std::vector<std::string> row(size_t m, const char* by, const Latency& l, const Figures& figures,
                               std::optional<double> fewer) const {
    const auto ms = [](double seconds) { return fmt::format("{:.3f}", seconds * 1e3); };
    return {models_[m],
            by,
            ms(l.median),
            ms(l.p10),
            ms(l.p90),
            ms(l.p99),
            fmt::format("{:.0f}", figures.images_per_second),
            figures.speed_up ? fmt::format("{:.2f}", *figures.speed_up) : "-",
            fewer ? fmt::format("{:.2f}", *fewer) : "-"};
  }

  static nlohmann::json latency_json(const Latency& l, const Figures& figures) {
    nlohmann::json json = {{"median_seconds", l.median}, {"p10_seconds", l.p10},
                           {"p90_seconds", l.p90},       {"p99_seconds", l.p99},
                           {"rounds", l.rounds},         {"images_per_second", figures.images_per_second}};
    if (figures.speed_up) json["speed_up"] = *figures.speed_up;
    return json;
  }

  // Zeros that no runtime makes use of.
  static std::string sparsity_note(const nlohmann::json& entry) {
    const double zeros = entry["zeros"].get<double>();
    const double speed_up = entry["speed_up"].get<double>();
    const double fewer = entry.value("mac_ratio", 1.0);
    if (zeros < 0.2 || speed_up > 1.1 * std::max(1.0, fewer)) return "";
    if (fewer > 1.05)  // channels were removed: the zeros are of what is left
      return fmt::format("{}: {:.0f} % of the weights that are left are zero; no runtime here makes use of that.",
                         entry["model"].get<std::string>(), 100 * zeros);
    return fmt::format(
        "{}: {:.0f} % of its weights are zero, and that bought nothing: {:.2f} times as fast for {:.2f} times fewer "
        "MACs. Remove channels instead (pare prune).",
        entry["model"].get<std::string>(), 100 * zeros, speed_up, fewer);
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
