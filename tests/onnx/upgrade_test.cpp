// One test per rule of io/onnx/upgrade: a node in its old form, read into the canonical one.
#include <gtest/gtest.h>

#include "onnx/models.h"
#include "pare/error.h"

namespace pare {
namespace {

using namespace testing_onnx;
using Integers = std::vector<int64_t>;

// A model with one node over input x of shape [2, 3, 4, 4]; `prepare` adds attributes and tensors.
template <typename Prepare>
Graph read_one(int64_t opset, const std::string& op, const Names& inputs, Prepare prepare,
               const Names& outputs = {"y"}) {
  auto model = make_model(opset, 3);
  add_input(model, "x", {2, 3, 4, 4});
  add_output(model, "y", {});
  prepare(model, add_node(model, op, inputs, outputs));
  return read(model);
}

TEST(UpgradeOnnx, AxesBecomeAnInput) {
  for (const auto& [op, opset] : std::vector<std::pair<std::string, int64_t>>{{"Squeeze", 11},
                                                                              {"Unsqueeze", 12},
                                                                              {"ReduceSum", 12},
                                                                              {"ReduceMean", 17},
                                                                              {"ReduceMax", 13},
                                                                              {"ReduceL1", 11},
                                                                              {"ReduceL2", 17},
                                                                              {"ReduceLogSum", 17},
                                                                              {"ReduceLogSumExp", 17},
                                                                              {"ReduceMin", 17},
                                                                              {"ReduceProd", 17},
                                                                              {"ReduceSumSquare", 1}}) {
    const Graph graph = read_one(opset, op, {"x"}, [](auto&, auto& node) { set(node, "axes", Integers{1, 2}); });
    const Node& node = graph.nodes[0];
    EXPECT_FALSE(node.has("axes")) << op;
    ASSERT_EQ(node.inputs.size(), 2U) << op;
    EXPECT_EQ(integers(graph, node.inputs[1]), (Integers{1, 2})) << op;
  }
}

TEST(UpgradeOnnx, ClipBoundsBecomeInputs) {
  const Graph graph = read_one(
      6, "Clip", {"x"}, [](auto&, auto& node) { set(node, "min", -3.4028234663852886e38F), set(node, "max", 6.0F); });
  const Node& node = graph.nodes[0];
  ASSERT_EQ(node.inputs.size(), 3U);
  EXPECT_EQ(node.inputs[1], "");
  EXPECT_EQ(graph.tensor(node.inputs[2]).item<float>(), 6.0F);
  EXPECT_EQ(graph.tensor(node.inputs[2]).dim(), 0);
}

TEST(UpgradeOnnx, ClipBoundsHaveTheTypeOfTheData) {
  auto model = make_model(9);
  add_input(model, "x", {1}, onnx::TensorProto::FLOAT16);
  add_output(model, "y", {1}, onnx::TensorProto::FLOAT16);
  add_node(model, "Relu", {"x"}, {"h"});
  set(add_node(model, "Clip", {"h"}, {"y"}), "max", 6.0F);
  const Graph graph = read(model);
  EXPECT_EQ(graph.tensor(graph.nodes[1].inputs[2]).scalar_type(), at::kHalf);
}

TEST(UpgradeOnnx, PadAttributesBecomeInputs) {
  for (const int64_t opset : {1, 9}) {
    const Graph graph = read_one(opset, "Pad", {"x"}, [&](auto&, auto& node) {
      set(node, opset == 1 ? "paddings" : "pads", Integers{0, 0, 1, 1, 0, 0, 1, 1}), set(node, "value", 2.0F);
    });
    const Node& node = graph.nodes[0];
    EXPECT_EQ(integers(graph, node.inputs.at(1)), (Integers{0, 0, 1, 1, 0, 0, 1, 1}));
    EXPECT_EQ(graph.tensor(node.inputs.at(2)).template item<float>(), 2.0F);
    EXPECT_TRUE(node.attributes.empty());
  }
}

TEST(UpgradeOnnx, SliceSplitTopKReshape) {
  Graph graph = read_one(9, "Slice", {"x"}, [](auto&, auto& node) {
    set(node, "starts", Integers{0}), set(node, "ends", Integers{2}), set(node, "axes", Integers{1});
  });
  ASSERT_EQ(graph.nodes[0].inputs.size(), 4U);
  EXPECT_EQ(integers(graph, graph.nodes[0].inputs[3]), Integers{1});
  graph = read_one(11, "Split", {"x"}, [](auto&, auto& node) { set(node, "split", Integers{1, 1}); }, {"y", "z"});
  EXPECT_EQ(integers(graph, graph.nodes[0].inputs.at(1)), (Integers{1, 1}));
  EXPECT_FALSE(graph.nodes[0].has("num_outputs"));
  graph = read_one(13, "Split", {"x"}, [](auto&, auto&) {}, {"y", "z"});
  EXPECT_EQ(graph.nodes[0].integer("num_outputs", 0), 2);
  graph = read_one(9, "TopK", {"x"}, [](auto&, auto& node) { set(node, "k", int64_t{3}); }, {"y", "z"});
  EXPECT_EQ(integers(graph, graph.nodes[0].inputs.at(1)), Integers{3});
  graph = read_one(4, "Reshape", {"x"}, [](auto&, auto& node) { set(node, "shape", Integers{0, -1}); });
  EXPECT_EQ(integers(graph, graph.nodes[0].inputs.at(1)), (Integers{0, -1}));
}

TEST(UpgradeOnnx, Dropout) {
  const Graph graph =
      read_one(6, "Dropout", {"x"},
               [](auto&, auto& node) { set(node, "ratio", 0.25F), set(node, "is_test", int64_t{1}); }, {"y", "mask"});
  EXPECT_EQ(graph.tensor(graph.nodes[0].inputs.at(1)).item<float>(), 0.25F);
  EXPECT_TRUE(graph.nodes[0].attributes.empty());
  EXPECT_EQ(graph.nodes[0].outputs, Names{"y"});
  EXPECT_THROW(read_one(9, "Dropout", {"x"}, [](auto& m, auto&) { add_output(m, "mask", {}); }, {"y", "mask"}), Error);
}

TEST(UpgradeOnnx, UpsampleAndResize10BecomeResize) {
  const auto check = [](const Graph& graph) {
    const Node& node = graph.nodes[0];
    EXPECT_EQ(node.op, "Resize");
    ASSERT_EQ(node.inputs.size(), 3U);
    EXPECT_EQ(node.inputs[1], "");
    EXPECT_EQ(integers(graph, node.inputs[2]), (Integers{1, 1, 2, 2}));
    EXPECT_EQ(node.text("mode", "nearest"), "linear");
    EXPECT_EQ(node.text("coordinate_transformation_mode", ""), "asymmetric");
    EXPECT_EQ(node.text("nearest_mode", ""), "floor");
    EXPECT_FALSE(node.has("scales"));
  };
  check(read_one(1, "Upsample", {"x"}, [](auto&, auto& node) {
    set(node, "mode", "bilinear"), set(node, "height_scale", 2.0F), set(node, "width_scale", 2.0F);
  }));
  check(read_one(7, "Upsample", {"x"}, [](auto&, auto& node) {
    set(node, "mode", "linear"), set(node, "scales", std::vector<float>{1, 1, 2, 2});
  }));
  for (const auto& [op, opset] : std::vector<std::pair<std::string, int64_t>>{{"Upsample", 9}, {"Resize", 10}})
    check(read_one(opset, op, {"x", "s"}, [](auto& m, auto& node) {
      set(node, "mode", "linear");
      auto& scales = *m.mutable_graph()->add_initializer();
      scales.set_name("s"), scales.set_data_type(onnx::TensorProto::FLOAT), scales.add_dims(4);
      for (const float s : {1, 1, 2, 2}) scales.add_float_data(s);
    }));
}

TEST(UpgradeOnnx, BatchNormalization) {
  const auto statistics = [](auto& m) {
    for (const char* name : {"s", "b", "m", "v"}) add_floats(m, name, {3});
  };
  const Names inputs = {"x", "s", "b", "m", "v"};
  const Graph graph = read_one(6, "BatchNormalization", inputs,
                               [&](auto& m, auto& node) {
                                 statistics(m);
                                 set(node, "is_test", int64_t{1}), set(node, "spatial", int64_t{1}),
                                     set(node, "consumed_inputs", Integers{0, 0});
                               },
                               {"y", "mean", "var", "saved_mean", "saved_var"});
  EXPECT_TRUE(graph.nodes[0].attributes.empty());
  EXPECT_EQ(graph.nodes[0].outputs, Names{"y"});
  EXPECT_THROW(read_one(7, "BatchNormalization", inputs,
                        [&](auto& m, auto& node) { statistics(m), set(node, "spatial", int64_t{0}); }),
               Error);
}

TEST(UpgradeOnnx, SoftmaxIsMarked) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    Graph graph = read_one(12, op, {"x"}, [](auto&, auto&) {});
    EXPECT_EQ(graph.nodes[0].integer("axis", 0), 1);
    EXPECT_EQ(graph.nodes[0].integer("flatten", 0), 1);
    graph = read_one(12, op, {"x"}, [](auto&, auto& node) { set(node, "axis", int64_t{3}); });
    EXPECT_FALSE(graph.nodes[0].has("flatten"));
    graph = read_one(13, op, {"x"}, [](auto&, auto&) {});
    EXPECT_TRUE(graph.nodes[0].attributes.empty());
  }
}

TEST(UpgradeOnnx, BroadcastAlongAnAxis) {
  const auto legacy = [](auto& m, auto& node, const Integers& dims, int64_t axis) {
    add_floats(m, "b", dims);
    set(node, "broadcast", int64_t{1}), set(node, "axis", axis);
  };
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow"}) {
    const Graph graph = read_one(6, op, {"x", "b"}, [&](auto& m, auto& node) { legacy(m, node, {3}, 1); });
    EXPECT_TRUE(graph.nodes[0].attributes.empty());
    EXPECT_EQ(graph.tensor(graph.nodes[0].inputs[1]).sizes(), (Integers{3, 1, 1}));
    EXPECT_FALSE(graph.is_constant("b"));
  }
  Graph graph = read_one(6, "Add", {"x", "b"}, [&](auto& m, auto& node) { legacy(m, node, {4, 4}, -2); });
  EXPECT_EQ(graph.nodes[0].inputs[1], "b");
  // The other operand is a value: it is unsqueezed.
  graph = read_one(6, "Mul", {"x", "v"}, [](auto& m, auto& node) {
    add_input(m, "v", {3});
    set(node, "broadcast", int64_t{1}), set(node, "axis", int64_t{1});
  });
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].op, "Unsqueeze");
  EXPECT_EQ(integers(graph, graph.nodes[0].inputs[1]), (Integers{1, 2}));
  EXPECT_EQ(graph.nodes[1].inputs[1], graph.nodes[0].outputs[0]);
  EXPECT_THROW(read_one(6, "Add", {"h", "b"},
                        [&](auto& m, auto& node) {
                          legacy(m, node, {3}, 1);
                          add_node(m, "Mystery", {"x"}, {"h"});
                        }),
               Error);
}

TEST(UpgradeOnnx, PReluSlopeIsPerChannel) {
  Graph graph = read_one(6, "PRelu", {"x", "s"}, [](auto& m, auto&) { add_floats(m, "s", {3}); });
  EXPECT_EQ(graph.tensor(graph.nodes[0].inputs[1]).sizes(), (Integers{3, 1, 1}));
  graph = read_one(6, "PRelu", {"x", "s"}, [](auto& m, auto&) { add_floats(m, "s", {1}); });
  EXPECT_EQ(graph.nodes[0].inputs[1], "s");
  graph = read_one(7, "PRelu", {"x", "s"}, [](auto& m, auto&) { add_floats(m, "s", {4}); });
  EXPECT_EQ(graph.nodes[0].inputs[1], "s");
}

TEST(UpgradeOnnx, SmallRules) {
  Graph graph = read_one(5, "Cast", {"x"}, [](auto&, auto& node) { set(node, "to", "INT64"); });
  EXPECT_EQ(graph.nodes[0].integer("to", 0), onnx::TensorProto::INT64);
  graph = read_one(3, "Concat", {"x", "x"}, [](auto&, auto&) {});
  EXPECT_EQ(graph.nodes[0].integer("axis", 0), 1);
  graph = read_one(9, "Scatter", {"x", "i", "x"}, [](auto& m, auto&) { add_ints(m, "i", {0}); });
  EXPECT_EQ(graph.nodes[0].op, "ScatterElements");
  graph = read_one(5, "Tile", {"x", "t", "a"}, [](auto& m, auto&) { add_ints(m, "t", {2}), add_ints(m, "a", {1}); });
  EXPECT_EQ(integers(graph, graph.nodes[0].inputs.at(1)), (Integers{1, 2, 1, 1}));
  EXPECT_EQ(graph.nodes[0].inputs.size(), 2U);
  graph = read_one(5, "Elu", {"x"}, [](auto&, auto& node) { set(node, "consumed_inputs", Integers{0}); });
  EXPECT_TRUE(graph.nodes[0].attributes.empty());
  graph = read_one(6, "Gemm", {"x", "x", "x"}, [](auto&, auto& node) { set(node, "broadcast", int64_t{1}); });
  EXPECT_TRUE(graph.nodes[0].attributes.empty());
  graph = read_one(18, "GroupNormalization", {"x", "s", "s"},
                   [](auto& m, auto& node) { add_floats(m, "s", {3}), set(node, "num_groups", int64_t{3}); });
  EXPECT_EQ(graph.nodes[0].integer("per_group", 0), 1);
  graph = read_one(16, "GridSample", {"x", "x"}, [](auto&, auto& node) { set(node, "mode", "bicubic"); });
  EXPECT_EQ(graph.nodes[0].text("mode", ""), "cubic");
  graph = read_one(15, "RoiAlign", {"x", "x", "x"}, [](auto&, auto&) {});
  EXPECT_EQ(graph.nodes[0].text("coordinate_transformation_mode", ""), "output_half_pixel");
  graph = read_one(17, "DFT", {"x"}, [](auto&, auto& node) { set(node, "axis", int64_t{2}); });
  EXPECT_EQ(integers(graph, graph.nodes[0].inputs.at(2)), Integers{2});
  graph = read_one(1, "LpPool", {"x"}, [](auto&, auto& node) { set(node, "p", 2.0F); });
  EXPECT_EQ(graph.nodes[0].integer("p", 0), 2);
}

}  // namespace
}  // namespace pare
