// Attributes: those that an operator has are known, all others are refused by name.
#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

#include <set>

#include "onnx/models.h"
#include "pare/error.h"
#include "pare/io/onnx/upgrade.h"
#include "pare/ops/op.h"

namespace pare {
namespace {

using namespace testing_onnx;
using Kind = onnx::AttributeProto;

onnx::ModelProto one_node(const std::string& op, int64_t opset) {
  auto model = make_model(opset);
  add_input(model, "x", {1, 2, 3, 4});
  add_output(model, "y", {1, 2, 3, 4});
  add_node(model, op, {"x"}, {"y"});
  return model;
}

std::string refusal(const onnx::ModelProto& model) {
  try {
    read(model);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    return error.what();
  }
  return "";
}

TEST(Attributes, UnknownOnesAreRefusedByName) {
  auto model = one_node("Relu", 13);
  EXPECT_EQ(refusal(model), "");
  set(*model.mutable_graph()->mutable_node(0), "negative_slope", 0.5F);
  EXPECT_NE(refusal(model).find("'negative_slope'"), std::string::npos) << refusal(model);
  model.mutable_graph()->mutable_node(0)->set_domain("com.example");  // of an operator that pare does not know: kept
  EXPECT_EQ(refusal(model), "");
}

// In opset 13 the axes of a ReduceSum are an input: an attribute of that name would be ignored.
TEST(Attributes, OfAnotherOpsetAreRefused) {
  auto old = one_node("ReduceSum", 11);
  set(*old.mutable_graph()->mutable_node(0), "axes", std::vector<int64_t>{1});
  EXPECT_EQ(refusal(old), "");
  old.mutable_opset_import(0)->set_version(13);
  EXPECT_NE(refusal(old).find("'axes'"), std::string::npos);
}

// They change what an operator computes, and stand for forms that files spell otherwise.
TEST(Attributes, OwnMarkersDoNotComeFromFiles) {
  auto softmax = one_node("Softmax", 13);
  set(*softmax.mutable_graph()->mutable_node(0), "flatten", int64_t{1});
  EXPECT_NE(refusal(softmax).find("'flatten'"), std::string::npos);
  auto group = one_node("GroupNormalization", 21);
  set(*group.mutable_graph()->mutable_node(0), "per_group", int64_t{1});
  EXPECT_NE(refusal(group).find("'per_group'"), std::string::npos);
}

TEST(Attributes, HintsOfOldOpsetsChangeNothing) {
  for (const int64_t opset : {9, 13}) {
    auto model = one_node("Relu", opset);
    set(*model.mutable_graph()->mutable_node(0), "consumed_inputs", std::vector<int64_t>{0});
    EXPECT_EQ(refusal(model), "");
  }
}

// A value of the kind that the schema says.
Attribute sample(const onnx::OpSchema::Attribute& attribute) {
  switch (attribute.type) {
    case Kind::INT: return int64_t{1};
    case Kind::FLOAT: return 1.0;
    case Kind::STRING: return std::string("FLOAT");
    case Kind::INTS: return std::vector<int64_t>{0};
    case Kind::FLOATS: return std::vector<double>{1.0};
    case Kind::STRINGS: return std::vector<std::string>{"a"};
    default: return at::zeros({1});
  }
}

// What a node of an operator with one attribute looks like in canonical form.
std::optional<Node> raised(const std::string& op, const std::string& name, const Attribute& value, int64_t opset) {
  Graph graph;
  for (const char* input : {"x0", "x1", "x2", "x3", "x4"})
    graph.inputs.push_back({.name = input, .dims = std::vector<Dim>(4, Dim{2, ""})});
  graph.nodes = {{.name = "n", .op = op, .inputs = {"x0"}, .outputs = {"y"}, .attributes = {{name, value}}}};
  try {
    for (const auto& node : upgrade(graph, opset, {}).nodes)
      if (node.name == "n") return node;
  } catch (const Error&) {  // refused knowingly
  }
  return std::nullopt;
}

// Every attribute of every version of every operator that pare has a rule for, as libonnx lists them, is either one of
// the canonical form or gone after raising.
TEST(Attributes, AllThatLibonnxListsAreKnown) {
  size_t seen = 0;
  for (const auto& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    if (!schema.domain().empty() || schema.Name() == "Constant") continue;
    for (const auto& [name, attribute] : schema.attributes()) {
      const auto node = raised(schema.Name(), name, sample(attribute), schema.SinceVersion());
      const OpDef* op = node ? find_op(*node) : nullptr;
      if (op == nullptr) continue;
      ++seen;
      for (const auto& [left, value] : node->attributes)
        EXPECT_TRUE(op->takes(left) || is_marker(*node, left))
            << schema.Name() << " of opset " << schema.SinceVersion() << ": " << left;
    }
  }
  EXPECT_GT(seen, 300U);
}

// What came after libonnx 1.12 knows opsets (up to 17).
const std::set<std::pair<std::string, std::string>> kNewer = {{"AveragePool", "dilations"},
                                                              {"Cast", "round_mode"},
                                                              {"Cast", "saturate"},
                                                              {"CastLike", "round_mode"},
                                                              {"CastLike", "saturate"},
                                                              {"DequantizeLinear", "block_size"},
                                                              {"DequantizeLinear", "output_dtype"},
                                                              {"LpPool", "ceil_mode"},
                                                              {"LpPool", "dilations"},
                                                              {"QuantizeLinear", "block_size"},
                                                              {"QuantizeLinear", "output_dtype"},
                                                              {"QuantizeLinear", "precision"},
                                                              {"QuantizeLinear", "saturate"},
                                                              {"Range", "stash_type"},
                                                              {"Resize", "antialias"},
                                                              {"Resize", "axes"},
                                                              {"Resize", "keep_aspect_ratio_policy"},
                                                              {"Split", "num_outputs"}};

// And the other way round: pare claims to know no attribute that ONNX does not have.
TEST(Attributes, NoneIsMadeUp) {
  std::set<std::pair<std::string, std::string>> known = kNewer;
  std::set<std::string> operators;
  for (const auto& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    if (schema.domain().empty()) operators.insert(schema.Name());
    for (const auto& [name, attribute] : schema.attributes())
      if (schema.domain().empty()) known.emplace(schema.Name(), name);
  }
  for (const OpDef* op : all_ops())
    for (std::string_view rest = op->attributes; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string name(rest.substr(0, end));
      const std::string type(op->type);
      if (operators.contains(type) && name != "noop_with_empty_axes")
        EXPECT_TRUE(known.contains({type, name})) << type << ": " << name;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

}  // namespace
}  // namespace pare
