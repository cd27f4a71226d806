// Helpers of the operator tests: build a node, evaluate it, infer its types, compare gradients with differences, and
// run its label rule by itself.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pare/ops/labels.h"
#include "pare/ops/op.h"

namespace pare::testing {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;
using Tensors = std::vector<at::Tensor>;
using Attributes = std::map<std::string, Attribute>;

inline Attribute integer(int64_t value) { return value; }
inline Attribute text(const char* value) { return std::string(value); }
inline at::Tensor ints(const Ints& values) { return at::tensor(values, at::kLong); }
inline at::Tensor reals(const Reals& values, at::ScalarType dtype = at::kFloat) {
  return at::tensor(values, at::kDouble).to(dtype);
}

// A node "n" that reads x0, x1… and makes y0, y1…; undefined tensors are absent inputs.
inline Node make_node(const std::string& op, const Tensors& inputs, Attributes attributes = {}, size_t outputs = 1) {
  Node node{.name = "n", .op = op, .attributes = std::move(attributes)};
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(inputs[i].defined() ? "x" + std::to_string(i) : "");
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back("y" + std::to_string(i));
  return node;
}

inline std::vector<TensorType> types_of(const Tensors& tensors) {
  std::vector<TensorType> types;
  for (const auto& t : tensors)
    types.push_back(t.defined() ? TensorType{t.scalar_type(), t.sizes().vec()} : TensorType{});
  return types;
}

inline std::vector<TensorType> infer(const Node& node, const Tensors& inputs) {
  const auto types = types_of(inputs);
  const auto present = std::make_unique<bool[]>(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) present[i] = inputs[i].defined();
  return require_op(node).infer(
      {.node = node, .types = types, .values = inputs, .present = {present.get(), inputs.size()}});
}

// Evaluates, and checks that inference agrees.
inline Tensors run(const std::string& op, const Tensors& inputs, Attributes attributes = {}, size_t outputs = 1) {
  const Node node = make_node(op, inputs, std::move(attributes), outputs);
  const Tensors results = require_op(node).evaluate({.node = node, .inputs = inputs});
  std::vector<TensorType> inferred;
  try {
    inferred = infer(node, inputs);
  } catch (const UnknownValue&) {
    return results;
  }
  const auto found = types_of(results);
  for (size_t i = 0; i < outputs; ++i) EXPECT_EQ(to_string(inferred.at(i)), to_string(found.at(i))) << op;
  return results;
}

inline void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance = 1e-6) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_TRUE(at::allclose(a.to(at::kDouble), b.to(at::kDouble), tolerance, tolerance, /*equal_nan=*/true))
      << a << "\nexpected\n"
      << b;
}

// The kind of the Error that evaluation throws; fails the test when it throws none.
inline std::string error_kind(const std::string& op, const Tensors& inputs, Attributes attributes = {}) {
  try {
    const Node node = make_node(op, inputs, std::move(attributes));
    require_op(node).evaluate({.node = node, .inputs = inputs});
  } catch (const Error& error) {
    EXPECT_NE(error.where().find("'n'"), std::string::npos) << error.what();
    return std::string(to_string(error.kind()));
  }
  return "none";
}

// Gradient of <output 0, fixed weights> with respect to input `which`, by autograd and by central differences.
inline void expect_gradient(const std::string& op, Tensors inputs, size_t which, Attributes attributes = {}) {
  const Node node = make_node(op, inputs, std::move(attributes));
  const auto& definition = require_op(node);
  const at::Tensor base = inputs[which].detach().to(at::kDouble).clone();
  at::Tensor weights;
  const auto objective = [&](const at::Tensor& x) {
    inputs[which] = x;
    const at::Tensor y = definition.evaluate({.node = node, .inputs = inputs})[0];
    if (!weights.defined()) weights = at::linspace(0.5, 1.5, y.numel(), at::kDouble).reshape(y.sizes());
    return (y * weights).sum();
  };
  at::Tensor leaf = base.clone();
  leaf.requires_grad_();
  objective(leaf).backward();
  ASSERT_TRUE(leaf.grad().defined()) << op;
  at::Tensor numeric = at::zeros_like(base).flatten();
  constexpr double h = 1e-5;
  for (int64_t i = 0; i < base.numel(); ++i) {
    const auto shifted = [&](double by) {
      at::Tensor x = base.clone();
      x.flatten()[i] += by;
      return objective(x).item<double>();
    };
    numeric[i] = (shifted(h) - shifted(-h)) / (2 * h);
  }
  expect_close(leaf.grad(), numeric.reshape(base.sizes()), 1e-6);
}

// Numbers without ties, in double.
inline at::Tensor distinct(const Ints& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return (at::remainder(at::arange(count, at::kDouble) * 37, 101) / 101 + at::arange(count, at::kDouble) * 1e-3 - 0.4)
      .reshape(dims);
}

// One label rule by itself. Inputs are given with their values; channels are put on the inputs by hand.
struct LabelRun {
  Node node;
  Tensors inputs;
  std::vector<TensorType> input_types, output_types;
  Tensors ids, values;
  ChannelSets sets;
  std::vector<Slot> slots;
  Tensors out_ids;

  LabelRun(const std::string& op, const Tensors& operands, Attributes attributes = {}, size_t outputs = 1)
      : node(make_node(op, operands, std::move(attributes), outputs)),
        inputs(operands),
        input_types(types_of(operands)),
        output_types(infer(node, operands)),
        ids(operands.size()),
        values(operands.size()) {
    output_types.resize(outputs);
  }
  // New channels along an axis of input i.
  void label(size_t i, int64_t axis) {
    const int64_t count = inputs[i].size(axis);
    const int64_t first = sets.make(count, 0);
    Ints dims(inputs[i].sizes().size(), 1);
    dims[static_cast<size_t>(axis)] = count;
    ids[i] = (at::arange(count, at::kLong) + first).reshape(dims);
  }
  void know(size_t i) { values[i] = inputs[i]; }
  void run(bool parameter = false) {
    const auto is_parameter = std::make_unique<bool[]>(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) is_parameter[i] = i == 0 && parameter;
    LabelContext context(node, 0, input_types, output_types, ids, values, {is_parameter.get(), inputs.size()}, sets,
                         slots);
    require_op(node).labels(context);
    out_ids = context.out_ids;
  }
};

// Runs the rewrite rule after channels of input 0 (and output 0) were removed; the graph holds the other inputs.
inline Graph rewritten(const LabelRun& labelled, const at::Tensor& input_keep, const at::Tensor& output_keep) {
  Graph graph;
  for (size_t i = 1; i < labelled.inputs.size(); ++i)
    if (labelled.inputs[i].defined()) graph.tensors[labelled.node.inputs[i]] = labelled.inputs[i];
  graph.nodes = {labelled.node};
  Tensors input_keeps(labelled.inputs.size());
  input_keeps[0] = input_keep;
  const Tensors output_keeps{output_keep};
  Node node = labelled.node;
  RewriteContext context{node, graph, labelled.input_types, labelled.output_types, input_keeps, output_keeps};
  require_op(node).rewrite(context);
  graph.nodes = {node};
  return graph;
}

}  // namespace pare::testing
