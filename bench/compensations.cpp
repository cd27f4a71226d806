// No compensation is worse than none: every group of a network cut alone by a quarter, with every compensation, beside
// plain removal of channels on pictures that nothing was learned from.
//   compensations MODEL.onnx DATA [PICTURES [SAMPLES [EVERY [METHOD…]]]]
// prints for each method how far its top-1 is from that of `none`: the mean over groups, the worst group, and how many
// groups are only cut because held-out samples say so. PICTURES (0: all) measure, SAMPLES are learned from, one group
// of EVERY so many is cut. `auto` has its own choice of channels, all others remove those with the least l1 norm. What
// lies before a cut is computed once for all networks of a method. Exit code 4 where a group is worse off by more than
// a point.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/analysis/scores.h"
#include "pare/data/in_order.h"
#include "pare/error.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/variants.h"
#include "pare/passes/working_form.h"
#include "pare/workflow/pruner.h"
#include "pare/zoo/model.h"

namespace {

constexpr double kCut = 0.25, kPoint = 0.01;
constexpr int64_t kPiece = 10;  // pictures whose values are all kept at once

struct Row {
  double sum = 0, worst = 1;
  std::string where;
  int64_t groups = 0, only_cut = 0;
};

bool is_only_cut(const std::vector<std::string>& notes) {
  return std::ranges::any_of(notes, [](const std::string& note) { return note.find("only cut") != std::string::npos; });
}

class Comparison {
 public:
  Comparison(const pare::Graph& graph, pare::DataChoice data, int64_t samples, size_t every)
      : graph_(pare::working_form(graph)),
        choice_(std::move(data)),
        pictures_(pare::samples_of(choice_.load(graph), graph_)),
        samples_(samples),
        every_(every) {}

  // Top-1 of the groups, each cut alone; −1 for one that can't be. `none` is that of plain removal.
  std::vector<double> accuracies(const std::string& method, const std::vector<double>& none, int64_t& only_cut) const {
    pare::PruneJob job;
    job.data = choice_;
    job.channels = kCut;
    job.round_to = 1;  // a quarter of the narrow ones too
    job.samples = samples_;
    job.compensate = method;
    if (method != "auto") job.criterion = "l1";
    const pare::PruneJob resolved = job.resolved(graph_);
    pare::Pruner pruner(resolved);
    std::vector<double> result;
    std::vector<size_t> measured;
    std::vector<pare::Graph> cuts;
    for (const auto& name : names()) {
      std::fprintf(stderr, "%s %s\n", method.c_str(), name.c_str());
      pare::BudgetOptions budget = resolved.budget();
      budget.layers = {name};
      pruner.result().notes.clear();
      result.push_back(-1);
      try {
        pare::Graph cut = pruner.cut(graph_, budget);
        const bool plain = is_only_cut(pruner.result().notes);
        only_cut += plain ? 1 : 0;
        if (plain && method != "auto") {
          result.back() = none.at(result.size() - 1);
          continue;
        }
        measured.push_back(result.size() - 1);
        cuts.push_back(std::move(cut));
      } catch (const pare::Error& error) {
        if (error.kind() != pare::ErrorKind::usage) throw;
      }
    }
    const std::vector<double> own = top1(cuts);
    for (size_t i = 0; i < measured.size(); ++i) result[measured[i]] = own[i];
    return result;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    const auto groups = pare::analyze_channels(graph_).groups;
    for (size_t g = 0; g < groups.size(); g += every_) names.push_back(groups[g].name);
    return names;
  }

  // Of variants of the graph.
  std::vector<double> top1(const std::vector<pare::Graph>& variants) const {
    const std::string score = pare::score_value(graph_);
    const pare::Pieces pieces = pare::pieces_of(graph_, pictures_, kPiece);
    std::vector<double> right(variants.size(), 0);
    pare::in_order<std::vector<double>>(
        pieces.count(),
        [&](size_t p) {
          const at::NoGradGuard no_grad;
          const pare::TensorMap values = pare::all_values(graph_, pieces.inputs(p));
          const at::Tensor labels = pictures_.labels(pieces.begin(p), pieces.begin(p) + pieces.real_in(p));
          std::vector<double> own;
          for (const auto& variant : variants) {
            const at::Tensor scores = pare::changed_values(graph_, variant, values, {score}).front();
            const at::Tensor said = pare::score_rows(scores).argmax(1).narrow(0, 0, labels.size(0));
            own.push_back(said.eq(labels).sum().item<double>());
          }
          return own;
        },
        [&](const std::vector<double>& own) {
          for (size_t v = 0; v < own.size(); ++v) right[v] += own[v] / static_cast<double>(pictures_.size);
        });
    return right;
  }
  double before() const { return top1({graph_}).front(); }
  int64_t pictures() const { return pictures_.size; }

 private:
  pare::Graph graph_;
  pare::DataChoice choice_;
  pare::Samples pictures_;
  int64_t samples_;
  size_t every_;
};

Row compared(const std::vector<std::string>& names, const std::vector<double>& none, const std::vector<double>& own) {
  Row row;
  for (size_t g = 0; g < names.size(); ++g) {
    if (none[g] < 0 || own[g] < 0) continue;
    const double gain = own[g] - none[g];
    ++row.groups;
    row.sum += gain;
    if (gain < row.worst)
      row.worst = gain, row.where = fmt::format("{}: {:.3f}, none {:.3f}", names[g], own[g], none[g]);
  }
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  pare::DataChoice data{.data = argv[2]};
  data.limit = argc > 3 ? std::stoll(argv[3]) : 0;
  const int64_t samples = argc > 4 ? std::stoll(argv[4]) : 0;
  const size_t every = argc > 5 ? std::stoul(argv[5]) : 1;
  std::vector<std::string> methods(argv + std::min(argc, 6), argv + argc);
  if (methods.empty()) methods = pare::compensation_methods();
  std::erase(methods, "none");
  try {
    const Comparison comparison(pare::load_model(argv[1], {}).graph, data, samples, every);
    const auto names = comparison.names();
    int64_t unused = 0;
    const std::vector<double> none = comparison.accuracies("none", {}, unused);
    fmt::print("{} of {} pictures right before, {} groups cut alone by a quarter\n",
               std::llround(comparison.before() * static_cast<double>(comparison.pictures())), comparison.pictures(),
               std::count_if(none.begin(), none.end(), [](double a) { return a >= 0; }));
    fmt::print("{:<12} {:>10} {:>10} {:>9}  {}\n", "method", "mean gain", "worst", "only cut", "worst group");
    bool fell = false;
    for (const auto& method : methods) {
      int64_t only_cut = 0;
      const std::vector<double> own = comparison.accuracies(method, none, only_cut);
      const Row row = compared(names, none, own);
      fmt::print("{:<12} {:>+10.4f} {:>+10.4f} {:>9}  {}\n", method,
                 row.sum / static_cast<double>(std::max<int64_t>(row.groups, 1)), row.worst, only_cut, row.where);
      for (size_t g = 0; g < names.size(); ++g)
        if (none[g] >= 0 && own[g] >= 0)
          std::fprintf(stderr, "%s %s %.4f none %.4f\n", method.c_str(), names[g].c_str(), own[g], none[g]);
      std::fflush(stdout);
      fell = fell || row.worst < -kPoint - 1e-9;
    }
    return fell ? 4 : 0;
  } catch (const pare::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
