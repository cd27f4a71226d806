// Canonical nodes in the form of older opsets, and the opset that rises where there is none.
#include "pare/io/onnx/lower.h"

#include <gmock/gmock.h>
#include <onnx/checker.h>

#include "onnx/models.h"
#include "pare/error.h"
#include "pare/io/onnx/write.h"

namespace pare {
namespace {

using namespace testing_onnx;
using Integers = std::vector<int64_t>;

// One node over x of shape [2, 3, 4, 4].
Graph one_node(const std::string& op, Names inputs = {"x"}, std::map<std::string, Attribute> attributes = {}) {
  Graph graph;
  graph.name = "test";
  graph.inputs = {{.name = "x", .dims = std::vector<Dim>{{2}, {3}, {4}, {4}}}};
  graph.outputs = {{.name = "y"}};
  graph.nodes = {
      {.name = "n", .op = op, .inputs = std::move(inputs), .outputs = {"y"}, .attributes = std::move(attributes)}};
  for (const auto& input : graph.nodes[0].inputs)
    if (input != "x" && !input.empty()) graph.inputs.push_back({.name = input, .dtype = at::kLong});
  return graph;
}

Graph with_tensor(Graph graph, const std::string& name, at::Tensor tensor) {
  std::erase_if(graph.inputs, [&](const auto& info) { return info.name == name; });
  graph.tensors[name] = std::move(tensor);
  return graph;
}

at::Tensor longs(const Integers& values) { return at::tensor(values, at::kLong); }

TEST(LowerOnnx, AxesBecomeAnAttribute) {
  for (const auto& [op, changed] : std::vector<std::pair<std::string, int64_t>>{
           {"ReduceMean", 18}, {"ReduceL2", 18}, {"ReduceSum", 13}, {"Squeeze", 13}, {"Unsqueeze", 13}}) {
    const Graph graph = with_tensor(one_node(op, {"x", "axes"}), "axes", longs({1, 2}));
    const auto below = lower(graph, changed - 1);
    EXPECT_EQ(below.opset, changed - 1);
    EXPECT_EQ(below.graph.nodes[0].integers("axes"), (Integers{1, 2})) << op;
    EXPECT_EQ(below.graph.nodes[0].inputs, Names{"x"});
    EXPECT_FALSE(below.graph.is_constant("axes"));
    const auto at = lower(graph, changed);
    EXPECT_EQ(at.graph.nodes[0].inputs, (Names{"x", "axes"}));
    // Axes that are not constant need the newer form.
    const auto raised = lower(one_node(op, {"x", "axes"}), 11);
    EXPECT_EQ(raised.opset, changed) << op;
    ASSERT_EQ(raised.raised_by.size(), 1U);
    EXPECT_THAT(raised.raised_by[0], testing::HasSubstr("node 'n'"));
  }
}

TEST(LowerOnnx, NoopReductionNeedsItsOpset) {
  EXPECT_EQ(lower(one_node("ReduceMean", {"x"}, {{"noop_with_empty_axes", int64_t{1}}}), 13).opset, 18);
  const auto lowered = lower(one_node("ReduceMean", {"x"}, {{"noop_with_empty_axes", int64_t{0}}}), 13);
  EXPECT_EQ(lowered.opset, 13);
  EXPECT_TRUE(lowered.graph.nodes[0].attributes.empty());
}

TEST(LowerOnnx, Split) {
  Graph graph = with_tensor(one_node("Split", {"x", "parts"}), "parts", longs({1, 2}));
  EXPECT_EQ(lower(graph, 12).graph.nodes[0].integers("split"), (Integers{1, 2}));
  EXPECT_EQ(lower(graph, 13).graph.nodes[0].inputs.size(), 2U);
  graph = one_node("Split", {"x"}, {{"num_outputs", int64_t{1}}});
  EXPECT_FALSE(lower(graph, 13).graph.nodes[0].has("num_outputs"));
  EXPECT_TRUE(lower(graph, 18).graph.nodes[0].has("num_outputs"));
  graph.source_opset = 18;  // may be uneven
  EXPECT_EQ(lower(graph, 13).opset, 18);
}

TEST(LowerOnnx, Pad) {
  Graph graph = one_node("Pad", {"x", "pads", "", "axes"});
  EXPECT_EQ(lower(graph, 13).opset, 18);
  graph = with_tensor(with_tensor(graph, "pads", longs({1, 2})), "axes", longs({-1}));
  const auto lowered = lower(graph, 13);
  EXPECT_EQ(lowered.opset, 13);
  ASSERT_EQ(lowered.graph.nodes[0].inputs.size(), 2U);
  EXPECT_EQ(integers(lowered.graph, lowered.graph.nodes[0].inputs[1]), (Integers{0, 0, 0, 1, 0, 0, 0, 2}));
  EXPECT_EQ(lowered.graph.tensors.size(), 1U);
  EXPECT_EQ(lower(one_node("Pad", {"x", "pads"}, {{"mode", std::string("wrap")}}), 13).opset, 19);
}

TEST(LowerOnnx, DropoutResizeGridSampleRoiAlign) {
  const Graph dropout = with_tensor(one_node("Dropout", {"x", "ratio"}), "ratio", at::scalar_tensor(0.25, at::kFloat));
  EXPECT_EQ(lower(dropout, 11).graph.nodes[0].real("ratio", 0), 0.25);
  EXPECT_EQ(lower(dropout, 12).graph.nodes[0].inputs.size(), 2U);
  const Graph resize = with_tensor(one_node("Resize", {"x", "", "", "sizes"}), "sizes", longs({2, 3, 8, 8}));
  const auto eleven = lower(resize, 11);
  EXPECT_EQ(eleven.graph.tensor(eleven.graph.nodes[0].inputs[1]).numel(), 0);
  EXPECT_EQ(lower(resize, 13).graph.nodes[0].inputs[1], "");
  const auto with = [](const std::string& name, Attribute value) { return one_node("Resize", {"x"}, {{name, value}}); };
  EXPECT_EQ(lower(with("antialias", int64_t{1}), 13).opset, 18);
  EXPECT_EQ(lower(with("antialias", int64_t{0}), 13).opset, 13);
  EXPECT_FALSE(lower(with("antialias", int64_t{0}), 13).graph.nodes[0].has("antialias"));
  EXPECT_EQ(lower(with("axes", Integers{2, 3}), 13).opset, 18);
  EXPECT_EQ(lower(with("keep_aspect_ratio_policy", std::string("not_larger")), 13).opset, 18);
  EXPECT_EQ(lower(with("coordinate_transformation_mode", std::string("half_pixel_symmetric")), 13).opset, 19);
  const Graph sample = one_node("GridSample", {"x", "x"}, {{"mode", std::string("cubic")}});
  EXPECT_EQ(lower(sample, 13).opset, 16);
  EXPECT_EQ(lower(sample, 13).graph.nodes[0].text("mode", ""), "bicubic");
  EXPECT_EQ(lower(one_node("RoiAlign", {"x", "x", "x"}), 13).opset, 16);
}

TEST(LowerOnnx, SoftmaxMarkerIsWrittenOut) {
  const Graph marked = one_node("Softmax", {"x"}, {{"axis", int64_t{1}}, {"flatten", int64_t{1}}});
  const auto old = lower(marked, 12);
  ASSERT_EQ(old.graph.nodes.size(), 1U);
  EXPECT_FALSE(old.graph.nodes[0].has("flatten"));
  const auto current = lower(marked, 13);
  ASSERT_EQ(current.graph.nodes.size(), 4U);
  EXPECT_NO_THROW(verify(current.graph));
  EXPECT_EQ(current.graph.nodes[2].op, "Softmax");
  EXPECT_EQ(current.graph.nodes[2].integer("axis", 0), -1);
  EXPECT_EQ(current.graph.nodes[3].op, "Reshape");
  EXPECT_EQ(current.graph.nodes[3].outputs, Names{"y"});
  const auto last = lower(one_node("Softmax", {"x"}, {{"axis", int64_t{3}}, {"flatten", int64_t{1}}}), 13);
  ASSERT_EQ(last.graph.nodes.size(), 1U);
  EXPECT_FALSE(last.graph.nodes[0].has("flatten"));
  EXPECT_EQ(lower(one_node("Softmax", {"x"}, {{"axis", int64_t{1}}}), 12).opset, 13);
  EXPECT_EQ(lower(one_node("Softmax"), 12).graph.nodes[0].integer("axis", 0), -1);
}

TEST(LowerOnnx, GroupNormalizationPerGroup) {
  Graph graph =
      one_node("GroupNormalization", {"x", "s", "b"}, {{"num_groups", int64_t{3}}, {"per_group", int64_t{1}}});
  EXPECT_EQ(lower(graph, 18).graph.nodes[0].op, "GroupNormalization");
  for (const int64_t opset : {13, 21}) {
    const auto lowered = lower(graph, opset);
    EXPECT_EQ(lowered.opset, opset);
    ASSERT_EQ(lowered.graph.nodes.size(), 4U);
    EXPECT_EQ(lowered.graph.nodes[2].op, "InstanceNormalization");
    EXPECT_NO_THROW(verify(lowered.graph));
  }
  graph.nodes[0].attributes.erase("per_group");
  EXPECT_EQ(lower(graph, 13).opset, 21);
}

TEST(LowerOnnx, OperatorsRaiseTheOpset) {
  for (const auto& [op, opset] : std::vector<std::pair<std::string, int64_t>>{{"Relu", 13},
                                                                              {"HardSwish", 14},
                                                                              {"LayerNormalization", 17},
                                                                              {"Mish", 18},
                                                                              {"Gelu", 20},
                                                                              {"BitwiseNot", 18},
                                                                              {"RMSNormalization", 23},
                                                                              {"Attention", 23},
                                                                              {"Swish", 24},
                                                                              {"CumProd", 26},
                                                                              {"SwiGLU", 28}})
    EXPECT_EQ(lower(one_node(op), 13).opset, opset) << op;
  EXPECT_EQ(lower(one_node("Reshape", {"x", "s"}, {{"allowzero", int64_t{1}}}), 13).opset, 14);
  EXPECT_EQ(lower(one_node("Reshape", {"x", "s"}, {{"allowzero", int64_t{0}}}), 13).opset, 13);
  EXPECT_EQ(lower(one_node("Shape", {"x"}, {{"start", int64_t{1}}}), 13).opset, 15);
  EXPECT_EQ(lower(one_node("Attention", {"x", "x", "x", "", "", "", "n"}), 13).opset, 24);
  EXPECT_EQ(lower(one_node("Attention", {"x", "x", "x"}, {{"left_window_size", int64_t{2}}}), 13).opset, 25);
  EXPECT_EQ(lower(one_node("DequantizeLinear", {"x", "s"}, {{"output_dtype", int64_t{10}}}), 13).opset, 23);
  EXPECT_EQ(lower(one_node("BatchNormalization", {"x"}, {{"training_mode", int64_t{1}}}), 13).opset, 14);
  EXPECT_EQ(lower(with_tensor(one_node("Add", {"x", "w"}), "w", at::ones({1}, at::kByte)), 13).opset, 14);
  EXPECT_THROW(lower(one_node("Relu"), 10), Error);
  EXPECT_EQ(lower(one_node("Relu"), 28).opset, 28);
  EXPECT_THROW(lower(one_node("Relu"), 29), Error);
}

// A subgraph is bytes: it stays in the opset that it was written in.
TEST(LowerOnnx, SubgraphsKeepTheirOpset) {
  auto model = make_model(12);
  add_input(model, "c", {}, onnx::TensorProto::BOOL);
  add_input(model, "x", {1, 2});
  add_output(model, "y", {2});
  auto& node = add_node(model, "If", {"c"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& body = attribute(node, branch);
    body.set_type(onnx::AttributeProto::GRAPH);
    body.mutable_g()->set_name(branch);
    *body.mutable_g()->add_output() = make_value(std::string(branch) + "_y", {2});
    *body.mutable_g()->add_node() = make_node("Squeeze", {"x"}, {std::string(branch) + "_y"});
    set(*body.mutable_g()->mutable_node(0), "axes", Integers{0});
  }
  EXPECT_EQ(lower(read(model), 13).opset, 12);
  EXPECT_EQ(lower(read(model), 11).opset, 11);
  model.mutable_opset_import(0)->set_version(10);
  EXPECT_THROW(lower(read(model), 13), Error);
}

// Attributes that the older opset does not know are a fault of the file even where they say nothing new.
TEST(LowerOnnx, SubgraphsKeepTheirNewerAttributes) {
  auto model = make_model(16);
  add_input(model, "c", {}, onnx::TensorProto::BOOL);
  add_input(model, "x", {1, 2});
  add_output(model, "y", {2});
  auto& node = add_node(model, "If", {"c"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& body = attribute(node, branch);
    body.set_type(onnx::AttributeProto::GRAPH);
    body.mutable_g()->set_name(branch);
    *body.mutable_g()->add_output() = make_value(std::string(branch) + "_y", {2});
    *body.mutable_g()->add_node() = make_node("Shape", {"x"}, {std::string(branch) + "_s"});
    *body.mutable_g()->add_node() = make_node("Identity", {"x"}, {std::string(branch) + "_y"});
  }
  EXPECT_EQ(lower(read(model), 15).opset, 15);  // all in it was there
  EXPECT_EQ(lower(read(model), 13).opset, 16);  // Shape got `start` and `end` with opset 15
}

TEST(WriteOnnx, IsDeterministicAndAcceptedByTheChecker) {
  Graph graph = with_tensor(one_node("Add", {"x", "w"}), "w", at::ones({4, 4}));
  graph.tensors["w"] = at::arange(16, at::kFloat).view({4, 4}).t();  // not contiguous
  graph.outputs[0].dims = graph.inputs[0].dims;
  graph.metadata = {{"a", "1"}};
  const std::string bytes = to_onnx_bytes(graph);
  EXPECT_EQ(bytes, to_onnx_bytes(graph));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  EXPECT_NO_THROW(onnx::checker::check_model(model));
  EXPECT_EQ(model.ir_version(), 7);
  EXPECT_EQ(model.producer_name(), "pare");
  const Graph again = read_onnx_bytes(bytes_of(bytes), "again");
  EXPECT_TRUE(at::equal(again.tensor("w"), graph.tensor("w")));
  EXPECT_EQ(again.metadata, graph.metadata);
}

}  // namespace
}  // namespace pare
