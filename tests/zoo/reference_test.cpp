// Every architecture computes what the same module in PyTorch computes (tests/zoo/reference.py). It starts Python once
// per case, so it runs only with PARE_FULL set (./check --full does) and fails there when Python has no torch.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "pare/io/npy.h"
#include "pare/run.h"
#include "pare/zoo/match.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

// Statistics and scales as training leaves them: a batch norm that does nothing would hide a wrong order.
Graph perturbed(Graph graph) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(9);
  for (const Node& node : graph.nodes)
    for (size_t i = 1; node.op == "BatchNormalization" && i < 5; ++i)
      graph.tensors.at(node.inputs[i]) = at::rand(graph.tensor(node.inputs[i]).sizes(), generator).add_(0.5);
  for (const Node& node : graph.nodes)
    for (size_t i = 1; node.op == "LayerNormalization" && i < 3; ++i)
      graph.tensors.at(node.inputs[i]) = at::rand(graph.tensor(node.inputs[i]).sizes(), generator).add_(0.5);
  return graph;
}

struct Case {
  std::string arch;
  ArchOptions options = {};
};

std::string flags_of(const ArchOptions& o) {
  std::string flags = fmt::format(" --width {} --classes {}", o.width, o.classes);
  if (!o.activation.empty()) flags += " --activation " + o.activation;
  if (!o.input.empty()) flags += fmt::format(" --input {}", fmt::join(o.input, " "));
  if (o.shortcut != Shortcut::automatic) flags += fmt::format(" --shortcut {}", name_of(o.shortcut));
  if (o.bias) flags += fmt::format(" --bias {}", *o.bias);
  return flags;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.arch << flags_of(c.options); }

std::vector<Case> reference_cases() {
  std::vector<Case> cases;
  for (const ArchInfo& info : architectures()) cases.push_back({info.name, {.width = 0.5}});
  for (const char* activation : {"tanh", "softsign", "elu", "selu", "leaky-relu", "hardswish"})
    cases.push_back({"convnet-bn", {.activation = activation}});
  cases.push_back({"resnet20"});
  cases.push_back({"resnet20", {.classes = 7, .shortcut = Shortcut::b}});
  cases.push_back({"resnet20", {.width = 0.3, .input = {2, 37, 45}}});
  cases.push_back({"resnet18", {.width = 0.1, .shortcut = Shortcut::a}});
  cases.push_back({"resnet18", {.width = 0.1, .input = {3, 97, 97}}});
  cases.push_back({"mobilenetv1", {.width = 0.25, .input = {3, 97, 97}}});
  for (const char* arch : {"mobilenetv2", "squeezenet1_1", "vit-tiny"})
    cases.push_back({arch, {.width = 0.25, .input = {3, 97, 97}}});
  cases.push_back({"bert-tiny", {.classes = 3, .input = {17}}});
  cases.push_back({"vgg11", {.width = 0.1, .input = {3, 70, 64}, .bias = false}});
  cases.push_back({"mlpnet", {.bias = true}});
  return cases;
}

class Reference : public testing::TestWithParam<Case> {};

TEST_P(Reference, ComputesWhatPyTorchComputes) {
  if (std::getenv("PARE_FULL") == nullptr) GTEST_SKIP() << "starts Python: set PARE_FULL to run it";
  const auto& [arch, options] = GetParam();
  const Graph graph = cast(perturbed(build(arch, options, 4)), at::kDouble);
  const std::vector<at::Tensor> inputs = random_inputs(graph, 2, 5);
  const at::Tensor logits = forward(graph, inputs).outputs.at(0);

  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("pare_reference_{}", ::getpid());
  fs::create_directories(folder);
  for (const std::string& name : state_names(graph))
    write_npy(folder / (name + ".npy"), in_state(graph, name).contiguous());
  write_npy(folder / "input.npy", inputs.at(0));
  const std::string command = fmt::format("/usr/bin/python3 {}/tests/zoo/reference.py {} {}{}", PARE_SOURCE_DIR, arch,
                                          folder.string(), flags_of(options));
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const at::Tensor expected = read_npy(folder / "logits.npy").clone();
  fs::remove_all(folder);
  EXPECT_GT(expected.std().item<double>(), 1e-6);
  // ONNX's default constants of Selu are rounded to float.
  const double tolerance = options.activation == "selu" ? 1e-7 : 1e-9;
  EXPECT_TRUE(logits.allclose(expected, tolerance, tolerance * expected.abs().max().item<double>()))
      << logits << "\nPyTorch:\n"
      << expected;
}

INSTANTIATE_TEST_SUITE_P(Zoo, Reference, testing::ValuesIn(reference_cases()), [](const auto& info) {
  std::string name = fmt::format("{}_{}", info.index, info.param.arch);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace pare
