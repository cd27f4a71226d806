// Element types that ATen lacks: read, run and written as what they are.
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
using Proto = onnx::TensorProto;
constexpr int32_t kUint4 = 21, kInt4 = 22;

onnx::ModelProto binary(const std::string& op, int32_t type, int32_t result) {
  auto model = make_model(21, 10);
  add_input(model, "a", {3}, type);
  add_input(model, "b", {3}, type);
  add_output(model, "y", {3}, result);
  add_node(model, op, {"a", "b"}, {"y"});
  return model;
}

std::vector<int64_t> run_binary(const std::string& op, int32_t type, const std::vector<int64_t>& a,
                                const std::vector<int64_t>& b, at::ScalarType carrier) {
  const Graph graph = read(binary(op, type, type));
  const auto y = forward(graph, std::vector{at::tensor(a, at::kLong).to(carrier), at::tensor(b, at::kLong).to(carrier)})
                     .outputs[0]
                     .to(at::kLong);
  return {y.data_ptr<int64_t>(), y.data_ptr<int64_t>() + y.numel()};
}

using Ints = std::vector<int64_t>;

// As C++ computes them.
TEST(Carried, ArithmeticWrapsRound) {
  EXPECT_EQ(run_binary("Sub", Proto::UINT16, {1, 0, 65535}, {2, 65535, 1}, at::kInt), (Ints{65535, 1, 65534}));
  EXPECT_EQ(run_binary("Mul", Proto::UINT32, {65536, 3, 4294967295}, {65536, 5, 4294967295}, at::kLong),
            (Ints{0, 15, 1}));
  EXPECT_EQ(run_binary("Add", kUint4, {15, 7, 0}, {1, 9, 3}, at::kByte), (Ints{0, 0, 3}));
  EXPECT_EQ(run_binary("Add", kInt4, {7, -8, 3}, {1, -1, -5}, at::kChar), (Ints{-8, 7, -2}));
  EXPECT_EQ(run_binary("Div", Proto::UINT32, {4294967295, 9, 8}, {2, 3, 5}, at::kLong), (Ints{2147483647, 3, 1}));
}

TEST(Carried, OnlyTheLowerHalfOfUint64IsThere) {
  EXPECT_EQ(run_binary("Add", Proto::UINT64, {1, 2, INT64_MAX - 1}, {1, 2, 1}, at::kLong), (Ints{2, 4, INT64_MAX}));
  EXPECT_THROW(run_binary("Sub", Proto::UINT64, {1, 2, 3}, {2, 0, 0}, at::kLong), Error);
}

// Comparisons and positions are of types of their own: nothing of them wraps round.
TEST(Carried, ResultsOfOtherTypesAreThemselves) {
  auto model = make_model(21, 10);
  add_input(model, "a", {2, 3}, kUint4);
  add_output(model, "y", {}, Proto::INT64);
  add_node(model, "ArgMax", {"a"}, {"i"});
  set(*model.mutable_graph()->mutable_node(0), "keepdims", int64_t{0});
  add_node(model, "Neg", {"i"}, {"y"});
  const at::Tensor a = at::tensor({1, 9, 3, 4, 2, 15}, at::kByte).reshape({2, 3});
  EXPECT_TRUE(forward(read(model), std::vector{a}).outputs[0].equal(at::tensor({-1, 0, -1}, at::kLong)));
}

// x · w with w of four bits: packed in the file, unpacked here, and packed again when it is written.
onnx::ModelProto dequantized() {
  auto model = make_model(21, 10);
  add_input(model, "x", {1, 5});
  add_output(model, "y", {1, 1});
  auto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w"), w.set_data_type(kInt4), w.add_dims(5), w.add_dims(1);
  w.set_raw_data(std::string{'\x71', '\x8f', '\x03'});  // 1, 7, −1, −8, 3
  auto& scale = *model.mutable_graph()->add_initializer();
  scale.set_name("s"), scale.set_data_type(Proto::FLOAT), scale.add_float_data(0.5F);
  add_node(model, "DequantizeLinear", {"w", "s"}, {"d"});
  add_node(model, "MatMul", {"x", "d"}, {"y"});
  return model;
}

TEST(Carried, FourBitsAreUnpackedAndPackedAgain) {
  const Graph graph = read(dequantized());
  EXPECT_TRUE(graph.tensor("w").flatten().equal(at::tensor({1, 7, -1, -8, 3}, at::kChar)));
  const at::Tensor x = at::tensor({1.0F, 10.0F, 100.0F, 1000.0F, 10000.0F}).reshape({1, 5});
  const double expected = 0.5 * (1 + 70 - 100 - 8000 + 30000);
  onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromString(to_onnx_bytes(simplify(graph), {.opset = 21})));
  for (const Graph& one : {graph, simplify(graph), read(written)})
    EXPECT_FLOAT_EQ(forward(one, std::vector{x}).outputs[0].item<float>(), expected);
  for (const auto& tensor : written.graph().initializer())
    if (tensor.name() == "w") {
      EXPECT_EQ(tensor.data_type(), kInt4);
      EXPECT_EQ(tensor.raw_data(), dequantized().graph().initializer(0).raw_data());
    }
}

TEST(Carried, InputsAndOutputsKeepTheirTypes) {
  onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromString(to_onnx_bytes(read(binary("Add", Proto::UINT16, Proto::UINT16)))));
  EXPECT_EQ(written.graph().input(0).type().tensor_type().elem_type(), Proto::UINT16);
  EXPECT_EQ(written.graph().output(0).type().tensor_type().elem_type(), Proto::UINT16);
}

TEST(Carried, TensorsThatAreCutShortAreRefused) {
  auto model = dequantized();
  model.mutable_graph()->mutable_initializer(0)->set_raw_data("ab");
  EXPECT_THROW(read(model), Error);
}

// Metadata of nodes is field 9, which libonnx 1.12 does not know.
TEST(NewerFields, MetadataOfNodesIsKept) {
  auto model = make_model(13);
  add_input(model, "x", {2});
  add_output(model, "y", {2});
  auto& node = add_node(model, "Relu", {"x"}, {"y"});
  onnx::StringStringEntryProto entry;
  entry.set_key("namespace"), entry.set_value("block.0");
  node.mutable_unknown_fields()->AddLengthDelimited(9, entry.SerializeAsString());
  const Graph graph = read(model);
  EXPECT_EQ(graph.nodes[0].metadata.at("namespace"), "block.0");
  EXPECT_EQ(read_onnx_bytes(bytes_of(to_onnx_bytes(graph)), "again").nodes[0].metadata, graph.nodes[0].metadata);
}

}  // namespace
}  // namespace pare
