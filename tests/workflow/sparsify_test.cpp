// Sparsification from end to end: what defines a run, which options a method takes, and what it hands back.
#include "pare/workflow/sparsify.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "pare/analysis/cost.h"
#include "pare/error.h"
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

SparsifyOptions by(const std::string& method, std::optional<double> sparsity = {}) {
  SparsifyOptions options;
  options.method = method;
  options.sparsity = sparsity;
  options.training.train.epochs = 1;
  options.training.train.batch = 8;
  return options;
}

Trainer without_directory() {
  return [](const Graph& graph, const Dataset& data, const TrainingOptions& training, const TrainingJob& job) {
    TrainResult result = train(graph, data, training.train, {.parameters = job.parameters});
    return TrainingOutcome{.graph = std::move(result.last), .state = std::move(result.state)};
  };
}

SparsifyResult trained(const SparsifyOptions& options) {
  return sparsify(net(), false, noise(), options, without_directory());
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
  for (const MaskOptions& mask : {MaskOptions{.distribution = MaskDistribution::erk}, MaskOptions{.pattern = "2:4"},
                                  MaskOptions{.allow_empty = true}}) {
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
    EXPECT_EQ(refusal(options), "");
    options = by(method, 0.5);
    options.training.train.average = 0.9;
    EXPECT_EQ(refusal(options), "`average`");
    options = by(method, 0.5);
    options.training.train.patience = 2;
    EXPECT_EQ(refusal(options), "`patience`");
  }
  SparsifyOptions validated = by("imp");
  validated.training.validation = 0.2;
  EXPECT_EQ(refusal(validated), "");
  for (const char* method : {"magnitude", "gmp", "l0", "slimming"}) {
    SparsifyOptions options = by(method, 0.5);
    options.rounds = 2;
    EXPECT_EQ(refusal(options), "`rounds`");
  }
  for (const char* method : {"cs", "l0"}) {
    SparsifyOptions options = by(method);
    options.mask.distribution = MaskDistribution::erk;
    EXPECT_EQ(refusal(options), "`distribution`");
    options.sparsity = 0.5;
    EXPECT_EQ(refusal(options), "");
  }
  SparsifyOptions slimming = by("slimming", 0.5);
  slimming.mask.pattern = "2:4";
  EXPECT_EQ(refusal(slimming), "`pattern`");
  SparsifyOptions reversed = by("cs");
  reversed.mask.pattern = "4:2";
  EXPECT_EQ(refusal(reversed), "`pattern`");
  SparsifyOptions twice = by("magnitude", 0.9);
  twice.mask.pattern = "2:4";
  EXPECT_EQ(refusal(twice), "`pattern`");
  twice.sparsity = 0.5;
  EXPECT_EQ(refusal(twice), "");
}

// Whatever becomes of the logits in a round (here they are drawn anew), what was removed before stays removed.
TEST(Sparsify, ContinuousRoundsCarryAnExactSparsity) {
  SparsifyOptions options = by("cs", 0.9);
  options.rounds = 3;
  std::vector<TensorMap> starts;  // the logits that each round begins with
  const Trainer trainer = [&](const Graph& graph, const Dataset& data, const TrainingOptions& training,
                              const TrainingJob& job) {
    starts.push_back(job.parameters->extra(graph.tensors));
    TrainingOutcome outcome = without_directory()(graph, data, training, job);
    at::manual_seed(starts.size());
    for (const auto& [name, start] : starts.back()) {
      const at::Tensor drawn = at::randn_like(start);
      outcome.state.raw[name] = drawn + 0.01 * drawn.sign();  // decided: what is near zero is undecided again
    }
    return outcome;
  };
  const SparsifyResult result = sparsify(net(), false, noise(), options, trainer);
  ASSERT_EQ(result.rounds.size(), 3);
  for (size_t r = 0; r < 3; ++r) {
    const auto& report = result.rounds[r].sparsity;
    const double wanted = std::pow(0.1, static_cast<double>(r + 1) / 3);
    EXPECT_EQ(report.masked_kept, std::llround(wanted * static_cast<double>(report.masked_total))) << r;
    if (r == 0) continue;
    for (const auto& [name, mask] : result.rounds[r].masks) {
      const at::Tensor kept = result.rounds[r - 1].masks.at(name);
      EXPECT_FALSE(mask.logical_and(kept.logical_not()).any().item<bool>()) << name;
      EXPECT_TRUE((starts[r].at(name + ".mask_logit") > -1).equal(kept)) << name << " in round " << r + 1;
    }
  }
}

// Less than was asked for, or next to nothing where nothing was asked for, is said.
TEST(Sparsify, AMethodThatRemovedLessThanAskedSaysSo) {
  const auto says = [](const SparsifyOptions& options, const char* what) {
    const SparsifyResult result = trained(options);
    return std::any_of(result.notes.begin(), result.notes.end(),
                       [&](const std::string& note) { return note.find(what) != std::string::npos; });
  };
  SparsifyOptions all = by("magnitude", 0.99999);
  EXPECT_TRUE(says(all, "was asked for"));  // one weight per layer stays
  EXPECT_FALSE(says(by("magnitude", 0.5), "was asked for"));
  SparsifyOptions still = by("l0");
  still.gates_by = GatesBy::weights;
  still.mask_rate = 1e-6;
  EXPECT_TRUE(says(still, "hardly any"));
  SparsifyOptions kept = by("cs");
  kept.s_init = {0.5};
  EXPECT_TRUE(says(kept, "hardly any"));
  SparsifyOptions pattern = by("magnitude");
  pattern.mask.pattern = "2:4";
  EXPECT_TRUE(says(pattern, "fill no group of 4"));  // the first layer has three channels
}

// On data that is learned at once: what is left to do is to close gates.
TEST(Sparsify, GatesCloseWithTheDefaults) {
  Dataset data{.name = "shades", .classes = {"a", "b"}, .mean = {0.5}, .std = {0.25}, .split = "train"};
  data.labels = at::arange(32, at::kLong).remainder(2);
  data.images = (data.labels * 200 + 20).to(at::kByte).reshape({32, 1, 1, 1}).expand({32, 1, 8, 8}).contiguous();
  SparsifyOptions options = by("l0");
  options.training.train.epochs = 600;
  const SparsifyResult result = sparsify(build("lenet-300-100", {.width = 0.1, .classes = 2, .input = {1, 8, 8}}, 1),
                                         false, data, options, without_directory());
  EXPECT_GT(result.removed, 0.2);
}

// The part that is held out is not trained on, and a mask of the last step stays that of the network kept.
TEST(Sparsify, EveryMethodTakesAValidation) {
  const auto runs = std::filesystem::temp_directory_path() / fmt::format("pare-validated-{}", ::getpid());
  for (const char* method : {"cs", "gmp", "l0", "magnitude", "imp", "slimming", "lr-rewind", "weight-rewind"}) {
    SparsifyOptions options = by(method, 0.5);
    options.training.validation = 0.25;
    options.training.train.epochs = 3;
    options.training.runs = runs.string();
    int64_t held_out = 0;
    const SparsifyResult result =
        sparsify(net(), false, noise(), options,
                 [&](const Graph& graph, const Dataset& data, const TrainingOptions& training, const TrainingJob& job) {
                   TrainingOutcome outcome = run_training(graph, data, training, job);
                   for (const auto& epoch : outcome.state.history) held_out += std::isnan(epoch.validation) ? 0 : 1;
                   return outcome;
                 });
    EXPECT_GE(held_out, 3) << method;
    for (const auto& [name, mask] : result.masks)
      EXPECT_FALSE(result.graph.tensor(name).ne(0).logical_and(mask.logical_not()).any().item<bool>()) << method;
    EXPECT_NEAR(result.removed, 0.5, std::string(method) == "slimming" ? 0.1 : 1e-3) << method;
  }
  std::filesystem::remove_all(runs);
}

TEST(HoldOut, TakesTheSamePartOfEveryClass) {
  Dataset data{.name = "many", .classes = {"a", "b", "c"}, .mean = {0.5}, .std = {0.5}, .split = "train"};
  const std::vector<int64_t> counts = {100, 45, 7};
  std::vector<int64_t> labels;
  for (int64_t c = 0; c < 3; ++c) labels.insert(labels.end(), static_cast<size_t>(counts[static_cast<size_t>(c)]), c);
  data.labels = at::tensor(labels);
  data.images = at::arange(152, at::kLong).to(at::kByte).reshape({152, 1, 1, 1});
  // Images drawn without regard to their classes would be as even for some seeds, not for all.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Dataset held_out = hold_out(data, 0.1, seed).held_out;
    EXPECT_EQ(held_out.size(), 15);
    for (int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(held_out.labels.eq(c).sum().item<double>(), 0.1 * static_cast<double>(counts[static_cast<size_t>(c)]),
                  1)
          << "seed " << seed << ", class " << c;
  }
  const DatasetParts parts = hold_out(data, 0.1, 5);
  const at::Tensor both = at::cat({parts.rest.images, parts.held_out.images}).flatten().to(at::kLong);
  EXPECT_TRUE(std::get<0>(both.sort()).equal(at::arange(152, at::kLong)));
  EXPECT_TRUE(hold_out(data, 0.1, 5).held_out.images.equal(parts.held_out.images));
  EXPECT_FALSE(hold_out(data, 0.1, 6).held_out.images.equal(parts.held_out.images));
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
