// Functions of a model that only its subgraphs call: they are written with the subgraphs, or the file would call what
// it does not have.
#include <gtest/gtest.h>
#include <onnx/checker.h>

#include "onnx/models.h"
#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/write.h"
#include "pare/passes/simplify.h"

namespace pare {
namespace {

using namespace testing_onnx;

void add_function(onnx::ModelProto& model, const std::string& name, const std::string& op, const std::string& domain) {
  auto& function = *model.add_functions();
  function.set_domain("my.functions");
  function.set_name(name);
  function.add_input("a");
  function.add_output("b");
  *function.add_node() = make_node(op, {"a"}, {"b"});
  function.mutable_node(0)->set_domain(domain);
  for (const auto& [imported, version] : {std::pair{"", 17}, std::pair{"my.functions", 1}}) {
    auto* import = function.add_opset_import();
    import->set_domain(imported), import->set_version(version);
  }
}

// If whose branches call `outer`, which calls `inner`; nobody calls `unused`.
onnx::ModelProto model_with_functions() {
  auto model = make_model(17);
  auto* import = model.add_opset_import();
  import->set_domain("my.functions"), import->set_version(1);
  add_input(model, "c", {}, onnx::TensorProto::BOOL);
  add_input(model, "x", {2});
  add_output(model, "y", {2});
  auto& node = add_node(model, "If", {"c"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& body = attribute(node, branch);
    body.set_type(onnx::AttributeProto::GRAPH);
    body.mutable_g()->set_name(branch);
    *body.mutable_g()->add_output() = make_value(std::string(branch) + "_y", {2});
    *body.mutable_g()->add_node() = make_node("outer", {"x"}, {std::string(branch) + "_y"});
    body.mutable_g()->mutable_node(0)->set_domain("my.functions");
  }
  add_function(model, "unused", "Relu", "");
  add_function(model, "inner", "Neg", "");
  add_function(model, "outer", "inner", "my.functions");
  return model;
}

onnx::ModelProto written(const Graph& graph) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(to_onnx_bytes(graph)));
  return model;
}

TEST(Functions, CalledInSubgraphsAreWritten) {
  const onnx::ModelProto model = written(simplify(read(model_with_functions())));
  std::set<std::string> names;
  for (const auto& function : model.functions()) names.insert(function.name());
  EXPECT_EQ(names, (std::set<std::string>{"inner", "outer"}));
  EXPECT_GE(model.ir_version(), 8);
  EXPECT_EQ(model.opset_import(0).version(), 17);  // that of the functions' own operators
  EXPECT_NO_THROW(onnx::checker::check_model(model));
  EXPECT_EQ(written(read(model)).functions_size(), 2);
}

TEST(Functions, GoWithTheSubgraphThatCallsThem) {
  Graph graph = read(model_with_functions());
  graph.outputs = {{.name = "x"}};
  EXPECT_EQ(written(remove_unused(graph)).functions_size(), 0);
}

TEST(Functions, CalledByTheGraphItselfAreRefused) {
  auto model = model_with_functions();
  auto& node = add_node(model, "inner", {"x"}, {"z"});
  node.set_domain("my.functions");
  EXPECT_THROW(read(model), Error);
}

}  // namespace
}  // namespace pare
