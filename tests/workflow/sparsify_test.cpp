// Sparsification from end to end: what defines a run, which options a method takes, and what it hands back.
#include "pare/workflow/sparsify.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pare/analysis/cost.h"
#include "pare/core/error.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Dataset noise() {
  at::manual_seed(3);
  Dataset data{.name = "noise", .classes = {"a", "b", "c"}, .mean = {0.5}, .std = {0.25}, .split = "train"};
  data.images = at::randint(256, {16, 3, 16, 16}, at::kByte);
  data.labels = at::randint(0, 3, {16}, at::kLong);
  check_dataset(data);
  return data;
}

Graph net() { return build("vgg9-bn", {.width = 0.25, .classes = 3, .input = {3, 16, 16}}, 4); }

SparsifyOptions by(const std::string& method, double sparsity = -1) {
  SparsifyOptions options;
  options.method = method;
  options.sparsity = sparsity;
  options.training.train.epochs = 1;
  options.training.train.batch = 8;
  return options;
}

// Trains without a run directory.
SparsifyResult trained(const SparsifyOptions& options) {
  return sparsify(net(), false, noise(), options,
                  [](const Graph& graph, const Dataset& data, const TrainingOptions& training, const TrainingJob& job) {
                    TrainResult result = train(graph, data, training.train, {.parameters = job.parameters});
                    return TrainingOutcome{.graph = std::move(result.last), .state = std::move(result.state)};
                  });
}

std::string refusal(const SparsifyOptions& options) {
  try {
    options.check(false);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.where();
  }
  return "";
}

TEST(Sparsify, MaskOptionsDefineAGradualRunAndNoOther) {
  const auto definition = [](const char* method, const MaskOptions& mask) {
    std::string found;
    SparsifyOptions options = by(method, 0.5);
    options.mask = mask;
    sparsify(net(), false, noise(), options,
             [&](const Graph& graph, const Dataset&, const TrainingOptions&, const TrainingJob& job) {
               found = job.definition;
               return TrainingOutcome{.graph = graph};
             });
    return found;
  };
  for (const MaskOptions& mask :
       {MaskOptions{.distribution = "erk"}, MaskOptions{.pattern = "2:4"}, MaskOptions{.allow_empty = true}}) {
    EXPECT_NE(definition("gmp", mask), definition("gmp", {}));
    EXPECT_EQ(definition("magnitude", mask), definition("magnitude", {}));
  }
}

TEST(Sparsify, OptionsThatWouldBeLeftAsideAreRefused) {
  EXPECT_EQ(refusal(by("cs")), "");
  for (const char* method : {"cs", "l0", "gmp"}) {
    SparsifyOptions options = by(method, 0.5);
    EXPECT_EQ(refusal(options), "");
    options.training.validation = 0.2;
    EXPECT_EQ(refusal(options), "--validation");
    options = by(method, 0.5);
    options.training.train.average = 0.9;
    EXPECT_EQ(refusal(options), "--average");
    options = by(method, 0.5);
    options.training.train.patience = 2;
    EXPECT_EQ(refusal(options), "--patience");
  }
  SparsifyOptions validated = by("imp");
  validated.training.validation = 0.2;
  EXPECT_EQ(refusal(validated), "");
  for (const char* method : {"magnitude", "gmp", "l0", "slimming"}) {
    SparsifyOptions options = by(method, 0.5);
    options.rounds = 2;
    EXPECT_EQ(refusal(options), "--rounds");
  }
  for (const char* method : {"cs", "l0"}) {
    SparsifyOptions options = by(method);
    options.mask.distribution = "erk";
    EXPECT_EQ(refusal(options), "--distribution");
    options.sparsity = 0.5;
    EXPECT_EQ(refusal(options), "");
  }
  SparsifyOptions slimming = by("slimming", 0.5);
  slimming.mask.pattern = "2:4";
  EXPECT_EQ(refusal(slimming), "--pattern");
  SparsifyOptions reversed = by("cs");
  reversed.mask.pattern = "4:2";
  EXPECT_EQ(refusal(reversed), "--pattern");
}

TEST(Sparsify, MethodsThatFindTheirMaskTakeAPatternOrACount) {
  for (const char* method : {"cs", "l0"}) {
    SparsifyOptions options = by(method);
    options.mask.pattern = "2:4";
    int64_t seen = 0;
    for (const auto& [name, mask] : trained(options).masks) {
      if (mask.size(1) % 4 != 0) continue;
      EXPECT_EQ(mask.sum().item<int64_t>() * 2, mask.numel()) << method << " " << name;
      ++seen;
    }
    EXPECT_GT(seen, 0);
    EXPECT_NEAR(trained(by(method, 0.7)).rounds.back().sparsity.over_masked(), 0.7, 1e-3) << method;
  }
}

TEST(Sparsify, SlimmingHandsOnTheChannelsThatWent) {
  const SparsifyResult result = trained(by("slimming", 0.5));
  ASSERT_FALSE(result.channels.empty());
  int64_t gone = 0;
  for (const auto& group : result.channels) gone += group.total - group.kept;
  EXPECT_GT(gone, 0);
  const double left = static_cast<double>(cost_of(result.graph).parameters);
  EXPECT_DOUBLE_EQ(result.rounds.back().sparsity.over_parameters(),
                   1 - left / static_cast<double>(cost_of(net()).parameters));
}

}  // namespace
}  // namespace pare
