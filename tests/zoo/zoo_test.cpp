#include "pare/zoo/zoo.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "pare/zoo/match.h"

namespace pare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Parameters as PyTorch counts them: statistics of batch norms are buffers.
int64_t parameter_count(const Graph& graph) {
  int64_t count = 0;
  for (const std::string& name : state_names(graph))
    if (name.find(".running_") == std::string::npos) count += graph.tensor(name).numel();
  return count;
}

std::string usage_error(const std::string& arch, const ArchOptions& options) {
  try {
    build(arch, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return error.what();
  }
  return "no error";
}

struct Counts {
  const char* arch;
  int64_t full;
  int64_t quarter;  // width 0.25
};

// From `tests/zoo/reference.py ARCH --count [--width 0.25]`, that is PyTorch's modules. Well-known among them:
// ResNet-20 0.27 M, ResNet-56 0.85 M, WRN-40-4 8.9 M, LeNet-5 431,080, and a quarter of vgg9-bn with 15,398.
constexpr Counts kCounts[] = {
    {"lenet-300-100", 266610, 61035}, {"lenet-5", 431080, 29153},       {"mlpnet", 414600, 84900},
    {"convnet", 215370, 13818},       {"convnet-bn", 215466, 13842},    {"vgg9", 147322, 15238},
    {"vgg9-bn", 147962, 15398},       {"vgg11", 9225610, 578410},       {"vgg11-bn", 9231114, 579786},
    {"vgg16", 14719818, 922074},      {"vgg16-bn", 14728266, 924186},   {"resnet20", 269722, 17326},
    {"resnet32", 464154, 29646},      {"resnet44", 658586, 41966},      {"resnet56", 853018, 54286},
    {"resnet18", 11173962, 701466},   {"resnet34", 21282122, 1334618},  {"wrn-16-4", 2748890, 173054},
    {"wrn-40-4", 8949210, 561918},    {"mobilenetv1", 3217226, 215642}, {"mobilenetv2", 2236682, 160802},
    {"squeezenet1_1", 727626, 47322}, {"vit-tiny", 811146, 55338},      {"bert-tiny", 4387210, 1020010},
};

TEST(Zoo, HasAsManyParametersAsPyTorch) {
  for (const auto& [arch, full, quarter] : kCounts) {
    EXPECT_EQ(parameter_count(build(arch)), full) << arch;
    EXPECT_EQ(parameter_count(build(arch, {.width = 0.25})), quarter) << arch;
  }
  EXPECT_EQ(std::size(kCounts), architectures().size());
}

TEST(Zoo, CountsOfTheOptions) {
  EXPECT_EQ(parameter_count(build("resnet20", {.shortcut = Shortcut::b})), 272474);
  EXPECT_EQ(parameter_count(build("resnet56", {.shortcut = Shortcut::b})), 855770);
  EXPECT_EQ(parameter_count(build("resnet18", {.shortcut = Shortcut::a})), 11000138);
  EXPECT_EQ(parameter_count(build("resnet18", {.classes = 1000, .input = {3, 224, 224}})), 11689512);  // torchvision's
  EXPECT_EQ(parameter_count(build("resnet34", {.classes = 1000, .input = {3, 224, 224}})), 21797672);
  EXPECT_EQ(parameter_count(build("mobilenetv2", {.classes = 1000, .input = {3, 224, 224}})), 3504872);
  EXPECT_EQ(parameter_count(build("squeezenet1_1", {.classes = 1000, .input = {3, 224, 224}})), 1235496);
  EXPECT_EQ(parameter_count(build("vit-tiny", {.classes = 1000, .input = {3, 224, 224}})), 5717416);  // DeiT-tiny's
  EXPECT_EQ(parameter_count(build("mlpnet", {.bias = true})), 415310);
  EXPECT_EQ(parameter_count(build("vgg11", {.bias = false})), 9222848);
}

TEST(Zoo, EveryArchitectureVerifiesWithEveryActivation) {
  const std::map<std::string, std::string> operators = {{"relu", "Relu"},           {"tanh", "Tanh"},
                                                        {"softsign", "Softsign"},   {"elu", "Elu"},
                                                        {"selu", "Selu"},           {"leaky-relu", "LeakyRelu"},
                                                        {"hardswish", "HardSwish"}, {"gelu", "Gelu"},
                                                        {"relu6", "Clip"}};
  for (const ArchInfo& info : architectures())
    for (const auto& [activation, op] : operators) {
      const Graph graph = build(info.name, {.activation = activation, .width = 0.25, .classes = 7});
      EXPECT_NO_THROW(verify(graph)) << info.name;
      EXPECT_EQ(graph.name, info.name);
      ASSERT_EQ(graph.inputs.size(), 1U);
      EXPECT_EQ(graph.inputs[0].name, "input");
      std::vector<Dim> dims = {{-1, "N"}};
      for (const int64_t extent : info.input) dims.push_back({extent, ""});
      EXPECT_EQ(*graph.inputs[0].dims, dims);
      ASSERT_EQ(graph.outputs.size(), 1U);
      EXPECT_EQ(graph.outputs[0].name, "logits");
      EXPECT_THAT(*graph.outputs[0].dims, ElementsAre(Dim{-1, "N"}, Dim{7, ""}));
      const auto uses = [&](const Node& node) { return node.op == op; };
      EXPECT_TRUE(std::any_of(graph.nodes.begin(), graph.nodes.end(), uses)) << info.name << " " << activation;
      EXPECT_EQ(remove_unused(graph).tensors.size(), graph.tensors.size()) << info.name;
    }
}

TEST(Zoo, OddWidthsAndInputsStillFit) {
  for (const ArchInfo& info : architectures())
    for (const double width : {0.01, 0.3, 1.1}) {
      const bool text = info.input.size() == 1;
      const std::vector<int64_t> input = text ? std::vector<int64_t>{19} : std::vector<int64_t>{2, 37, 45};
      const Graph graph = build(info.name, {.width = width, .input = input, .dropout = 0.5});
      EXPECT_NO_THROW(verify(graph)) << info.name;
      for (const std::string& name : state_names(graph)) EXPECT_GT(graph.tensor(name).numel(), 0) << name;
    }
}

// The 97 keys of a public CIFAR-10 checkpoint of ResNet-20, but for its prefix `module.`.
TEST(Zoo, Resnet20HasTheNamesOfAPublicCheckpoint) {
  std::vector<std::string> expected = {"conv1.weight"};
  const auto batch_norm = [&](const std::string& path) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) expected.push_back(path + part);
  };
  batch_norm("bn1");
  for (int stage = 1; stage <= 3; ++stage)
    for (int block = 0; block < 3; ++block)
      for (int i = 1; i <= 2; ++i) {
        const std::string path = fmt::format("layer{}.{}.", stage, block);
        expected.push_back(fmt::format("{}conv{}.weight", path, i));
        batch_norm(fmt::format("{}bn{}", path, i));
      }
  expected.insert(expected.end(), {"linear.weight", "linear.bias"});
  const Graph graph = build("resnet20");
  EXPECT_EQ(state_names(graph), expected);
  EXPECT_EQ(graph.tensor("layer2.0.conv1.weight").sizes(), at::IntArrayRef({32, 16, 3, 3}));
  EXPECT_EQ(graph.tensor("linear.weight").sizes(), at::IntArrayRef({10, 64}));
}

TEST(Zoo, NamesOfOtherImplementations) {
  EXPECT_THAT(state_names(build("lenet-300-100")),
              ElementsAre("ip1.weight", "ip1.bias", "ip2.weight", "ip2.bias", "ip3.weight", "ip3.bias"));
  EXPECT_THAT(state_names(build("mlpnet")), ElementsAre("fc1.weight", "fc2.weight", "fc3.weight", "fc4.weight"));
  const std::pair<const char*, const char*> some[] = {
      {"vgg16", "features.28.weight"},
      {"vgg16-bn", "features.40.weight"},
      {"vgg16-bn", "classifier.weight"},
      {"resnet18", "layer4.0.downsample.1.running_var"},
      {"resnet34", "layer3.5.conv2.weight"},
      {"wrn-40-4", "block1.layer.0.convShortcut.weight"},
      {"wrn-40-4", "block3.layer.5.conv2.weight"},
      {"mobilenetv1", "model.13.3.weight"},
      {"mobilenetv2", "features.17.conv.1.0.weight"},
      {"mobilenetv2", "features.18.1.running_var"},
      {"squeezenet1_1", "features.12.expand3x3.bias"},
      {"squeezenet1_1", "classifier.1.weight"},
      {"vit-tiny", "blocks.5.attn.qkv.weight"},
      {"vit-tiny", "cls_token"},
      {"vit-tiny", "patch_embed.proj.weight"},
      {"bert-tiny", "encoder.layer.1.attention.output.LayerNorm.weight"},
  };
  for (const auto& [arch, name] : some) EXPECT_TRUE(build(arch).is_constant(name)) << arch << " " << name;
}

TEST(Zoo, OptionAShortcutsSubsampleAndPad) {
  const Graph graph = build("resnet20");
  const auto node = [&](const std::string& name) {
    return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.name == name; });
  };
  EXPECT_EQ(node("layer2.0.shortcut.subsample").op, "Slice");
  EXPECT_EQ(node("layer3.0.shortcut").op, "Pad");
  const at::Tensor pads = graph.tensor(node("layer3.0.shortcut").inputs.at(1));
  EXPECT_TRUE(pads.equal(at::tensor({0, 16, 0, 0, 0, 16, 0, 0}, at::kLong)));  // planes / 4 each side
}

TEST(Zoo, SaysWhatIsWrong) {
  EXPECT_THAT(usage_error("resnet21", {}), AllOf(HasSubstr("resnet21"), HasSubstr("resnet20")));
  EXPECT_THAT(usage_error("vgg16bn", {}), HasSubstr("vgg16-bn"));
  EXPECT_THAT(usage_error("resnet20", {.activation = "swish"}), HasSubstr("leaky-relu"));
  EXPECT_THAT(usage_error("resnet20", {.width = 0.0}), HasSubstr("width"));
  EXPECT_THAT(usage_error("resnet20", {.width = std::nan("")}), HasSubstr("width"));
  EXPECT_THAT(usage_error("resnet20", {.classes = 0}), HasSubstr("classes"));
  EXPECT_THAT(usage_error("resnet20", {.input = {3, 32}}), HasSubstr("[3, 32]"));
  EXPECT_THAT(usage_error("bert-tiny", {.input = {3, 32, 32}}), HasSubstr("tokens"));
  EXPECT_THROW(build("bert-tiny", {.input = {513}}), Error);
  EXPECT_THROW(build("lenet-5", {.input = {1, 8, 8}}), Error);
  EXPECT_THROW(build("vgg16", {.input = {3, 16, 16}}), Error);
}

}  // namespace
}  // namespace pare
