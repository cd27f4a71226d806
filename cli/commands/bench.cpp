#include <ATen/Parallel.h>

#include "command.h"
#include "pare/analysis/cost.h"
#include "pare/core/error.h"
#include "pare/workflow/benchmark.h"
#include "pare/workflow/model.h"

namespace pare::cli {

namespace {

class Bench : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override { return "Latency and throughput of models, interleaved medians"; }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "ONNX files, or weights with --arch");
    options.field("batch", batch_, "images in a batch");
    options.field("rounds", rounds_, "timed runs of each model");
    options.field("seconds", seconds_, "stop after this time (and at least 5 rounds)");
    model_options_.describe(options);
  }

  nlohmann::json run(Session& session) override {
    if (batch_ < 1 || rounds_ < 1) throw Error(ErrorKind::usage, "--batch/--rounds", "expected at least 1");
    std::vector<Graph> graphs;
    for (const auto& path : models_)
      graphs.push_back(load_model(path, model_options_, static_cast<uint64_t>(session.common.seed)).graph);
    Progress bar("measuring", session.common.verbosity());
    const auto latencies = benchmark(graphs, {.batch = batch_,
                                              .rounds = rounds_,
                                              .seconds = seconds_,
                                              .seed = static_cast<uint64_t>(session.common.seed),
                                              .progress = [&](int64_t done, int64_t all) { bar.update(done, all); }});
    Table table({"model", "median ms", "p10", "p90", "images/s", "speed-up", "parameters", "MACs", "MAC ratio"});
    auto list = nlohmann::json::array();
    const ModelCost first = cost_of(graphs.front());
    for (size_t m = 0; m < graphs.size(); ++m) {
      const ModelCost cost = cost_of(graphs[m]);
      const Latency& l = latencies[m];
      const double speed_up = latencies[0].median / l.median;
      const double mac_ratio = cost.macs > 0 ? static_cast<double>(first.macs) / static_cast<double>(cost.macs) : 0;
      const double rate = static_cast<double>(batch_) / l.median;
      table.add({models_[m], fmt::format("{:.3f}", l.median * 1e3), fmt::format("{:.3f}", l.p10 * 1e3),
                 fmt::format("{:.3f}", l.p90 * 1e3), fmt::format("{:.0f}", rate), fmt::format("{:.2f}", speed_up),
                 with_commas(cost.parameters), with_commas(cost.macs), fmt::format("{:.2f}", mac_ratio)});
      list.push_back({{"model", models_[m]},
                      {"median_seconds", l.median},
                      {"p10_seconds", l.p10},
                      {"p90_seconds", l.p90},
                      {"rounds", l.rounds},
                      {"images_per_second", rate},
                      {"speed_up", speed_up},
                      {"mac_ratio", mac_ratio},
                      {"parameters", cost.parameters},
                      {"macs", cost.macs}});
    }
    session.print("{}\n{} threads, batch {}, {} rounds\n", table.text(), at::get_num_threads(), batch_,
                  latencies.front().rounds);
    return {{"models", list}, {"threads", at::get_num_threads()}, {"batch", batch_}};
  }

 private:
  std::vector<std::string> models_;
  int64_t batch_ = 1;
  int64_t rounds_ = 50;
  double seconds_ = 10;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_bench() { return std::make_unique<Bench>(); }

}  // namespace pare::cli
