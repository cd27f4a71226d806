#include "pare/ops/op.h"
#include "pare/run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

#include "pare/exec/bodies.h"
#include "pare/exec/fixed_batch.h"
#include "pare/io/onnx/subgraph.h"
#include "pare/ops/dtype.h"

namespace pare {

Program::Program(Graph graph) : graph_(std::move(graph)) {
  verify(graph_);
  carries_ = !graph_.carried.empty();
  for (const auto& input : graph_.inputs) number(input.name);
  for (const auto& node : graph_.nodes) {
    Step step{.op = &require_op(node), .node = &node};
    for (const auto& input : node.inputs) step.inputs.push_back(input.empty() ? -1 : read(input));
    for (const auto& capture : node.captures) step.captured.push_back(read(capture));
    carries_ = carries_ || named_type(node).value_or(0) != 0;
    if (has_subgraph(node)) step.bodies = std::make_shared<NodeBodies>(graph_, node);
    for (const auto& output : node.outputs) step.outputs.push_back(output.empty() ? -1 : number(output));
    steps_.push_back(std::move(step));
  }
  std::set<int> later;
  for (const auto& output : graph_.outputs) {
    later.insert(read(output.name));
  }
  for (size_t s = steps_.size(); s-- > 0;) {
    Step& step = steps_[s];
    later.insert(step.captured.begin(), step.captured.end());
    step.last.resize(step.inputs.size());
    for (size_t i = step.inputs.size(); i-- > 0;) step.last[i] = later.insert(step.inputs[i]).second;
  }
}

int Program::number(const std::string& value) {
  return numbers_.emplace(value, static_cast<int>(numbers_.size())).first->second;
}

int Program::read(const std::string& value) {
  const bool first = graph_.is_constant(value) && !numbers_.contains(value);
  const int id = number(value);
  if (first) constants_.emplace_back(id, value);
  return id;
}

namespace {

// Only the holder of a tensor that owns its memory alone may write into it. What autograd keeps for the backward pass
// shares the memory, so a tensor that it needs unchanged is not owned alone.
bool owned_alone(const at::Tensor& tensor) {
  return tensor.defined() && tensor.use_count() == 1 && tensor.storage().use_count() == 1 &&
         tensor.is_non_overlapping_and_dense() && !tensor.is_view();
}

}  // namespace

std::vector<at::Tensor> Program::run_step(const Step& step, std::vector<at::Tensor>& values,
                                          std::vector<int32_t>& carried, const RunOptions& options) const {
  std::vector<at::Tensor> inputs(step.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (step.inputs[i] < 0) continue;
    auto& value = values[static_cast<size_t>(step.inputs[i])];
    inputs[i] = step.last[i] ? std::move(value) : value;
    if (step.last[i]) value = at::Tensor();
  }
  EvalContext context{.node = *step.node, .inputs = inputs, .training = options.training};
  context.may_overwrite = [&](size_t i) { return owned_alone(inputs[i]); };
  std::vector<at::Tensor> captured;
  for (const int value : step.captured) captured.push_back(values[static_cast<size_t>(value)]);
  if (step.bodies)
    context.body = [&](const std::string& attribute, const std::vector<at::Tensor>& given) {
      return step.bodies->run(attribute, given, captured);
    };
  if (options.training) context.sum_over_ranks = options.sum_over_ranks;
  if (options.training && options.statistics != nullptr)
    context.update = [&](size_t i, const at::Tensor& tensor) { (*options.statistics)[step.node->inputs[i]] = tensor; };
  if (!carries_) return evaluate(*step.op, context);
  std::vector<int32_t> read, made;
  for (const int input : step.inputs) read.push_back(input < 0 ? 0 : carried[static_cast<size_t>(input)]);
  const bool any = std::ranges::any_of(read, [](int32_t code) { return code != 0; });
  if (any && step.bodies)
    throw Error(ErrorKind::unsupported, describe(*step.node),
                "gives its subgraph numbers of a type that it may not know");
  context.carried = read;
  context.made = &made;
  auto outputs = evaluate(*step.op, context);
  for (size_t i = 0; i < step.outputs.size() && i < made.size(); ++i)
    if (step.outputs[i] >= 0) carried[static_cast<size_t>(step.outputs[i])] = made[i];
  return outputs;
}

namespace {

// An output without the batch as its first extent (squeezed away) gets an axis for it.
at::Tensor joined_output(const std::vector<at::Tensor>& parts, int64_t batch, int64_t images) {
  const at::Tensor& first = parts.front();
  return first.dim() == 0 || first.size(0) != batch ? at::stack(parts) : joined_batches(parts, batch, images);
}

RunResult run_in_batches(const Program& program, std::span<const at::Tensor> inputs, const RunOptions& options,
                         int64_t batch) {
  std::vector<std::vector<at::Tensor>> outputs(program.graph().outputs.size());
  std::map<std::string, std::vector<at::Tensor>> tapped;
  for (const auto& piece : in_fixed_batches(inputs, batch)) {
    RunResult one = program.run(piece, options);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(std::move(one.outputs[i]));
    for (auto& [name, value] : one.tapped) tapped[name].push_back(std::move(value));
  }
  RunResult all;
  const int64_t images = inputs[0].size(0);
  for (const auto& parts : outputs) all.outputs.push_back(joined_output(parts, batch, images));
  for (const auto& [name, parts] : tapped)
    all.tapped[name] = program.graph().is_constant(name) ? parts.front() : joined_batches(parts, batch, images);
  return all;
}

}  // namespace

RunResult Program::run(std::span<const at::Tensor> inputs, const RunOptions& options) const {
  if (const int64_t batch = options.training ? 0 : piece_of_fixed_batch(graph_, inputs); batch > 0)
    return run_in_batches(*this, inputs, options, batch);
  if (inputs.size() != graph_.inputs.size())
    throw Error(ErrorKind::shape, graph_.name, "{} inputs given, the graph has {}", inputs.size(),
                graph_.inputs.size());
  std::vector<at::Tensor> values(numbers_.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i];
  for (const auto& [id, name] : constants_) {
    const at::Tensor* tensor = &graph_.tensor(name);
    if (options.parameters != nullptr)
      if (const auto found = options.parameters->find(name); found != options.parameters->end())
        tensor = &found->second;
    values[static_cast<size_t>(id)] = *tensor;
  }
  std::vector<int32_t> carried(carries_ ? numbers_.size() : 0, 0);
  for (const auto& [name, code] : graph_.carried)
    if (const auto found = numbers_.find(name); found != numbers_.end() && carries_)
      carried[static_cast<size_t>(found->second)] = code;
  RunResult result;
  const std::set<std::string_view> taps(options.taps.begin(), options.taps.end());
  for (const auto& name : options.taps) {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) throw Error(ErrorKind::usage, name, "the graph has no such value to tap");
    if (values[static_cast<size_t>(found->second)].defined())
      result.tapped[name] = values[static_cast<size_t>(found->second)];
  }
  for (const auto& step : steps_) {
    auto outputs = run_step(step, values, carried, options);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] < 0) continue;
      if (i >= outputs.size() || !outputs[i].defined())
        throw Error(ErrorKind::unsupported, describe(*step.node), "its output {} is not computed", i);
      const std::string& name = step.node->outputs[i];
      if (options.transform) outputs[i] = options.transform(name, outputs[i]);
      if (taps.contains(name)) result.tapped[name] = outputs[i];
      values[static_cast<size_t>(step.outputs[i])] = std::move(outputs[i]);
    }
  }
  for (const auto& output : graph_.outputs)
    result.outputs.push_back(values[static_cast<size_t>(numbers_.find(output.name)->second)]);
  return result;
}

RunResult forward(const Graph& graph, std::span<const at::Tensor> inputs, const RunOptions& options) {
  return Program(graph).run(inputs, options);
}

}  // namespace pare
