// If, Loop and Scan. Their subgraphs are run by whoever evaluates the node (EvalContext::body); how often is bounded,
// as a small file can ask for any number of rounds.
#include <ATen/ATen.h>

#include <algorithm>

#include "pare/ops/common.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace control_flow {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kMostRounds = 1'000'000;  // of all loops inside one another together

// Rounds of the loops that this thread is in.
struct Rounds {
  static thread_local int64_t inside, count;
  explicit Rounds(const Node& n) : node(n) {
    if (inside++ == 0) count = 0;
  }
  ~Rounds() { --inside; }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;
  void next() const {
    if (++count > kMostRounds)
      throw Error(ErrorKind::unsupported, describe(node), "loops more than {} times", kMostRounds);
  }
  const Node& node;
};
thread_local int64_t Rounds::inside = 0;
thread_local int64_t Rounds::count = 0;

Tensors run_body(const EvalContext& context, const std::string& attribute, const Tensors& inputs, size_t least) {
  if (!context.body) throw Error(ErrorKind::unsupported, describe(context.node), "has a subgraph, and is not run here");
  Tensors outputs = context.body(attribute, inputs);
  if (outputs.size() < least)
    throw Error(ErrorKind::format, describe(context.node), "its subgraph '{}' makes {} values, expected {}", attribute,
                outputs.size(), least);
  return outputs;
}

bool truth(const Node& node, const Tensor& condition) {
  if (condition.numel() != 1 || condition.scalar_type() != at::kBool)
    throw Error(ErrorKind::format, describe(node), "its condition is {}",
                to_string(TensorType{condition.scalar_type(), condition.sizes().vec()}));
  return condition.item<bool>();
}

Tensors branch(const EvalContext& context) {
  return run_body(context, truth(context.node, context.in(0)) ? "then_branch" : "else_branch", {},
                  context.node.outputs.size());
}

// What the rounds made, one beside the other along a new axis; nothing where there were none.
Tensor stacked(const EvalContext& context, Tensors& parts, int64_t axis) {
  if (parts.empty())
    throw Error(ErrorKind::unsupported, describe(context.node), "makes a list of no rounds, whose type is not known");
  for (const auto& part : parts)
    if (part.sizes() != parts.front().sizes())
      throw Error(ErrorKind::shape, describe(context.node), "makes {} in one round and {} in another",
                  to_string(parts.front().sizes()), to_string(part.sizes()));
  return at::stack(parts, normalized_axis(axis, parts.front().dim() + 1, context.node));
}

// Inputs: most rounds, condition, first values. Subgraph: round, condition, values → condition, values, what is
// stacked.
Tensors loop(const EvalContext& context) {
  const Node& node = context.node;
  const size_t states = context.inputs.size() < 2 ? 0 : context.inputs.size() - 2;
  const bool counted = context.has(0);
  if (counted && context.in(0).numel() != 1)
    throw Error(ErrorKind::format, describe(node), "counts its rounds by {} numbers", context.in(0).numel());
  const int64_t most = counted ? context.in(0).item<int64_t>() : INT64_MAX;
  bool goes_on = !context.has(1) || truth(node, context.in(1));
  if (node.outputs.size() < states)
    throw Error(ErrorKind::format, describe(node), "makes {} values of {}", node.outputs.size(), states);
  Tensors values(context.inputs.begin() + static_cast<int64_t>(std::min<size_t>(2, context.inputs.size())),
                 context.inputs.end());
  std::vector<Tensors> lists(node.outputs.size() - states);
  const Rounds rounds(node);
  for (int64_t round = 0; round < most && goes_on; ++round) {
    rounds.next();
    Tensors inputs = {at::scalar_tensor(round, at::kLong), at::scalar_tensor(goes_on, at::kBool)};
    inputs.insert(inputs.end(), values.begin(), values.end());
    const Tensors outputs = run_body(context, "body", inputs, 1 + node.outputs.size());
    goes_on = truth(node, outputs[0]);
    for (size_t i = 0; i < states; ++i) values[i] = outputs[1 + i];
    for (size_t i = 0; i < lists.size(); ++i) lists[i].push_back(outputs[1 + states + i]);
  }
  for (size_t i = 0; i < lists.size(); ++i)
    values.push_back(node.outputs[states + i].empty() ? Tensor() : stacked(context, lists[i], 0));
  return values;
}

std::vector<int64_t> list_of(const Node& node, const char* name, size_t count) {
  auto list = node.integers(name, std::vector<int64_t>(count, 0));
  if (list.size() != count)
    throw Error(ErrorKind::format, describe(node), "{} has {} entries, expected {}", name, list.size(), count);
  return list;
}

// Inputs: first values, then what is gone over. Subgraph: values, slices → values, what is stacked.
Tensors scan(const EvalContext& context) {
  const Node& node = context.node;
  const int64_t scanned = node.integer("num_scan_inputs", 0);
  const auto count = static_cast<int64_t>(context.inputs.size());
  if (scanned < 1 || scanned > count) throw Error(ErrorKind::format, describe(node), "goes over {} inputs", scanned);
  const auto states = static_cast<size_t>(count - scanned);
  if (node.outputs.size() < states)
    throw Error(ErrorKind::format, describe(node), "makes {} values of {}", node.outputs.size(), states);
  const size_t stacks = node.outputs.size() - states;
  const auto axes = list_of(node, "scan_input_axes", static_cast<size_t>(scanned));
  const auto directions = list_of(node, "scan_input_directions", static_cast<size_t>(scanned));
  const auto out_axes = list_of(node, "scan_output_axes", stacks);
  const auto out_directions = list_of(node, "scan_output_directions", stacks);
  Tensors values(context.inputs.begin(), context.inputs.begin() + static_cast<int64_t>(states));
  Tensors sequences;
  for (size_t i = 0; i < static_cast<size_t>(scanned); ++i) {
    const Tensor& x = context.in(states + i);
    if (x.dim() == 0) throw Error(ErrorKind::shape, describe(node), "goes over a single number");
    sequences.push_back(x.movedim(normalized_axis(axes[i], x.dim(), node), 0));
    if (sequences[i].size(0) != sequences[0].size(0))
      throw Error(ErrorKind::shape, describe(node), "goes over {} entries and over {}", sequences[0].size(0),
                  sequences[i].size(0));
  }
  std::vector<Tensors> lists(stacks);
  const Rounds rounds(node);
  const int64_t length = sequences[0].size(0);
  for (int64_t t = 0; t < length; ++t) {
    rounds.next();
    Tensors inputs = values;
    for (size_t i = 0; i < sequences.size(); ++i)
      inputs.push_back(sequences[i][directions[i] != 0 ? length - 1 - t : t]);
    const Tensors outputs = run_body(context, "body", inputs, node.outputs.size());
    for (size_t i = 0; i < states; ++i) values[i] = outputs[i];
    for (size_t i = 0; i < stacks; ++i) lists[i].push_back(outputs[states + i]);
  }
  for (size_t i = 0; i < stacks; ++i) {
    if (out_directions[i] != 0) std::ranges::reverse(lists[i]);
    values.push_back(node.outputs[states + i].empty() ? Tensor() : stacked(context, lists[i], out_axes[i]));
  }
  return values;
}

// What a subgraph makes is known where the file says it.
std::vector<TensorType> infer(const InferContext& /*context*/) { throw UnknownValue{}; }

constexpr OpDef op(std::string_view type, std::string_view attributes, EvaluateFunction evaluate, size_t least,
                   size_t most) {
  return {.type = type,
          .attributes = attributes,
          .min_inputs = least,
          .max_inputs = most,
          .evaluate = evaluate,
          .infer = infer,
          .cost = cost_none,
          .labels = labels_frozen,
          .traits = {.own_types = true}};
}

constexpr OpDef kOps[] = {
    op("If", "else_branch then_branch", branch, 1, 1),
    op("Loop", "body", loop, 0, SIZE_MAX),
    op("Scan", "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions",
       scan, 1, SIZE_MAX),
};

}  // namespace control_flow
}  // namespace

std::span<const OpDef> control_flow_ops() { return control_flow::kOps; }

}  // namespace pare
