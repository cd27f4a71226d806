#include "pare/zoo/match.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "pare/error.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Rename = std::function<std::string(std::string)>;

WeightList state_of(
    const Graph& graph, const Rename& rename = [](std::string name) { return name; }) {
  WeightList state;
  for (const std::string& name : state_names(graph)) state.emplace_back(rename(name), graph.tensor(name));
  return state;
}

std::string replaced(std::string name, const std::string& from, const std::string& to) {
  if (const size_t found = name.find(from); found != std::string::npos) name.replace(found, from.size(), to);
  return name;
}

void expect_same_state(const Graph& a, const Graph& b) {
  for (const std::string& name : state_names(a)) EXPECT_TRUE(a.tensor(name).equal(b.tensor(name))) << name;
}

std::string match_error(const Graph& graph, const WeightList& weights, ErrorKind kind) {
  MatchReport report;
  try {
    with_weights(graph, weights, report);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Match, TakesPrefixesOffAndIgnoresCounters) {
  const Graph trained = build("resnet20", {.width = 0.25}, 1);
  for (const std::string prefix : {"", "module.", "model.module.", "net.backbone."}) {
    WeightList state = state_of(trained, [&](const std::string& name) { return prefix + name; });
    state.emplace_back(prefix + "bn1.num_batches_tracked", at::scalar_tensor(5, at::kLong));
    state.emplace_back("epoch", at::scalar_tensor(5, at::kLong));
    MatchReport report;
    const Graph target = build("resnet20", {.width = 0.25}, 2);
    expect_same_state(with_weights(target, state, report), trained);
    EXPECT_EQ(report.prefix, prefix);
    EXPECT_EQ(report.matched.size(), state_names(target).size());
    EXPECT_EQ(report.matched.front(), std::pair(prefix + "conv1.weight", std::string("conv1.weight")));
    EXPECT_THAT(report.ignored, ElementsAre(prefix + "bn1.num_batches_tracked", "epoch"));
  }
}

TEST(Match, KnowsTheNamesOfOtherImplementations) {
  struct Case {
    const char* arch;
    ArchOptions options;
    Rename rename;
  };
  const Case cases[] = {
      {"resnet20", {.width = 0.25}, [](auto name) { return replaced(name, "linear.", "fc."); }},
      {"resnet20",
       {.width = 0.25, .shortcut = Shortcut::b},
       [](auto name) { return replaced(name, "downsample", "shortcut"); }},
      {"resnet18",
       {.width = 0.1},
       [](auto name) { return "module." + replaced(replaced(name, "downsample", "shortcut"), "fc.", "linear."); }},
      {"vgg11", {.width = 0.1}, [](auto name) { return replaced(name, "classifier.", "classifier.1."); }},
      {"vgg16-bn", {.width = 0.1}, [](auto name) { return replaced(name, "classifier.", "linear."); }},
      {"lenet-5", {.width = 0.1}, [](auto name) { return replaced(name, "ip", "fc"); }},
      {"mlpnet", {.width = 0.1}, [](auto name) { return replaced(name, "fc", "ip"); }},
  };
  for (const auto& [arch, options, rename] : cases) {
    const Graph trained = build(arch, options, 1);
    MatchReport report;
    expect_same_state(with_weights(build(arch, options, 2), state_of(trained, rename), report), trained);
    EXPECT_THAT(report.ignored, IsEmpty()) << arch;
  }
}

// conv1, bn1, layers.<i>.{conv1, bn1, conv2, bn2}, linear
TEST(Match, KnowsTheOtherMobileNet) {
  const Graph trained = build("mobilenetv1", {.width = 0.1}, 1);
  const auto rename = [](const std::string& name) {
    if (name.starts_with("fc.")) return "linear." + name.substr(3);
    int block = 0;
    int place = 0;
    char rest[32];
    EXPECT_EQ(std::sscanf(name.c_str(), "model.%d.%d.%31s", &block, &place, rest), 3) << name;
    const std::string module = fmt::format("{}{}", place % 3 == 0 ? "conv" : "bn", place < 3 ? 1 : 2);
    return block == 0 ? fmt::format("{}.{}", module, rest) : fmt::format("layers.{}.{}.{}", block - 1, module, rest);
  };
  MatchReport report;
  const Graph target = build("mobilenetv1", {.width = 0.1}, 2);
  expect_same_state(with_weights(target, state_of(trained, rename), report), trained);
}

TEST(Match, ConvertsTypesAndLeavesTheGraphAlone) {
  const Graph target = build("lenet-5", {.width = 0.1}, 2);
  const at::Tensor before = target.tensor("ip1.weight").clone();
  MatchReport report;
  const Graph result = with_weights(target, state_of(cast(build("lenet-5", {.width = 0.1}, 1), at::kHalf)), report);
  EXPECT_EQ(result.tensor("ip1.weight").scalar_type(), at::kFloat);
  EXPECT_TRUE(target.tensor("ip1.weight").equal(before));
  EXPECT_FALSE(result.tensor("ip1.weight").equal(before));
}

TEST(Match, NamesWhatIsMissingAndWhatWasProbablyMeant) {
  const Graph graph = build("resnet20", {.width = 0.25});
  const auto typo =
      state_of(graph, [](auto name) { return "module." + replaced(name, "layer1.0.bn1", "layer1.0.bnorm1"); });
  EXPECT_THAT(match_error(graph, typo, ErrorKind::format),
              AllOf(HasSubstr("missing 4"), HasSubstr("layer1.0.bn1.weight (is it layer1.0.bnorm1.weight?)"),
                    HasSubstr("unexpected 4"), HasSubstr("layer1.0.bnorm1.running_var")));
  // Nothing alike: no suggestion.
  WeightList short_one = state_of(graph);
  short_one.pop_back();
  EXPECT_THAT(match_error(graph, short_one, ErrorKind::format),
              AllOf(HasSubstr("missing 1: linear.bias"), Not(HasSubstr("is it"))));
  // Long lists are cut.
  EXPECT_THAT(match_error(graph, {}, ErrorKind::format), HasSubstr("missing 97: conv1.weight"));
  EXPECT_THAT(match_error(graph, {}, ErrorKind::format), HasSubstr("and 89 more"));
}

TEST(Match, RefusesTensorsWithoutAPlace) {
  // The state of ResNet-32 has everything that ResNet-20 asks for: loading it would make another network.
  const Graph graph = build("resnet20", {.width = 0.25});
  const WeightList deeper = state_of(build("resnet32", {.width = 0.25}));
  EXPECT_THAT(match_error(graph, deeper, ErrorKind::format),
              AllOf(HasSubstr("layer1.3.conv1.weight"), Not(HasSubstr("missing"))));
  EXPECT_THAT(match_error(build("mlpnet"), state_of(build("mlpnet", {.bias = true})), ErrorKind::format),
              HasSubstr("unexpected 4: fc1.bias"));
  MatchReport report;
  with_weights(graph, deeper, report, {.allow_unexpected = true});
  EXPECT_EQ(report.ignored.size(), 60U);
}

TEST(Match, NamesTheTensorOfAnotherShape) {
  const Graph graph = build("resnet20");
  EXPECT_THAT(match_error(graph, state_of(build("resnet20", {.width = 0.5})), ErrorKind::shape),
              AllOf(HasSubstr("conv1.weight"), HasSubstr("[16, 3, 3, 3]"), HasSubstr("[8, 3, 3, 3]"),
                    HasSubstr("`width` by 0.5")));
  EXPECT_THAT(
      match_error(graph, state_of(build("resnet20", {.classes = 100})), ErrorKind::shape),
      AllOf(HasSubstr("linear.weight"), HasSubstr("[10, 64]"), HasSubstr("[100, 64]"), HasSubstr("`classes` 100")));
  WeightList odd = state_of(graph);
  odd[0].second = at::zeros({16, 3, 5, 5});
  odd[5].second = at::zeros({16, 16});
  EXPECT_THAT(match_error(graph, odd, ErrorKind::shape), AllOf(HasSubstr("conv1.weight"), Not(HasSubstr("`"))));
}

// PyTorch keeps the weight of a linear layer the other way round than a product over tokens has it.
TEST(Match, WeightsOverTokensAreTurned) {
  const Graph graph = build("vit-tiny", {.width = 0.25});
  WeightList weights;
  for (const std::string& name : state_names(graph)) weights.emplace_back(name, at::randn_like(in_state(graph, name)));
  MatchReport report;
  const Graph result = with_weights(graph, weights, report);
  const auto square = std::find_if(weights.begin(), weights.end(),
                                   [](const auto& entry) { return entry.first == "blocks.0.attn.proj.weight"; });
  EXPECT_TRUE(result.tensor(square->first).equal(square->second.t()));
  EXPECT_EQ(in_state(graph, "blocks.0.attn.qkv.weight").sizes(), at::IntArrayRef({96, 32}));
  EXPECT_EQ(in_state(graph, "head.weight").sizes(), graph.tensor("head.weight").sizes());
  for (const auto& [name, value] : weights) EXPECT_TRUE(in_state(result, name).equal(value)) << name;
}

}  // namespace
}  // namespace pare
