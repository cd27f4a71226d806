#include "pare/distill/repair_blocks.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "pare/analysis/cost.h"
#include "pare/analysis/parameters.h"
#include "pare/analysis/shapes.h"
#include "pare/distill/averaged_adam.h"
#include "pare/layerwise/side_by_side.h"
#include "pare/run.h"

namespace pare {

namespace {

using Clock = std::chrono::steady_clock;

// Nodes [begin, end) of the graph that was cut, between two values.
struct Block {
  std::string from, to;
  size_t begin = 0, end = 0;
};

// Nodes that make the only value which later nodes, or the outputs, read: it by node.
std::map<size_t, std::string> passages(const Graph& graph) {
  std::map<std::string, size_t> last;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const auto& input : graph.nodes[n].inputs) last[input] = n;
  for (const auto& output : graph.outputs) last[output.name] = graph.nodes.size();
  std::set<std::string> live;
  for (const auto& input : graph.inputs) live.insert(input.name);
  std::map<size_t, std::string> found;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const auto& input : graph.nodes[n].inputs)
      if (last[input] == n) live.erase(input);
    for (const auto& output : graph.nodes[n].outputs)
      if (last.contains(output) && last[output] > n) live.insert(output);
    const std::string& made = graph.nodes[n].outputs.front();
    if (live.size() == 1 && live.contains(made)) found[n] = made;
  }
  return found;
}

bool same_constant(const Graph& a, const Graph& b, const std::string& name) {
  const auto x = a.tensors.find(name), y = b.tensors.find(name);
  return x != a.tensors.end() && y != b.tensors.end() && x->second.sizes() == y->second.sizes() &&
         x->second.equal(y->second);
}

bool has_other_constants(const Graph& original, const Graph& cut, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](const std::string& input) {
    return cut.is_constant(input) && !same_constant(original, cut, input);
  });
}

std::vector<Block> blocks_of(const Graph& original, const Graph& cut) {
  if (cut.inputs.size() != 1) return {};
  const Shapes before = analysis_shapes(original), after = analysis_shapes(cut);
  const auto same_shape = [&](const std::string& value) {
    const TensorType *a = before.find(value), *b = after.find(value);
    return a != nullptr && b != nullptr && a->dims == b->dims;
  };
  const auto passage = passages(cut);
  std::vector<Block> blocks;
  Block block{.from = cut.inputs[0].name};
  bool differs = false;
  for (size_t n = 0; n < cut.nodes.size(); ++n) {
    differs = differs || has_other_constants(original, cut, cut.nodes[n]);
    const auto found = passage.find(n);
    if (found == passage.end() || !same_shape(found->second)) continue;
    block.to = found->second;
    block.end = n + 1;
    if (differs) blocks.push_back(block);
    block = {.from = found->second, .begin = n + 1};
    differs = false;
  }
  return blocks;
}

// The nodes that make the one value of the other, as a graph.
Graph part_between(const Graph& graph, const std::string& from, const std::string& to) {
  const Shapes shapes = analysis_shapes(graph);
  Graph part = graph;
  if (from != graph.inputs[0].name) {
    const TensorType* type = shapes.find(from);
    ValueInfo input{.name = from, .dims = std::vector<Dim>()};
    if (type != nullptr) input.dtype = type->dtype;
    for (size_t axis = 0; type != nullptr && axis < type->dims.size(); ++axis)
      input.dims->push_back({.size = axis == 0 ? -1 : type->dims[axis]});
    part.inputs = {input};
    const auto maker = std::ranges::find_if(part.nodes, [&](const Node& node) { return node.outputs.front() == from; });
    part.nodes.erase(part.nodes.begin(), maker + 1);
  }
  part.outputs = {{.name = to}};
  return remove_unused(std::move(part));
}

double macs_of(const Graph& graph) {
  return static_cast<double>(std::max<int64_t>(1, cost_of(graph, analysis_shapes(graph)).macs));
}

at::Tensor relative_distance_of(const at::Tensor& target, const at::Tensor& own) {
  return (target - own).square().sum() / target.square().sum().clamp_min(1e-12);
}

// What a block is given, and what it should make of it.
struct Lesson {
  at::Tensor given, target;

  int64_t size() const { return given.size(0); }
  Lesson part(int64_t begin, int64_t end) const { return {given.slice(0, begin, end), target.slice(0, begin, end)}; }
  Lesson some(const at::Tensor& rows) const { return {given.index_select(0, rows), target.index_select(0, rows)}; }
};

class BlockRepair {
 public:
  BlockRepair(const Graph& original, const Graph& cut, const Samples& samples, const BlockRepairOptions& options,
              Observer& observer)
      : original_(original),
        options_(options),
        observer_(observer),
        samples_(samples),
        generator_(at::make_generator<at::CPUGeneratorImpl>(options.seed)) {
    result_.graph = cut;
  }

  RepairedBlocks run() {
    const auto blocks = blocks_of(original_, result_.graph);
    std::vector<double> costs;
    for (const Block& block : blocks) costs.push_back(macs_of(part_between(result_.graph, block.from, block.to)));
    double rest = 0;
    for (const double cost : costs) rest += cost;
    SideBySide both(original_, result_.graph, samples_);
    const auto start = Clock::now();
    for (size_t b = 0; b < blocks.size(); ++b) {
      // Of the time that is left: to run up to a block takes some as well.
      const double left = options_.minutes - minutes_since(start);
      if (options_.minutes > 0 && left <= 0) break;
      learn(blocks[b], both, options_.minutes > 0 ? left * costs[b] / rest : 0);
      rest -= costs[b];
      observer_.step("repairing blocks", static_cast<int64_t>(b) + 1, static_cast<int64_t>(blocks.size()));
    }
    return std::move(result_);
  }

 private:
  static double minutes_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count() / 60;
  }

  // Of as many samples as fit the memory.
  Lesson lesson(const Block& block, SideBySide& both) const {
    const Program original(part_between(original_, block.from, block.to));
    std::vector<at::Tensor> given, target;
    int64_t bytes = 0;
    both.run_to<Lesson>(
        block.begin,
        [&](const BothValues& values) {
          const at::NoGradGuard no_grad;
          const std::vector<at::Tensor> inputs = {values.before[0].at(block.from)};
          return Lesson{values.after.at(block.from), original.run(inputs).outputs.at(0)}.part(0, values.count);
        },
        [&](const Lesson& piece) {
          if (bytes > options_.memory) return;
          bytes += static_cast<int64_t>(piece.given.nbytes() + piece.target.nbytes());
          given.push_back(piece.given);
          target.push_back(piece.target);
        });
    return {at::cat(given), at::cat(target)};
  }

  void learn(const Block& block, SideBySide& both, double minutes) {
    const auto start = Clock::now();
    const Program program(part_between(result_.graph, block.from, block.to));
    const Lesson all = lesson(block, both);
    const auto held = static_cast<int64_t>(std::floor(static_cast<double>(all.size()) * options_.held_out));
    AveragedAdam learner(program.graph(), own_tensors(program.graph(), block));
    if (held < 1 || held == all.size() || learner.empty()) return;
    const Lesson learned = all.part(0, all.size() - held), checked = all.part(all.size() - held, all.size());
    RepairedBlock report{.from = block.from, .to = block.to, .before = loss(program, nullptr, checked)};
    double done = 0;
    while (done < 1) {
      make_step(program, learned, learner, cosine_rate(options_.rate, done));
      ++report.steps;
      done = minutes > 0 ? minutes_since(start) / minutes
                         : static_cast<double>(report.steps) / static_cast<double>(options_.steps);
    }
    report.after = loss(program, &learner.averaged(), checked);
    if (report.after < report.before) {
      for (const auto& [name, tensor] : learner.averaged()) result_.graph.tensors[name] = tensor;
      both.note_change(block.begin);
    } else {
      report.after = report.before;
    }
    result_.blocks.push_back(std::move(report));
  }

  void make_step(const Program& program, const Lesson& learned, AveragedAdam& learner, double rate) {
    const int64_t count = std::min(options_.batch, learned.size());
    const Lesson batch = learned.some(at::randint(learned.size(), {count}, generator_, at::TensorOptions(at::kLong)));
    const at::AutoGradMode recording(true);
    RunOptions run;
    run.parameters = &learner.raw();
    const std::vector<at::Tensor> inputs = {batch.given};
    learner.step(relative_distance_of(batch.target, program.run(inputs, run).outputs.at(0)), rate);
  }

  // What is trained in the block, and not read by any node outside.
  std::vector<std::string> own_tensors(const Graph& part, const Block& block) const {
    std::set<std::string> others;
    for (size_t n = 0; n < result_.graph.nodes.size(); ++n)
      if (n < block.begin || n >= block.end)
        others.insert(result_.graph.nodes[n].inputs.begin(), result_.graph.nodes[n].inputs.end());
    std::vector<std::string> names = trained_tensors(part);
    std::erase_if(names, [&](const std::string& name) { return others.contains(name); });
    return names;
  }

  double loss(const Program& program, const TensorMap* parameters, const Lesson& lesson) const {
    const at::NoGradGuard no_grad;
    RunOptions run;
    run.parameters = parameters;
    double apart = 0, whole = 0;
    for (int64_t i = 0; i < lesson.size(); i += options_.batch) {
      const Lesson piece = lesson.part(i, i + options_.batch);
      const std::vector<at::Tensor> inputs = {piece.given};
      apart += (piece.target - program.run(inputs, run).outputs.at(0)).square().sum().item<double>();
      whole += piece.target.square().sum().item<double>();
    }
    return apart / std::max(whole, 1e-12);
  }

  const Graph& original_;
  const BlockRepairOptions options_;
  Observer& observer_;
  const Samples& samples_;
  at::Generator generator_;
  RepairedBlocks result_;
};

}  // namespace

std::vector<RepairedBlock> repairable_blocks(const Graph& original, const Graph& cut) {
  std::vector<RepairedBlock> blocks;
  for (const Block& block : blocks_of(original, cut)) blocks.push_back({.from = block.from, .to = block.to});
  return blocks;
}

RepairedBlocks repair_blocks(const Graph& original, const Graph& cut, const Samples& samples,
                             const BlockRepairOptions& options, Observer& observer) {
  return BlockRepair(original, cut, samples, options, observer).run();
}

}  // namespace pare
