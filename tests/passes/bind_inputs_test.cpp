// Inputs made constants: the same outputs as with the input given, and the branch that it decides in the open.
#include "pare/passes/bind_inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "onnx/models.h"
#include "pare/error.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"

namespace pare {
namespace {

using namespace testing_onnx;
using Proto = onnx::TensorProto;

// y = If(rate == 16) { x + x } else { x · x }; outputs of the branches say no type, as exporters leave them.
Graph branching() {
  auto model = make_model(13);
  add_input(model, "rate", {}, Proto::INT64);
  add_input(model, "x", {3});
  add_output(model, "y", {3});
  add_node(model, "Constant", {}, {"sixteen"});
  auto& value = attribute(*model.mutable_graph()->mutable_node(0), "value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(Proto::INT64);
  value.mutable_t()->add_int64_data(16);
  add_node(model, "Equal", {"rate", "sixteen"}, {"same"});
  auto& node = add_node(model, "If", {"same"}, {"y"});
  for (const auto& [branch, op] : {std::pair{"then_branch", "Add"}, std::pair{"else_branch", "Mul"}}) {
    auto& own = attribute(node, branch);
    own.set_type(onnx::AttributeProto::GRAPH);
    own.mutable_g()->set_name(branch);
    own.mutable_g()->add_output()->set_name(std::string(branch) + "_y");
    own.mutable_g()->mutable_output(0)->mutable_type();
    *own.mutable_g()->add_node() = make_node(op, {"x", "x"}, {std::string(branch) + "_y"});
  }
  return read(model);
}

TEST(BindInputs, OpensTheBranchThatIsTaken) {
  const Graph graph = branching();
  const at::Tensor x = at::tensor({2.0F, 3.0F, 5.0F});
  for (const int64_t rate : {16, 8}) {
    const Graph bound = simplify(bind_inputs(graph, {"rate=" + std::to_string(rate)}));
    EXPECT_EQ(bound.inputs.size(), 1U);
    for (const auto& node : bound.nodes) EXPECT_NE(node.op, "If");
    const std::vector<at::Tensor> both = {at::scalar_tensor(rate, at::kLong), x}, one = {x};
    EXPECT_TRUE(at::equal(forward(bound, one).outputs[0], forward(graph, both).outputs[0]));
    EXPECT_TRUE(at::equal(forward(bound, one).outputs[0], rate == 16 ? x + x : x * x));
  }
}

TEST(BindInputs, RefusesWhatDoesNotFit) {
  const Graph graph = branching();
  for (const char* value : {"speed=1", "rate", "rate=", "rate=fast", "rate=1.5", "=1"})
    EXPECT_THROW(bind_inputs(graph, {value}), Error) << value;
  Graph open = graph;
  open.inputs[1].dims->at(0).size = -1;
  EXPECT_THROW(bind_inputs(open, {"x=1"}), Error);
}

}  // namespace
}  // namespace pare
