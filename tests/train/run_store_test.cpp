#include "pare/train/run_store.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace pare {
namespace {

// Names of files may be any bytes.
TEST(RunStore, ADefinitionThatIsNotUtf8HasADirectory) {
  const auto runs = std::filesystem::temp_directory_path() / fmt::format("pare-run-store-{}", ::getpid());
  const RunDirectory run = open_run(runs, "test", {{"model", "a\xFF.onnx"}});
  EXPECT_TRUE(std::filesystem::is_regular_file(run.path / "definition.json"));
  EXPECT_EQ(open_run(runs, "test", {{"model", "a\xFF.onnx"}}).path, run.path);
  EXPECT_NE(open_run(runs, "test", {{"model", "b.onnx"}}).path, run.path);
  std::filesystem::remove_all(runs);
}

// A run is found again by what it was made of: other images of the same number and size are other data.
TEST(RunStore, DataDifferByOnePixelOneLabelOrTheirNormalization) {
  const Dataset data{.name = "few",
                     .images = at::zeros({4, 1, 8, 8}, at::kByte),
                     .labels = at::zeros({4}, at::kLong),
                     .classes = {"a", "b"},
                     .mean = {0.5},
                     .std = {0.25}};
  Dataset same = data;
  same.images = data.images.clone();
  EXPECT_EQ(fingerprint(same), fingerprint(data));
  Dataset pixel = same;
  pixel.images = data.images.clone();
  pixel.images.view(-1)[100] = 1;
  EXPECT_NE(fingerprint(pixel), fingerprint(data));
  Dataset label = same;
  label.labels = data.labels.clone();
  label.labels[3] = 1;
  EXPECT_NE(fingerprint(label), fingerprint(data));
  Dataset scaled = same;
  scaled.std = {0.5};
  EXPECT_NE(fingerprint(scaled), fingerprint(data));
}

// Whatever an attribute holds, another value is another model.
TEST(RunStore, ModelsDifferByAnyKindOfAttribute) {
  const std::vector<std::pair<Attribute, Attribute>> pairs = {
      {int64_t{1}, int64_t{2}},
      {0.5, 0.25},
      {std::string("a"), std::string("b")},
      {std::vector<int64_t>{1, 2}, std::vector<int64_t>{12}},
      {std::vector<double>{0.5}, std::vector<double>{0.25}},
      {std::vector<std::string>{"a,1 b"}, std::vector<std::string>{"a", "b"}},
      {at::ones({2}), at::zeros({2})},
      {at::zeros({2}), at::zeros({2}, at::kInt)},
      {OpaqueAttribute{5, "body"}, OpaqueAttribute{5, "other"}},
      {OpaqueAttribute{5, "body"}, OpaqueAttribute{6, "body"}},
      {int64_t{1}, std::string("1")},
  };
  const auto with = [](const Attribute& value) {
    return Graph{.nodes = {Node{.op = "If", .outputs = {"y"}, .attributes = {{"it", value}}}}};
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_NE(fingerprint(with(pairs[i].first)), fingerprint(with(pairs[i].second))) << i;
    EXPECT_EQ(fingerprint(with(pairs[i].first)), fingerprint(with(pairs[i].first))) << i;
  }
}

// A definition has the number of the format in it, so that a fix that changes results makes other runs.
TEST(RunStore, TheFormatIsPartOfTheDefinition) {
  const auto runs = std::filesystem::temp_directory_path() / fmt::format("pare-run-format-{}", ::getpid());
  const RunDirectory run = open_run(runs, "test", {{"model", "a"}});
  std::ifstream in(run.path / "definition.json");
  EXPECT_EQ(nlohmann::json::parse(in).at("format"), kRunFormat);
  std::filesystem::remove_all(runs);
}

}  // namespace
}  // namespace pare
