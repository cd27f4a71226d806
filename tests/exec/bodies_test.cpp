// If, Loop and Scan run by Program: what their subgraphs make, what they read from outside, and how often they go
// round.
#include <gtest/gtest.h>

#include "onnx/models.h"
#include "pare/error.h"
#include "pare/run.h"

namespace pare {
namespace {

using namespace testing_onnx;
using Proto = onnx::TensorProto;

onnx::GraphProto& body_of(onnx::NodeProto& node, const std::string& name) {
  auto& attribute = testing_onnx::attribute(node, name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  attribute.mutable_g()->set_name(name);
  return *attribute.mutable_g();
}

std::vector<at::Tensor> outputs_of(const onnx::ModelProto& model, const std::vector<at::Tensor>& inputs) {
  return forward(read(model), inputs).outputs;
}

// y = If(c) { x + w } else { x · w }, with x and w from outside.
TEST(Bodies, IfTakesABranchAndReadsFromOutside) {
  auto model = make_model(13);
  add_input(model, "c", {}, Proto::BOOL);
  add_input(model, "x", {2});
  add_input(model, "w", {2});
  add_output(model, "y", {2});
  auto& node = add_node(model, "If", {"c"}, {"y"});
  for (const auto& [branch, op] : {std::pair{"then_branch", "Add"}, std::pair{"else_branch", "Mul"}}) {
    auto& body = body_of(node, branch);
    *body.add_output() = make_value(std::string(branch) + "_y", {2});
    *body.add_node() = make_node(op, {"x", "w"}, {std::string(branch) + "_y"});
  }
  const at::Tensor x = at::tensor({2.0F, 3.0F}), w = at::tensor({5.0F, 7.0F});
  EXPECT_TRUE(outputs_of(model, {at::scalar_tensor(true, at::kBool), x, w})[0].equal(x + w));
  EXPECT_TRUE(outputs_of(model, {at::scalar_tensor(false, at::kBool), x, w})[0].equal(x * w));
}

// An If inside an If, as exporters write it: what a branch gives has a type that says nothing.
TEST(Bodies, ABranchNeedNotSayWhatItGives) {
  auto model = make_model(13);
  add_input(model, "c", {}, Proto::BOOL);
  add_input(model, "x", {2}, Proto::INT64);
  add_output(model, "y", {2}, Proto::INT64);
  const auto branches = [](onnx::NodeProto& node, const std::string& prefix, const auto& fill) {
    for (const auto& [branch, op] : {std::pair{"then_branch", "Add"}, std::pair{"else_branch", "Mul"}}) {
      auto& body = body_of(node, branch);
      auto& output = *body.add_output();
      output.set_name(prefix + branch);
      output.mutable_type();
      if (*branch == 'e') output.mutable_type()->mutable_tensor_type();
      fill(body, op, prefix + branch);
    }
  };
  branches(add_node(model, "If", {"c"}, {"y"}), "outer_",
           [&](onnx::GraphProto& outer, const std::string& op, const std::string& given) {
             auto& inner = *outer.add_node() = make_node("If", {"c"}, {given});
             branches(inner, given + "_", [&](onnx::GraphProto& body, const std::string&, const std::string& name) {
               *body.add_node() = make_node(op, {"x", "x"}, {name});
             });
           });
  const at::Tensor x = at::tensor({3, 5}, at::kLong);
  EXPECT_TRUE(outputs_of(model, {at::scalar_tensor(true, at::kBool), x})[0].equal(x + x));
  EXPECT_TRUE(outputs_of(model, {at::scalar_tensor(false, at::kBool), x})[0].equal(x * x));
}

// s ← s + x; stacked: every s. Ends after `rounds`, or when the sum is no longer below a limit.
onnx::ModelProto loop_model(bool counted) {
  auto model = make_model(13);
  add_input(model, "rounds", {}, Proto::INT64);
  add_input(model, "start", {1});
  add_input(model, "x", {1});
  add_output(model, "last", {1});
  add_output(model, "all", {});
  model.mutable_graph()->mutable_output(1)->mutable_type()->mutable_tensor_type()->clear_shape();
  auto& node = add_node(model, "Loop", {counted ? "rounds" : "", "", "start"}, {"last", "all"});
  auto& body = body_of(node, "body");
  *body.add_input() = make_value("round", {}, Proto::INT64);
  *body.add_input() = make_value("goes_on", {}, Proto::BOOL);
  *body.add_input() = make_value("s", {1});
  *body.add_output() = make_value("below", {}, Proto::BOOL);
  *body.add_output() = make_value("sum", {1});
  *body.add_output() = make_value("copy", {1});
  auto& limit = *body.add_initializer();
  limit.set_name("limit"), limit.set_data_type(Proto::FLOAT), limit.add_float_data(10.0F);
  *body.add_node() = make_node("Add", {"s", "x"}, {"sum"});
  *body.add_node() = make_node("Less", {"sum", "limit"}, {"below"});
  *body.add_node() = make_node("Identity", {"sum"}, {"copy"});
  return model;
}

TEST(Bodies, LoopGoesRoundUntilItIsToldNotTo) {
  const at::Tensor start = at::tensor({1.0F}), x = at::tensor({2.0F});
  const auto counted = outputs_of(loop_model(true), {at::scalar_tensor(3, at::kLong), start, x});
  EXPECT_EQ(counted[0].item<float>(), 7);
  EXPECT_TRUE(counted[1].flatten().equal(at::tensor({3.0F, 5.0F, 7.0F})));
  const auto limited = outputs_of(loop_model(true), {at::scalar_tensor(100, at::kLong), start, x});
  EXPECT_EQ(limited[0].item<float>(), 11);
  EXPECT_EQ(limited[1].size(0), 5);
}

TEST(Bodies, ALoopWithoutAnEndIsStopped) {
  const std::vector<at::Tensor> inputs = {at::scalar_tensor(0, at::kLong), at::tensor({1.0F}), at::tensor({0.0F})};
  auto model = loop_model(false);
  model.mutable_graph()->mutable_node(0)->mutable_output()->RemoveLast();
  model.mutable_graph()->mutable_output()->RemoveLast();
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g()->mutable_output()->RemoveLast();
  try {
    outputs_of(model, inputs);
    FAIL() << "it came to an end";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("1000000 times"), std::string::npos) << error.what();
  }
}

// Running sums from the front and from the back.
TEST(Bodies, ScanGoesOverSlices) {
  auto model = make_model(13);
  add_input(model, "start", {2});
  add_input(model, "x", {3, 2});
  add_output(model, "last", {2});
  add_output(model, "all", {3, 2});
  auto& node = add_node(model, "Scan", {"start", "x"}, {"last", "all"});
  auto& body = body_of(node, "body");
  *body.add_input() = make_value("s", {2});
  *body.add_input() = make_value("next", {2});
  *body.add_output() = make_value("sum", {2});
  *body.add_output() = make_value("copy", {2});
  *body.add_node() = make_node("Add", {"s", "next"}, {"sum"});
  *body.add_node() = make_node("Identity", {"sum"}, {"copy"});
  set(node, "num_scan_inputs", int64_t{1});
  const at::Tensor x = at::arange(6, at::kFloat).reshape({3, 2});
  const auto forwards = outputs_of(model, {at::zeros({2}), x});
  EXPECT_TRUE(forwards[0].equal(x.sum(0)));
  EXPECT_TRUE(forwards[1].equal(x.cumsum(0)));
  set(*model.mutable_graph()->mutable_node(0), "scan_input_directions", std::vector<int64_t>{1});
  EXPECT_TRUE(outputs_of(model, {at::zeros({2}), x})[1].equal(x.flip(0).cumsum(0)));
}

}  // namespace
}  // namespace pare
