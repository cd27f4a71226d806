#include "pare/io/onnx/lower.h"

#include <ATen/ATen.h>

#include <optional>
#include <set>

#include "pare/error.h"
#include "pare/io/onnx/import.h"
#include "pare/io/onnx/names.h"
#include "pare/io/onnx/subgraph.h"
#include "pare/io/onnx/upgrade.h"
#include "pare/io/onnx/versions.h"

namespace pare {

namespace {

struct LowerContext {
  Graph& graph;
  int64_t opset;
  FreeNames names;
  std::vector<Node> before;  // nodes that go before and after the current one
  std::vector<Node> after;
  std::set<std::string> detached;  // tensors that were inputs and are attributes now

  // Makes a node whose only output is new.
  Node make(const Node& origin, const std::string& op, std::vector<std::string> inputs) {
    const std::string name = names.fresh(origin.name + "_" + op);
    return {.name = name, .op = op, .inputs = std::move(inputs), .outputs = {names.fresh(name + "_output")}};
  }
  std::string add_tensor(const Node& node, const std::string& suffix, at::Tensor tensor) {
    std::string name = names.fresh(node.name + "_" + suffix);
    graph.tensors.emplace(name, std::move(tensor));
    return name;
  }
};

using LowerFunction = void (*)(Node& node, LowerContext& context);

void drop_trailing_absent(Node& node) {
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
}

// A constant input becomes an attribute; needed_opset() has seen that it is constant.
void input_to_attribute(Node& node, LowerContext& context, size_t index, const std::string& attribute) {
  if (const auto values = constant_integers(node, index, context.graph)) {
    if (!values->empty()) node.attributes[attribute] = *values;
    context.detached.insert(node.inputs[index]);
    node.inputs[index].clear();
  }
  drop_trailing_absent(node);
}

void lower_axes(Node& node, LowerContext& context) { input_to_attribute(node, context, 1, "axes"); }

void lower_reduction(Node& node, LowerContext& context) {
  lower_axes(node, context);
  node.attributes.erase("noop_with_empty_axes");
}

void lower_split(Node& node, LowerContext& context) { input_to_attribute(node, context, 1, "split"); }

void lower_equal_split(Node& node, LowerContext&) { node.attributes.erase("num_outputs"); }

void lower_dropout(Node& node, LowerContext& context) {
  if (node.has_input(1)) {
    node.attributes["ratio"] = context.graph.tensor(node.inputs[1]).reshape({}).to(at::kDouble).item<double>();
    context.detached.insert(node.inputs[1]);
    node.inputs[1].clear();
  }
  drop_trailing_absent(node);
}

// Pads of some axes become pads of all.
void lower_pad_axes(Node& node, LowerContext& context) {
  if (!node.has_input(3)) return;
  const auto rank = stated_rank(node.inputs[0], context.graph).value();
  const auto some = constant_integers(node, 1, context.graph).value();
  const auto axes = constant_integers(node, 3, context.graph).value();
  if (some.size() != 2 * axes.size())
    throw Error(ErrorKind::format, describe(node), "has {} pads for {} axes", some.size(), axes.size());
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) throw Error(ErrorKind::format, describe(node), "pads axis {} of {}", axes[i], rank);
    pads[axis] = some[i];
    pads[axis + rank] = some[axes.size() + i];
  }
  context.detached.insert({node.inputs[1], node.inputs[3]});
  node.inputs[1] = context.add_tensor(node, "pads", at::tensor(pads, at::kLong));
  node.inputs[3].clear();
  drop_trailing_absent(node);
}

// Opset 11 wants roi and scales to be there, empty or not.
void lower_resize(Node& node, LowerContext& context) {
  if (node.inputs.size() < 3) node.inputs.resize(3);
  for (const size_t i : {1, 2})
    if (node.inputs[i].empty())
      node.inputs[i] = context.add_tensor(node, i == 1 ? "roi" : "scales", at::empty({0}, at::kFloat));
}

void lower_grid_sample(Node& node, LowerContext&) {
  const std::string mode = node.text("mode", "linear");
  if (mode == "linear") node.attributes["mode"] = std::string("bilinear");
  if (mode == "cubic") node.attributes["mode"] = std::string("bicubic");
}

void lower_roi_align(Node& node, LowerContext&) { node.attributes.erase("coordinate_transformation_mode"); }

// Below 13 flattening at the axis is what Softmax does; the default axis was another one.
void lower_softmax(Node& node, LowerContext&) {
  node.attributes.erase("flatten");
  node.attributes.emplace("axis", int64_t{-1});
}

bool is_last_axis(const Node& node, int64_t axis, const Graph& graph) {
  if (axis == -1) return true;
  auto rank = stated_rank(node.inputs[0], graph);
  if (!rank) rank = stated_rank(node.outputs[0], graph);
  return rank && axis == *rank - 1;
}

// Y = Reshape(Softmax(Flatten(X, axis)), Shape(X))
void write_out_flatten(Node& node, LowerContext& context) {
  if (!node.has("flatten") || !node.has_input(0) || node.outputs.empty()) return;
  const int64_t axis = node.integer("axis", -1);
  node.attributes.erase("flatten");
  if (is_last_axis(node, axis, context.graph)) return;
  const Node shape = context.make(node, "Shape", {node.inputs[0]});
  Node flatten = context.make(node, "Flatten", {node.inputs[0]});
  flatten.attributes["axis"] = axis;
  Node reshape = context.make(node, "Reshape", {"", shape.outputs[0]});
  std::swap(reshape.outputs[0], node.outputs[0]);
  reshape.inputs[0] = node.outputs[0];
  node.inputs[0] = flatten.outputs[0];
  node.attributes["axis"] = int64_t{-1};
  context.before = {shape, flatten};
  context.after = {reshape};
}

// One scale per group is an InstanceNormalization whose channels are the groups; opsets 18 to 20 have it as it is.
void write_out_groups(Node& node, LowerContext& context) {
  if (!node.has("per_group") || node.inputs.size() != 3 || node.outputs.size() != 1) return;
  node.attributes.erase("per_group");
  if (context.opset >= 18 && context.opset <= 20) return;
  const int64_t groups = node.integer("num_groups", 1);
  const Node shape = context.make(node, "Shape", {node.inputs[0]});
  const std::string grouped =
      context.add_tensor(node, "shape", at::tensor(std::vector<int64_t>{0, groups, -1}, at::kLong));
  const Node group = context.make(node, "Reshape", {node.inputs[0], grouped});
  Node ungroup = context.make(node, "Reshape", {"", shape.outputs[0]});
  std::swap(ungroup.outputs[0], node.outputs[0]);
  ungroup.inputs[0] = node.outputs[0];
  node.op = "InstanceNormalization";
  node.inputs[0] = group.outputs[0];
  node.attributes.erase("num_groups");
  node.attributes.erase("stash_type");
  context.before = {shape, group};
  context.after = {ungroup};
}

struct LowerRule {
  std::string_view op;
  int64_t from;
  int64_t below;  // applies when the written opset is in [from, below)
  LowerFunction lower;
};

constexpr int64_t kAnyOpset = kCanonicalOpset + 1;

constexpr LowerRule kLowerings[] = {
    {"Dropout", 11, 12, lower_dropout},
    {"Resize", 11, 13, lower_resize},
    {"Squeeze", 11, 13, lower_axes},
    {"Unsqueeze", 11, 13, lower_axes},
    {"Split", 11, 13, lower_split},
    {"Split", 11, 18, lower_equal_split},
    {"ReduceSum", 11, 13, lower_reduction},
    {"ReduceL1", 11, 18, lower_reduction},
    {"ReduceL2", 11, 18, lower_reduction},
    {"ReduceLogSum", 11, 18, lower_reduction},
    {"ReduceLogSumExp", 11, 18, lower_reduction},
    {"ReduceMax", 11, 18, lower_reduction},
    {"ReduceMean", 11, 18, lower_reduction},
    {"ReduceMin", 11, 18, lower_reduction},
    {"ReduceProd", 11, 18, lower_reduction},
    {"ReduceSumSquare", 11, 18, lower_reduction},
    {"Pad", 11, 18, lower_pad_axes},
    {"RoiAlign", 11, 16, lower_roi_align},
    {"GridSample", 16, 20, lower_grid_sample},
    {"Softmax", 11, 13, lower_softmax},
    {"LogSoftmax", 11, 13, lower_softmax},
    {"Hardmax", 11, 13, lower_softmax},
    {"Softmax", 13, kAnyOpset, write_out_flatten},
    {"LogSoftmax", 13, kAnyOpset, write_out_flatten},
    {"Hardmax", 13, kAnyOpset, write_out_flatten},
    {"GroupNormalization", 11, kAnyOpset, write_out_groups},
};

// The opset of the file, where something in a subgraph has another form in `opset`; nothing where all can be written
// so.
std::optional<int64_t> opset_of_bodies(const Graph& graph, int64_t opset, bool needed,
                                       std::vector<std::string>& raised_by) {
  const int64_t source = graph.source_opset;
  if (source == 0 || source == opset) return std::nullopt;
  const auto keep = [&](const std::string& where, const std::string& op) {
    if (source < kOldestWritten || (needed && source < opset))
      throw Error(ErrorKind::unsupported, where, "has {} of opset {}, which opset {} writes differently", op, source,
                  opset);
    raised_by.push_back(fmt::format("{} has {} of opset {}", where, op, source));
    return source;
  };
  for (const auto& node : graph.nodes)
    for (const auto& [domain, op] : content_of_subgraphs(node).operators)
      if (domain.empty() && (form_differs(op, source, opset) || may_have_newer_attributes(op, source, opset)))
        return keep("the subgraph of " + describe(node), op);
  return std::nullopt;
}

// The opset that every node can be written in, and who needs more than the target.
int64_t choose_opset(const Graph& graph, int64_t target, std::vector<std::string>& raised_by) {
  int64_t opset = target;
  for (const auto& node : graph.nodes) {
    const int64_t needed = needed_opset(node, graph);
    if (needed > target) raised_by.push_back(fmt::format("{} needs opset {}", describe(node), needed));
    opset = std::max(opset, needed);
  }
  for (const auto& [name, tensor] : graph.tensors)
    if (tensor.scalar_type() == at::kBFloat16 && opset < 13) {
      raised_by.push_back(fmt::format("tensor '{}' is bfloat16, which needs opset 13", name));
      opset = 13;
    }
  for (const auto& [name, type] : graph.carried)  // uint4 and int4 came with opset 21, uint2 and int2 with 25
    if (const int64_t needed = type >= 25 ? 25 : type >= 21 ? 21 : 0; needed > opset) {
      raised_by.push_back(fmt::format("'{}' is of fewer than eight bits, which needs opset {}", name, needed));
      opset = needed;
    }
  if (const auto kept = opset_of_bodies(graph, opset, opset > target, raised_by)) return *kept;
  return opset;
}

}  // namespace

LoweredGraph lower(Graph graph, int64_t target) {
  check_written_opset(target);
  std::vector<std::string> raised_by;
  const int64_t opset = choose_opset(graph, target, raised_by);
  LowerContext context{.graph = graph, .opset = opset, .names = FreeNames(graph)};
  std::vector<Node> lowered;
  lowered.reserve(graph.nodes.size());
  for (auto& node : graph.nodes) {
    if (node.domain.empty()) {
      for (const auto& rule : kLowerings)
        if (rule.from <= opset && opset < rule.below && rule.op == node.op) rule.lower(node, context);
      drop_newer_attributes(node, opset);
    }
    std::ranges::move(context.before, std::back_inserter(lowered));
    lowered.push_back(std::move(node));
    std::ranges::move(context.after, std::back_inserter(lowered));
    context.before.clear();
    context.after.clear();
  }
  graph.nodes = std::move(lowered);
  drop_unread(context.graph, context.detached);
  return {.graph = std::move(graph), .opset = opset, .raised_by = std::move(raised_by)};
}

}  // namespace pare
