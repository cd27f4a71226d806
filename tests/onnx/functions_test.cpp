// Functions of a model are put in the place of their calls: in the graph, in subgraphs, in each other.
#include <gtest/gtest.h>

#include "onnx/models.h"
#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/write.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"

namespace pare {
namespace {

using namespace testing_onnx;

onnx::FunctionProto& add_function(onnx::ModelProto& model, const std::string& name, const Names& inputs,
                                  const Names& outputs, int64_t opset = 17) {
  auto& function = *model.add_functions();
  function.set_domain("my.functions");
  function.set_name(name);
  for (const auto& input : inputs) function.add_input(input);
  for (const auto& output : outputs) function.add_output(output);
  for (const auto& [imported, version] :
       {std::pair{std::string(), opset}, std::pair{std::string("my.functions"), int64_t{1}}}) {
    auto* import = function.add_opset_import();
    import->set_domain(imported), import->set_version(version);
  }
  return function;
}

onnx::NodeProto call(const std::string& function, const Names& inputs, const Names& outputs) {
  onnx::NodeProto node = make_node(function, inputs, outputs);
  node.set_domain("my.functions");
  return node;
}

// outer(a, b) = LeakyRelu(inner(a) + b; slope), inner(a) = −a
onnx::ModelProto model_with_functions() {
  auto model = make_model(17);
  auto* import = model.add_opset_import();
  import->set_domain("my.functions"), import->set_version(1);
  auto& inner = add_function(model, "inner", {"a"}, {"b"});
  *inner.add_node() = make_node("Neg", {"a"}, {"b"});
  auto& outer = add_function(model, "outer", {"a", "b"}, {"c"});
  *outer.add_node() = call("inner", {"a"}, {"n"});
  *outer.add_node() = make_node("Add", {"n", "b"}, {"s"});
  *outer.add_node() = make_node("LeakyRelu", {"s"}, {"c"});
  auto& slope = *outer.mutable_node(2)->add_attribute();
  slope.set_name("alpha"), slope.set_type(onnx::AttributeProto::FLOAT), slope.set_ref_attr_name("slope");
  outer.add_attribute("slope");
  add_input(model, "x", {3});
  add_input(model, "z", {3});
  add_output(model, "y", {3});
  return model;
}

at::Tensor expected(const at::Tensor& x, const at::Tensor& z, double slope) { return at::leaky_relu(z - x, slope); }

at::Tensor result(const onnx::ModelProto& model, const at::Tensor& x, const at::Tensor& z) {
  return forward(read(model), std::vector{x, z}).outputs[0];
}

const at::Tensor kX = at::tensor({1.0F, -2.0F, 3.0F}), kZ = at::tensor({0.5F, 0.25F, 4.0F});

TEST(Functions, TakeThePlaceOfTheirCalls) {
  auto model = model_with_functions();
  auto& node = add_node(model, "outer", {"x", "z"}, {"y"});
  node.set_domain("my.functions");
  set(node, "slope", 0.5F);
  EXPECT_TRUE(at::allclose(result(model, kX, kZ), expected(kX, kZ, 0.5)));
  node.clear_attribute();  // not given: the operator's own default
  EXPECT_TRUE(at::allclose(result(model, kX, kZ), expected(kX, kZ, 0.01)));
  for (const auto& inlined : read(model).nodes) EXPECT_TRUE(inlined.domain.empty()) << describe(inlined);
}

TEST(Functions, CalledTwiceMakeValuesOfTheirOwn) {
  auto model = model_with_functions();
  *model.mutable_graph()->add_node() = call("outer", {"x", "z"}, {"h"});
  *model.mutable_graph()->add_node() = call("outer", {"h", "z"}, {"y"});
  EXPECT_TRUE(at::allclose(result(model, kX, kZ), expected(expected(kX, kZ, 0.01), kZ, 0.01)));
}

TEST(Functions, CalledInSubgraphs) {
  auto model = model_with_functions();
  add_input(model, "c", {}, onnx::TensorProto::BOOL);
  auto& node = add_node(model, "If", {"c"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& body = attribute(node, branch);
    body.set_type(onnx::AttributeProto::GRAPH);
    body.mutable_g()->set_name(branch);
    *body.mutable_g()->add_output() = make_value(std::string(branch) + "_y", {3});
    const bool swap = std::string(branch) == "else_branch";
    *body.mutable_g()->add_node() = call("outer", {swap ? "z" : "x", swap ? "x" : "z"}, {std::string(branch) + "_y"});
  }
  const Graph graph = read(model);
  for (const bool condition : {true, false}) {
    const auto found = forward(graph, std::vector{kX, kZ, at::scalar_tensor(condition, at::kBool)}).outputs[0];
    EXPECT_TRUE(at::allclose(found, condition ? expected(kX, kZ, 0.01) : expected(kZ, kX, 0.01)));
  }
  onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromString(to_onnx_bytes(graph)));
  EXPECT_EQ(written.functions_size(), 0);
  EXPECT_TRUE(at::allclose(forward(read(written), std::vector{kX, kZ, at::scalar_tensor(true, at::kBool)}).outputs[0],
                           expected(kX, kZ, 0.01)));
}

TEST(Functions, AnOutputMayBeAnInput) {
  auto model = model_with_functions();
  auto& same = add_function(model, "same", {"a", "b"}, {"a", "d"});
  *same.add_node() = make_node("Abs", {"b"}, {"d"});
  *model.mutable_graph()->add_node() = call("same", {"x", "z"}, {"p", "q"});
  *model.mutable_graph()->add_node() = make_node("Add", {"p", "q"}, {"y"});
  EXPECT_TRUE(at::allclose(result(model, kX, kZ), kX + kZ.abs()));
}

std::string refused_with(const onnx::ModelProto& model) {
  try {
    read(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Functions, ThatCallThemselvesOrUnfoldWithoutEndAreRefused) {
  auto model = model_with_functions();
  auto& round = add_function(model, "round", {"a"}, {"b"});
  *round.add_node() = call("round", {"a"}, {"b"});
  *model.mutable_graph()->add_node() = call("round", {"x"}, {"y"});
  EXPECT_NE(refused_with(model).find("calls itself"), std::string::npos) << refused_with(model);

  auto bomb = model_with_functions();
  for (int level = 0; level < 40; ++level) {
    auto& twice = add_function(bomb, "f" + std::to_string(level), {"a"}, {"c"});
    const std::string next = level == 39 ? "inner" : "f" + std::to_string(level + 1);
    *twice.add_node() = call(next, {"a"}, {"b"});
    *twice.add_node() = call(next, {"b"}, {"c"});
  }
  *bomb.mutable_graph()->add_node() = call("f0", {"x"}, {"y"});
  EXPECT_NE(refused_with(bomb).find("unfold"), std::string::npos) << refused_with(bomb);
}

TEST(Functions, OfAnotherOpsetAreRefusedWhereItsFormsDiffer) {
  auto model = model_with_functions();
  auto& old = add_function(model, "old", {"a"}, {"b"}, 11);
  *old.add_node() = make_node("Softmax", {"a"}, {"b"});
  *model.mutable_graph()->add_node() = call("old", {"x"}, {"y"});
  EXPECT_NE(refused_with(model).find("Softmax of opset 11"), std::string::npos) << refused_with(model);
}

}  // namespace
}  // namespace pare
