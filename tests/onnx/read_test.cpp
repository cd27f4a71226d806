#include "pare/io/onnx/read.h"

#include <gtest/gtest.h>

#include "onnx/models.h"
#include "pare/error.h"
#include "pare/io/onnx/write.h"

namespace pare {
namespace {

using namespace testing_onnx;

ErrorKind kind_of_failure(const onnx::ModelProto& model, const std::string& mention = "") {
  try {
    read(model);
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("test.onnx")) << error.what();
    EXPECT_NE(std::string(error.what()).find(mention), std::string::npos) << error.what();
    return error.kind();
  }
  return ErrorKind::failed;
}

onnx::ModelProto relu_model() {
  auto model = make_model(13);
  add_input(model, "x", {1, 4});
  add_output(model, "y", {1, 4});
  add_node(model, "Relu", {"x"}, {"y"});
  return model;
}

TEST(ReadOnnx, InitialisersAreNoInputs) {
  auto model = make_model(9, 3);
  add_input(model, "x", {1, 2});
  add_input(model, "w", {2, 2});
  add_floats(model, "w", {2, 2});
  add_output(model, "y", {1, 2});
  add_node(model, "MatMul", {"x", "w"}, {"y"});
  const Graph graph = read(model);
  ASSERT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.inputs[0].name, "x");
  EXPECT_EQ(graph.source_opset, 9);
  EXPECT_EQ(graph.tensor("w").sum().item<float>(), 6);
}

TEST(ReadOnnx, KeepsSymbolsMetadataAndDomains) {
  auto model = relu_model();
  auto* shape = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(0)->set_dim_param("batch");
  auto* entry = model.add_metadata_props();
  entry->set_key("recipe"), entry->set_value("none");
  auto* domain = model.add_opset_import();
  domain->set_domain("com.microsoft"), domain->set_version(1);
  const Graph graph = read(model);
  EXPECT_EQ(graph.inputs[0].dims->at(0), (Dim{.size = -1, .symbol = "batch"}));
  EXPECT_EQ(graph.inputs[0].dims->at(1), (Dim{.size = 4}));
  EXPECT_EQ(graph.metadata.at("recipe"), "none");
  EXPECT_EQ(graph.domains.at("com.microsoft"), 1);
}

TEST(ReadOnnx, ConstantsBecomeTensors) {
  auto model = make_model(13);
  add_input(model, "x", {2});
  add_output(model, "y", {2});
  fill_floats(*attribute(add_node(model, "Constant", {}, {"a"}), "value").mutable_t(), "", {2});
  model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_type(onnx::AttributeProto::TENSOR);
  set(add_node(model, "Constant", {}, {"b"}), "value_float", 1.5F);
  set(add_node(model, "Constant", {}, {"c"}), "value_floats", std::vector<float>{1, 2});
  set(add_node(model, "Constant", {}, {"d"}), "value_int", int64_t{3});
  set(add_node(model, "Constant", {}, {"e"}), "value_ints", std::vector<int64_t>{4, 5});
  auto& sparse = attribute(add_node(model, "Constant", {}, {"f"}), "sparse_value");
  sparse.set_type(onnx::AttributeProto::SPARSE_TENSOR);
  fill_floats(*sparse.mutable_sparse_tensor()->mutable_values(), "", {2});
  auto* indices = sparse.mutable_sparse_tensor()->mutable_indices();
  indices->set_data_type(onnx::TensorProto::INT64);
  indices->add_dims(2), indices->add_dims(2);
  for (const int64_t i : {0, 1, 2, 0}) indices->add_int64_data(i);
  sparse.mutable_sparse_tensor()->add_dims(3), sparse.mutable_sparse_tensor()->add_dims(2);
  add_node(model, "Sum", {"x", "a", "b", "c"}, {"y"});
  const Graph graph = read(model);
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.tensor("a").dim(), 1);
  EXPECT_EQ(graph.tensor("b").item<float>(), 1.5F);
  EXPECT_EQ(graph.tensor("b").dim(), 0);
  EXPECT_EQ(graph.tensor("c").scalar_type(), at::kFloat);
  EXPECT_EQ(graph.tensor("d").item<int64_t>(), 3);
  EXPECT_EQ(integers(graph, "e"), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(integers(graph, "f"), (std::vector<int64_t>{0, 0, 0, 0, 1, 0}));
}

// PyTorch writes equal weights once and the others as Identity.
TEST(ReadOnnx, IdentityOfATensorIsTheTensor) {
  auto model = make_model(13);
  add_input(model, "x", {2});
  add_floats(model, "w", {2});
  add_output(model, "y", {2});
  add_output(model, "copy", {2});
  add_node(model, "Add", {"x", "w3"}, {"y"});
  add_node(model, "Identity", {"w2"}, {"w3"});
  add_node(model, "Identity", {"w"}, {"w2"});
  add_node(model, "Identity", {"w"}, {"copy"});
  const Graph graph = read(model);
  ASSERT_EQ(graph.nodes.size(), 2U);
  for (const auto& node : graph.nodes)
    if (node.op == "Add")
      EXPECT_EQ(node.inputs[1], "w");
    else
      EXPECT_EQ(node.outputs[0], "copy");
}

TEST(ReadOnnx, SortsAndNamesNodes) {
  auto model = make_model(13);
  add_input(model, "x", {2});
  add_output(model, "y", {2});
  add_node(model, "Relu", {"h"}, {"y"}).clear_name();
  add_node(model, "Abs", {"x"}, {"h"}).clear_name();
  const Graph graph = read(model);
  EXPECT_EQ(graph.nodes[0].op, "Abs");
  EXPECT_FALSE(graph.nodes[0].name.empty());
  EXPECT_NE(graph.nodes[0].name, graph.nodes[1].name);
}

TEST(ReadOnnx, SubgraphsStayAndSayWhatTheyRead) {
  auto model = make_model(13);
  add_input(model, "c", {}, onnx::TensorProto::BOOL);
  add_input(model, "x", {2});
  add_output(model, "y", {2});
  add_node(model, "Relu", {"x"}, {"h"});
  auto& node = add_node(model, "If", {"c"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& body = attribute(node, branch);
    body.set_type(onnx::AttributeProto::GRAPH);
    body.mutable_g()->set_name(branch);
    *body.mutable_g()->add_output() = make_value(std::string(branch) + "_y", {2});
    *body.mutable_g()->add_node() = make_node("Neg", {branch[0] == 't' ? "h" : "x"}, {std::string(branch) + "_y"});
  }
  const Graph graph = read(model);
  EXPECT_EQ(graph.nodes[1].captures, (Names{"h", "x"}));
  EXPECT_TRUE(std::holds_alternative<OpaqueAttribute>(graph.nodes[1].attributes.at("then_branch")));
  const Graph again = read_onnx_bytes(bytes_of(to_onnx_bytes(graph)), "again");
  EXPECT_EQ(again.nodes[1].attributes.at("else_branch").index(), graph.nodes[1].attributes.at("else_branch").index());

  model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g()->mutable_node(0)->set_input(0, "nowhere");
  EXPECT_EQ(kind_of_failure(model, "nowhere"), ErrorKind::format);
}

TEST(ReadOnnx, UnknownOperatorsAreKept) {
  auto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_op_type("FusedThing");
  model.mutable_graph()->mutable_node(0)->set_domain("com.example");
  const Graph graph = read(model);
  EXPECT_EQ(graph.nodes[0].domain, "com.example");
}

template <typename Fill>
at::Tensor typed(int32_t type, std::vector<int64_t> dims, Fill fill) {
  auto model = relu_model();
  auto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name("t");
  tensor.set_data_type(type);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  fill(tensor);
  return read(model).tensor("t");
}

TEST(ReadOnnx, ReadsEveryFieldOfATensor) {
  using T = onnx::TensorProto;
  EXPECT_EQ(typed(T::FLOAT16, {2}, [](T& t) { t.add_int32_data(0x3c00), t.add_int32_data(0xc000); })
                .to(at::kFloat)
                .sum()
                .item<float>(),
            -1.0F);
  EXPECT_EQ(typed(T::BFLOAT16, {1}, [](T& t) { t.add_int32_data(0x3f80); }).to(at::kFloat).item<float>(), 1.0F);
  EXPECT_EQ(typed(T::INT8, {1}, [](T& t) { t.add_int32_data(-3); }).item<int64_t>(), -3);
  EXPECT_EQ(typed(T::UINT8, {1}, [](T& t) { t.add_int32_data(200); }).item<int64_t>(), 200);
  EXPECT_EQ(typed(T::INT16, {1}, [](T& t) { t.add_int32_data(-300); }).item<int64_t>(), -300);
  EXPECT_EQ(typed(T::BOOL, {1}, [](T& t) { t.add_int32_data(1); }).item<bool>(), true);
  EXPECT_EQ(typed(T::BOOL, {1}, [](T& t) { t.set_raw_data("\x05"); }).to(at::kInt).item<int>(), 1);
  EXPECT_EQ(typed(T::DOUBLE, {}, [](T& t) { t.add_double_data(2.5); }).item<double>(), 2.5);
  EXPECT_EQ(typed(T::INT64, {0, 3}, [](T&) {}).numel(), 0);
  EXPECT_EQ(typed(T::INT32, {100}, [](T& t) { t.set_raw_data(std::string(400, '\1')); }).sum().item<int64_t>(),
            100 * int64_t{0x01010101});
  EXPECT_THROW(typed(T::INT8, {1}, [](T& t) { t.add_int32_data(300); }), Error);
  EXPECT_THROW(typed(T::FLOAT, {2}, [](T& t) { t.add_float_data(1); }), Error);
  EXPECT_THROW(typed(T::FLOAT, {1}, [](T& t) { t.add_float_data(1), t.set_raw_data("abcd"); }), Error);
}

TEST(ReadOnnx, RefusesWhatItCannotRead) {
  auto model = relu_model();
  model.mutable_opset_import(0)->set_version(29);
  EXPECT_EQ(kind_of_failure(model, "29"), ErrorKind::unsupported);
  model = relu_model();
  model.set_ir_version(15);
  EXPECT_EQ(kind_of_failure(model, "15"), ErrorKind::unsupported);
  constexpr int32_t float8 = 17;
  for (const int32_t type : {int32_t{onnx::TensorProto::STRING}, float8, int32_t{onnx::TensorProto::COMPLEX64}}) {
    model = relu_model();
    model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(type);
    EXPECT_EQ(kind_of_failure(model, "graph input 'x'"), ErrorKind::unsupported);
    model = relu_model();
    add_floats(model, "t", {1}).set_data_type(type);
    EXPECT_EQ(kind_of_failure(model, "initialiser 't'"), ErrorKind::unsupported);
  }
  model = relu_model();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_sequence_type();
  EXPECT_EQ(kind_of_failure(model, "sequence"), ErrorKind::unsupported);
}

TEST(ReadOnnx, RefusesBrokenGraphs) {
  auto model = relu_model();
  model.clear_graph();
  EXPECT_EQ(kind_of_failure(model, "no graph"), ErrorKind::format);
  model = relu_model();
  model.clear_opset_import();
  EXPECT_EQ(kind_of_failure(model, "opset"), ErrorKind::format);
  model = relu_model();
  add_node(model, "Abs", {"x"}, {"y"});
  EXPECT_EQ(kind_of_failure(model, "'y'"), ErrorKind::format);
  model = relu_model();
  add_node(model, "Abs", {"b"}, {"a"}), add_node(model, "Neg", {"a"}, {"b"});
  EXPECT_EQ(kind_of_failure(model, "cycle"), ErrorKind::format);
  model = relu_model();
  add_floats(model, "w", {1}), add_floats(model, "w", {1});
  EXPECT_EQ(kind_of_failure(model, "'w'"), ErrorKind::format);
  model = relu_model();
  add_input(model, "x", {1});
  EXPECT_EQ(kind_of_failure(model, "'x'"), ErrorKind::format);
  model = relu_model();
  add_node(model, "Split", {"x"}, {"p", "p"});
  EXPECT_EQ(kind_of_failure(model, "'p'"), ErrorKind::format);
  model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "nothing");
  EXPECT_EQ(kind_of_failure(model, "nothing"), ErrorKind::format);
  model = relu_model();
  add_output(model, "missing", {1});
  EXPECT_EQ(kind_of_failure(model, "missing"), ErrorKind::format);
  model = relu_model();
  auto& wrong = attribute(*model.mutable_graph()->mutable_node(0), "alpha");
  wrong.set_type(onnx::AttributeProto::FLOAT), wrong.set_i(3);
  EXPECT_EQ(kind_of_failure(model, "alpha"), ErrorKind::format);
}

TEST(ReadOnnx, RefusesAbsurdDimsBeforeAllocating) {
  const int64_t huge = 1'000'000'000;
  for (const auto& dims : std::vector<std::vector<int64_t>>{{huge, huge},
                                                            {huge, huge, huge},
                                                            {-1},
                                                            {int64_t{1} << 62, int64_t{1} << 62, 0},
                                                            {int64_t{1} << 40},
                                                            {INT64_MAX}}) {
    for (const bool sparse : {false, true}) {
      auto model = relu_model();
      auto& tensor = sparse ? *model.mutable_graph()->add_sparse_initializer()->mutable_values()
                            : *model.mutable_graph()->add_initializer();
      tensor.set_name("t");
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      if (sparse) {
        auto& s = *model.mutable_graph()->mutable_sparse_initializer(0);
        for (const int64_t dim : dims) s.add_dims(dim);
        s.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
        s.mutable_indices()->add_dims(0);
        tensor.add_dims(0);
      } else {
        for (const int64_t dim : dims) tensor.add_dims(dim);
      }
      const auto kind = kind_of_failure(model, "'t'");
      EXPECT_TRUE(kind == ErrorKind::format || (sparse && kind == ErrorKind::unsupported));
    }
  }
}

// Every prefix and every flipped bit either loads or gives one error that names the file.
TEST(ReadOnnx, SurvivesDamage) {
  auto model = make_model(9);
  add_input(model, "x", {1, 2, 4, 4});
  add_output(model, "y", {1, 8});
  add_floats(model, "w", {2, 2, 1, 1});
  add_ints(model, "shape", {1, -1});
  add_node(model, "Conv", {"x", "w"}, {"h"});
  set(add_node(model, "Clip", {"h"}, {"c"}), "max", 6.0F);
  set(add_node(model, "ReduceMean", {"c"}, {"m"}), "axes", std::vector<int64_t>{2});
  add_node(model, "Reshape", {"m", "shape"}, {"r"});
  add_node(model, "Softmax", {"r"}, {"y"});
  const std::string whole = model.SerializeAsString();
  int loaded = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      const Graph graph = read_onnx_bytes(bytes_of(bytes), "damaged.onnx");
      ++loaded;
      to_onnx_bytes(graph);
    } catch (const Error& error) {
      EXPECT_FALSE(error.message().empty());
      EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.what();
    }
  };
  for (size_t i = 0; i < whole.size(); ++i) attempt(whole.substr(0, i));
  EXPECT_LE(loaded, 1);
  for (size_t i = 0; i < whole.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      attempt(bytes);
    }
  EXPECT_GT(loaded, 100);
}

}  // namespace
}  // namespace pare
