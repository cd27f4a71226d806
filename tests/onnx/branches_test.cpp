// An If that constants or shapes decide becomes its branch when a model is simplified.
#include <gtest/gtest.h>

#include "onnx/models.h"
#include "pare/analysis/channels.h"
#include "pare/analysis/cost.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/write.h"
#include "pare/ops/op.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"

namespace pare {
namespace {

using namespace testing_onnx;

onnx::GraphProto& branch(onnx::NodeProto& node, const std::string& name, const std::string& output) {
  auto& body = attribute(node, name);
  body.set_type(onnx::AttributeProto::GRAPH);
  body.mutable_g()->set_name(name);
  *body.mutable_g()->add_output() = make_value(output, {2, 4});
  return *body.mutable_g();
}

void add_constant(onnx::ModelProto& model, const std::string& name, bool value) {
  auto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::BOOL);
  tensor.add_int32_data(value ? 1 : 0);
}

// y = If(c) { Neg(h) } else { Exp(h) }, h = Relu(x). Both branches call their values as the outer graph does its own.
onnx::ModelProto decided(bool condition) {
  auto model = make_model(13);
  add_input(model, "x", {2, 4});
  add_output(model, "y", {2, 4});
  add_constant(model, "c", condition);
  add_node(model, "Relu", {"x"}, {"h"});
  auto& node = add_node(model, "If", {"c"}, {"y"});
  *branch(node, "then_branch", "t").add_node() = make_node("Neg", {"h"}, {"t"});
  *branch(node, "else_branch", "e").add_node() = make_node("Exp", {"h"}, {"e"});
  return model;
}

at::Tensor result(const Graph& graph, const at::Tensor& x) { return forward(graph, std::vector{x}).outputs.at(0); }

bool has_if(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op == "If"; });
}

TEST(Branches, AConstantDecides) {
  const at::Tensor x = at::randn({2, 4});
  for (const bool condition : {true, false}) {
    const Graph graph = simplify(read(decided(condition)));
    EXPECT_FALSE(has_if(graph));
    const at::Tensor h = x.relu();
    EXPECT_TRUE(at::allclose(result(graph, x), condition ? -h : h.exp()));
    EXPECT_EQ(graph.outputs[0].name, "y");
    EXPECT_NO_THROW(read_onnx_bytes(bytes_of(to_onnx_bytes(graph)), "again"));
  }
}

TEST(Branches, OneInsideAnotherIsReadWithTheNamesOfItsPlace) {
  auto model = decided(true);
  auto& body = *model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g();
  body.mutable_node(0)->set_output(0, "inner");
  auto* tensor = body.add_initializer();  // of the body, read by the If in it
  *tensor = model.graph().initializer(0);
  tensor->set_name("also");
  auto& nested = *body.add_node() = make_node("If", {"also"}, {"t"});
  *branch(nested, "then_branch", "deep").add_node() = make_node("Sub", {"inner", "x"}, {"deep"});
  *branch(nested, "else_branch", "deeper").add_node() = make_node("Exp", {"inner"}, {"deeper"});
  const Graph graph = simplify(read(model));
  EXPECT_FALSE(has_if(graph));
  const at::Tensor x = at::randn({2, 4});
  EXPECT_TRUE(at::allclose(result(graph, x), -x.relu() - x));
}

// The condition is whether an extent is 1, as exporters have it before a Squeeze.
onnx::ModelProto by_extent(const std::vector<int64_t>& input, int64_t axis) {
  auto model = make_model(13);
  add_input(model, "x", input);
  add_output(model, "y", {});
  const auto integer = [&](const std::string& name, int64_t value) {
    auto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_int64_data(value);
  };
  integer("axis", axis), integer("one", 1);
  add_node(model, "Shape", {"x"}, {"shape"});
  add_node(model, "Gather", {"shape", "axis"}, {"extent"});
  add_node(model, "Equal", {"extent", "one"}, {"c"});
  auto& node = add_node(model, "If", {"c"}, {"y"});
  *branch(node, "then_branch", "t").add_node() = make_node("Neg", {"x"}, {"t"});
  *branch(node, "else_branch", "e").add_node() = make_node("Exp", {"x"}, {"e"});
  return model;
}

TEST(Branches, ShapesDecideWhereEveryInputAgrees) {
  const Graph fixed = simplify(read(by_extent({-1, 4}, 1)));
  EXPECT_FALSE(has_if(fixed));
  EXPECT_EQ(fixed.nodes.front().op, "Exp");
  EXPECT_EQ(simplify(read(by_extent({-1, 1}, 1))).nodes.front().op, "Neg");
  EXPECT_TRUE(has_if(simplify(read(by_extent({-1, 4}, 0))))) << "one sample is a batch too";
  EXPECT_TRUE(has_if(simplify(read(by_extent({2, -1}, 1))))) << "and an open extent may be 1";
}

TEST(Branches, WhatCannotBeReadStays) {
  auto model = decided(true);
  model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g()->mutable_node(0)->set_op_type("NoSuchOp");
  EXPECT_NO_THROW(simplify(read(model)));
  auto data = decided(true);
  data.mutable_graph()->clear_initializer();
  add_input(data, "c", {}, onnx::TensorProto::BOOL);
  EXPECT_TRUE(has_if(simplify(read(data))));
}

// Exporters leave out the types of what branches give.
TEST(Branches, NeedNotSayWhatTheyGive) {
  auto model = decided(true);
  for (auto& attribute : *model.mutable_graph()->mutable_node(1)->mutable_attribute())
    attribute.mutable_g()->mutable_output(0)->mutable_type()->Clear();
  const Graph graph = simplify(read(model));
  EXPECT_FALSE(has_if(graph));
  const at::Tensor x = at::randn({2, 4});
  EXPECT_TRUE(at::allclose(result(graph, x), -x.relu()));
}

// Weights inside a branch, in one inside it, and outside but read there alone, are the node's. How often they are
// multiplied nobody knows.
TEST(Branches, CountWhatTheyHold) {
  auto model = decided(true);
  model.mutable_graph()->clear_initializer();
  add_input(model, "c", {}, onnx::TensorProto::BOOL);
  const auto weight = [](onnx::TensorProto& tensor, const std::string& name) {
    tensor.set_name(name), tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(4), tensor.add_dims(4);
    for (int i = 0; i < 16; ++i) tensor.add_float_data(1);
  };
  weight(*model.mutable_graph()->add_initializer(), "outside");
  auto& body = *model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g();
  body.clear_node();
  auto& constant = *body.add_node() = make_node("Constant", {}, {"w"});
  auto& value = attribute(constant, "value");
  value.set_type(onnx::AttributeProto::TENSOR);
  weight(*value.mutable_t(), "");
  value.mutable_t()->add_dims(1'000'000'000);  // a claim that the file does not fulfil
  auto& nested = *body.add_node() = make_node("If", {"c"}, {"t"});
  auto& deep = branch(nested, "then_branch", "deep");
  weight(*deep.add_initializer(), "inner");
  *deep.add_node() = make_node("Sum", {"inner", "w", "outside"}, {"deep"});
  *branch(nested, "else_branch", "deeper").add_node() = make_node("MatMul", {"h", "w"}, {"deeper"});
  const ModelCost cost = cost_of(read(model));
  EXPECT_EQ(cost.parameters, 48);
  EXPECT_EQ(cost.nodes.at(1).parameters, 48);
  EXPECT_EQ(cost.bytes, 48 * 4);
  EXPECT_FALSE(cost.complete);
}

}  // namespace
}  // namespace pare
