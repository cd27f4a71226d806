#include "pare/sparsify/mask.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "pare/error.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

int64_t kept(const TensorMap& masks) {
  int64_t sum = 0;
  for (const auto& [name, mask] : masks) sum += mask.sum().item<int64_t>();
  return sum;
}

TensorMap scores_with_ties() {
  at::manual_seed(3);
  return {
      {"a", at::randint(0, 3, {10, 7}).to(at::kFloat)}, {"b", at::full({33}, 1.0F)}, {"c", at::randn({4, 4, 3, 3})}};
}

TEST(Masks, TheCountIsExactWithTies) {
  const TensorMap scores = scores_with_ties();
  const double all = 70 + 33 + 144;
  for (const double sparsity : {0.0, 0.1, 0.5, 0.77, 0.9, 0.98})
    EXPECT_EQ(kept(masks_by_score(scores, {}, sparsity, {})), std::llround((1 - sparsity) * all)) << sparsity;
  EXPECT_EQ(kept(masks_by_score(scores, {}, 0.999, {.allow_empty = true})), 0);
  EXPECT_EQ(kept(masks_by_score(scores, {}, 0.999, {})), 3);  // one a layer
}

TEST(Masks, TheBestAreKept) {
  const auto masks =
      masks_by_score({{"a", at::tensor({5.0, 1.0, 3.0})}, {"b", at::tensor({4.0, 2.0, 0.0})}}, {}, 0.5, {});
  EXPECT_TRUE(masks.at("a").equal(at::tensor({1, 0, 1}, at::kLong).to(at::kBool)));
  EXPECT_TRUE(masks.at("b").equal(at::tensor({1, 0, 0}, at::kLong).to(at::kBool)));
}

TEST(Masks, TiesGoToTheSecondScoreAndThenToThePlace) {
  const auto masks = masks_by_score({{"a", at::zeros({4})}}, {{"a", at::tensor({1.0, 2.0, 1.0, 2.0})}}, 0.25, {});
  EXPECT_TRUE(masks.at("a").equal(at::tensor({1, 1, 0, 1}, at::kLong).to(at::kBool)));
}

TEST(Masks, UniformKeepsTheSamePartOfEachLayer) {
  const TensorMap scores = {{"a", at::rand({100})}, {"b", at::rand({40}) + 7}};
  const auto masks = masks_by_score(scores, {}, 0.75, {.distribution = MaskDistribution::uniform});
  EXPECT_EQ(masks.at("a").sum().item<int64_t>(), 25);
  EXPECT_EQ(masks.at("b").sum().item<int64_t>(), 10);
}

TEST(Masks, ErdosRenyiKernelFillsTheBudget) {
  const std::vector<std::vector<int64_t>> shapes = {{16, 3, 3, 3}, {64, 16, 3, 3}, {256, 64, 3, 3}, {10, 256}};
  for (const double sparsity : {0.1, 0.5, 0.9, 0.99}) {
    const auto density = erk_densities(shapes, sparsity);
    double sum = 0;
    double all = 0;
    double scale = -1;
    for (size_t i = 0; i < shapes.size(); ++i) {
      double size = 1;
      double extents = 0;
      for (const int64_t e : shapes[i]) {
        size *= static_cast<double>(e);
        extents += static_cast<double>(e);
      }
      sum += density[i] * size;
      all += size;
      EXPECT_LE(density[i], 1);
      if (density[i] < 1) {  // those below one share one factor
        if (scale < 0) scale = density[i] * size / extents;
        EXPECT_NEAR(density[i] * size / extents, scale, 1e-9);
      }
    }
    EXPECT_NEAR(sum, (1 - sparsity) * all, 1e-6);
  }
}

TEST(Masks, TwoOfFour) {
  at::manual_seed(4);
  const auto linear = at::rand({6, 10});
  const auto filters = at::rand({5, 8, 3, 3});
  const auto masks = masks_by_score({{"linear", linear}, {"filters", filters}}, {}, 0, {.pattern = "2:4"});
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t group = 0; group < 2; ++group) {
      const auto mask = masks.at("linear")[row].narrow(0, 4 * group, 4);
      const auto values = linear[row].narrow(0, 4 * group, 4);
      EXPECT_EQ(mask.sum().item<int64_t>(), 2);
      EXPECT_GT(values.masked_select(mask).min().item<float>(),
                values.masked_select(mask.logical_not()).max().item<float>());
    }
  EXPECT_TRUE(masks.at("linear").narrow(1, 8, 2).all().item<bool>());  // a rest that fills no group
  EXPECT_TRUE(masks.at("filters").to(at::kLong).reshape({5, 2, 4, 3, 3}).sum(2).eq(2).all().item<bool>());
  EXPECT_THROW(masks_by_score({{"a", linear}}, {}, 0, {.pattern = "4:2"}), Error);
  EXPECT_THROW(masks_by_score({{"a", linear}}, {}, 0, {.pattern = "two"}), Error);
}

TEST(Masks, WhichTensors) {
  const Graph graph = build("convnet-bn", {.input = {1, 8, 8}});
  EXPECT_EQ(maskable_tensors(graph, {}), (std::vector<std::string>{"conv1.weight", "conv2.weight", "fc1.weight"}));
  EXPECT_EQ(maskable_tensors(graph, {.with_last = true}).size(), 4);
  EXPECT_EQ(maskable_tensors(graph, {.include = {"conv*"}}).size(), 2);
  EXPECT_EQ(maskable_tensors(graph, {.exclude = {"conv1*"}}).front(), "conv2.weight");
  EXPECT_THROW(maskable_tensors(graph, {.include = {"nothing*"}}), Error);
  EXPECT_THROW(maskable_tensors(graph, {.exclude = {"*"}}), Error);
}

TEST(Masks, ReportAndZeros) {
  const Graph graph = build("lenet-300-100", {});
  const auto names = maskable_tensors(graph, {});
  const auto masks = masks_by_score(magnitudes(graph.tensors, names), {}, 0.9, {});
  const auto report = sparsity_of(graph, masks);
  EXPECT_EQ(report.masked_total, 784 * 300 + 300 * 100);
  EXPECT_NEAR(report.over_masked(), 0.9, 1e-5);
  EXPECT_EQ(report.parameters, 266610);
  EXPECT_NEAR(report.over_parameters(), 0.9 * 265200 / 266610, 1e-5);
  const Graph sparse = masked(graph, masks);
  for (const auto& name : names) EXPECT_TRUE(sparse.tensor(name).ne(0).equal(masks.at(name)));
}

TEST(Masks, RoundTripAndDamage) {
  const auto path = std::filesystem::temp_directory_path() / "pare_masks.safetensors";
  const TensorMap masks = {
      {"a", at::rand({3, 5, 7}) > 0.5}, {"b", at::rand({8}) > 0.5}, {"c", at::ones({1}, at::kBool)}};
  write_masks(path, {masks, "{\"method\":\"cs\"}"});
  const MaskFile file = read_masks(path);
  EXPECT_EQ(file.recipe, "{\"method\":\"cs\"}");
  for (const auto& [name, mask] : masks) EXPECT_TRUE(file.masks.at(name).equal(mask)) << name;
  EXPECT_LT(std::filesystem::file_size(path), 600);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  EXPECT_THROW(read_masks(path), Error);
  std::filesystem::remove(path);
}

TEST(Masks, RefusesSparsityOutOfRange) {
  for (const double sparsity : {-0.1, 1.0, 2.0, std::nan("")})
    EXPECT_THROW(masks_by_score({{"a", at::rand({4})}}, {}, sparsity, {}), Error);
}

}  // namespace
}  // namespace pare
