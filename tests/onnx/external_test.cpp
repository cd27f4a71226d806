// Tensor data in files beside the model.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "onnx/models.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/onnx/read.h"
#include "pare/io/onnx/tensor_pb.h"
#include "pare/io/onnx/write.h"

namespace pare {
namespace {

namespace fs = std::filesystem;
using namespace testing_onnx;

// A directory of its own, with a data file of 64 floats 0, 1, 2….
struct ExternalData : testing::Test {
  ExternalData() : directory(fs::path(testing::TempDir()) / fmt::format("pare_external_{}", ::getpid())) {
    fs::create_directories(directory / "model");
    const at::Tensor numbers = at::arange(64, at::kFloat);
    for (const auto& path : {directory / "model" / "w.bin", directory / "outside.bin"})
      std::ofstream(path, std::ios::binary).write(static_cast<const char*>(numbers.data_ptr()), 256);
  }
  ~ExternalData() override { fs::remove_all(directory); }

  Graph read(const std::string& location, const std::string& offset, const std::string& length,
             const std::vector<int64_t>& dims = {8}) const {
    auto model = make_model(13);
    add_input(model, "x", {8});
    add_output(model, "y", {8});
    add_node(model, "Add", {"x", "w"}, {"y"});
    auto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t dim : dims) tensor.add_dims(dim);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto entry = [&](const char* key, const std::string& value) {
      if (value.empty()) return;
      auto* e = tensor.add_external_data();
      e->set_key(key), e->set_value(value);
    };
    entry("location", location), entry("offset", offset), entry("length", length);
    return read_onnx_bytes(bytes_of(model.SerializeAsString()), "test.onnx", directory / "model");
  }

  ErrorKind failure(const std::string& location, const std::string& offset = "", const std::string& length = "",
                    const std::vector<int64_t>& dims = {8}) const {
    try {
      read(location, offset, length, dims);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("'w'"), std::string::npos) << error.what();
      return error.kind();
    }
    return ErrorKind::failed;
  }

  fs::path directory;
};

TEST_F(ExternalData, IsReadInPlace) {
  EXPECT_EQ(read("w.bin", "16", "32").tensor("w")[0].item<float>(), 4);
  EXPECT_EQ(read("w.bin", "", "").tensor("w")[7].item<float>(), 7);
  EXPECT_EQ(read("./w.bin", "224", "").tensor("w")[7].item<float>(), 63);
  EXPECT_TRUE(at::isfinite(read("w.bin", "17", "32").tensor("w")).defined());  // not aligned: copied
  EXPECT_EQ(read("w.bin", "256", "0", {0}).tensor("w").numel(), 0);
}

TEST_F(ExternalData, MayNotLeaveTheDirectory) {
  fs::create_symlink(directory / "outside.bin", directory / "model" / "link.bin");
  fs::create_symlink(directory, directory / "model" / "up");
  EXPECT_EQ(failure("../outside.bin"), ErrorKind::format);
  EXPECT_EQ(failure("sub/../../outside.bin"), ErrorKind::format);
  EXPECT_EQ(failure((directory / "model" / "w.bin").string()), ErrorKind::format);
  EXPECT_EQ(failure("link.bin"), ErrorKind::format);
  EXPECT_EQ(failure("up/outside.bin"), ErrorKind::format);
  EXPECT_EQ(failure(""), ErrorKind::format);
  EXPECT_EQ(failure("."), ErrorKind::format);
  EXPECT_EQ(failure("absent.bin"), ErrorKind::file);
}

// A pipe that nobody writes into would be waited for: within seconds, or the alarm ends the test program.
TEST_F(ExternalData, IsARegularFile) {
  ASSERT_EQ(::mkfifo((directory / "model" / "pipe.bin").c_str(), 0600), 0);
  fs::create_directory(directory / "model" / "folder.bin");
  ::alarm(30);
  EXPECT_EQ(failure("pipe.bin"), ErrorKind::file);
  EXPECT_EQ(failure("folder.bin"), ErrorKind::file);
  fs::create_symlink("/dev/zero", directory / "model" / "device.bin");
  EXPECT_EQ(failure("device.bin"), ErrorKind::format);  // outside
  const fs::path model = directory / "model" / "pipe.onnx";
  ASSERT_EQ(::mkfifo(model.c_str(), 0600), 0);
  EXPECT_THROW(read_onnx(model), Error);
  EXPECT_THROW(read_tensor_pb(model), Error);
  ::alarm(0);
}

TEST_F(ExternalData, MustBeThere) {
  EXPECT_EQ(failure("w.bin", "240"), ErrorKind::format);
  EXPECT_EQ(failure("w.bin", "257"), ErrorKind::format);
  EXPECT_EQ(failure("w.bin", "-1"), ErrorKind::format);
  EXPECT_EQ(failure("w.bin", "9223372036854775807"), ErrorKind::format);
  EXPECT_EQ(failure("w.bin", "18446744073709551615"), ErrorKind::format);
  EXPECT_EQ(failure("w.bin", "0x10"), ErrorKind::format);
  EXPECT_EQ(failure("w.bin", "0", "31"), ErrorKind::format);
  EXPECT_EQ(failure("w.bin", "0", "", {1000000000, 1000000}), ErrorKind::format);
}

TEST_F(ExternalData, RoundTrip) {
  Graph graph;
  graph.name = "test";
  graph.inputs = {{.name = "x"}};
  graph.outputs = {{.name = "y"}};
  graph.nodes = {{.name = "n", .op = "Sum", .inputs = {"x", "a", "b", "c"}, .outputs = {"y"}}};
  graph.tensors = {{"a", at::rand({300})}, {"b", at::rand({40, 50}).t()}, {"c", at::rand({3})}};
  const fs::path path = directory / "model" / "out.onnx";
  write_onnx(graph, path, {.external_data = true});
  EXPECT_EQ(fs::file_size(directory / "model" / "out.onnx.data"), 4096U + 8000U);
  const Graph again = read_onnx(path);
  for (const auto& [name, tensor] : graph.tensors) EXPECT_TRUE(at::equal(tensor, again.tensor(name))) << name;
  // Over the file that it is read from.
  write_onnx(again, path, {.external_data = true});
  for (const auto& [name, tensor] : read_onnx(path).tensors) EXPECT_TRUE(at::equal(tensor, graph.tensor(name))) << name;
}

TEST_F(ExternalData, TensorFiles) {
  const fs::path path = directory / "t.pb";
  const at::Tensor tensor = at::rand({3, 5}).t();
  write_tensor_pb(tensor, path, "t");
  EXPECT_TRUE(at::equal(read_tensor_pb(path), tensor));
  const std::string bytes(MappedFile::open(path)->text());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, i);
    EXPECT_THROW(read_tensor_pb(path), Error) << i;
  }
  EXPECT_THROW(read_tensor_pb(directory), Error);
}

}  // namespace
}  // namespace pare
