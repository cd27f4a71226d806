// Ranks as threads of this process, each with a group of its own.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/on_ranks.h"
#include "pare/dist/gradient_buckets.h"
#include "pare/dist/process_group.h"
#include "pare/error.h"
#include "pare/train/train.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

TEST(Buckets, AreFilledInOrder) {
  using Buckets = std::vector<std::vector<size_t>>;
  EXPECT_EQ(split_into_buckets({}, 10), Buckets{});
  EXPECT_EQ(split_into_buckets({4, 4, 4}, 10), (Buckets{{0, 1}, {2}}));
  EXPECT_EQ(split_into_buckets({40, 4, 40}, 10), (Buckets{{0}, {1}, {2}}));
  EXPECT_EQ(split_into_buckets({10, 0, 1}, 10), (Buckets{{0, 1}, {2}}));
}

TEST(Ranks, SumAndBroadcast) {
  on_ranks(3, [](ProcessGroup& ranks) {
    const at::Tensor tensor = at::full({5}, ranks.rank() + 1, at::kDouble);
    ranks.sum(tensor);
    EXPECT_TRUE(tensor.eq(6).all().item<bool>());
    EXPECT_EQ(ranks.broadcast(ranks.main() ? 0.125 : 7.0), 0.125);
  });
}

// y = (Σ_r x_r)², a loss on every rank: dL/dx_r = Σ_r 2 Σx.
TEST(Ranks, TheGradientOfASumIsASum) {
  on_ranks(2, [](ProcessGroup& ranks) {
    const at::Tensor x = at::full({2}, ranks.rank() + 1, at::kDouble).requires_grad_();
    ranks.differentiable_sum(x).square().sum().backward();
    EXPECT_TRUE(x.grad().eq(2 * 2 * 3).all().item<bool>()) << x.grad();
  });
}

// Tensors of two types and layouts, one used twice, one not at all; buckets smaller and larger than a tensor.
TEST(Ranks, BucketsSumEveryGradient) {
  for (const int64_t bytes : {1, 100, 1 << 20})
    on_ranks(2, [&](ProcessGroup& ranks) {
      TensorMap tensors = {{"a", at::ones({3, 4})}, {"b", at::ones({2}, at::kDouble)}, {"idle", at::ones({3})}};
      tensors["c"] = at::ones({2, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
      for (auto& [name, tensor] : tensors) tensor.requires_grad_();
      GradientBuckets buckets(ranks, bytes);
      for (int step = 0; step < 3; ++step) {
        buckets.begin(tensors);
        const double factor = ranks.rank() + 1;
        const at::Tensor loss = factor * (tensors["a"].sum() + tensors["a"].square().sum() + 5 * tensors["c"].sum());
        (loss.to(at::kDouble) + factor * tensors["b"].sum()).backward();
        buckets.finish(tensors);
        EXPECT_TRUE(tensors["a"].grad().eq(9).all().item<bool>());
        EXPECT_TRUE(tensors["b"].grad().eq(3).all().item<bool>());
        EXPECT_TRUE(tensors["c"].grad().eq(15).all().item<bool>());
        EXPECT_EQ(tensors["c"].grad().strides(), tensors["c"].strides());
        EXPECT_FALSE(tensors["idle"].grad().defined());
        for (auto& [name, tensor] : tensors) tensor.mutable_grad() = at::Tensor();
      }
    });
}

Dataset noise_images(int64_t count) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  Dataset data{.name = "noise", .classes = {"a", "b"}, .mean = {0.5}, .std = {0.5}, .split = "train"};
  data.labels = at::arange(count, at::kLong).remainder(2);
  data.images = at::randint(0, 256, {count, 1, 8, 8}, generator, at::kLong).to(at::kByte);
  return data;
}

// 41 images in batches of 16: the last has 9, an odd number; with batches of 20 it has 1, fewer than ranks.
TEST(Ranks, TrainToTheSameWeightsAsOne) {
  for (const int64_t batch : {16, 20}) {
    const Graph graph = cast(build("convnet-bn", {.width = 0.25, .classes = 2, .input = {1, 8, 8}}, 1), at::kDouble);
    const Dataset data = noise_images(41);
    TrainOptions options{.epochs = 2, .batch = batch, .augment = "crop:1,flip", .clip_norm = 1, .sync_bn = true};
    const TrainResult one = train(graph, data, options);
    std::vector<TrainResult> several(3);
    on_ranks(3, [&](ProcessGroup& ranks) {
      several[static_cast<size_t>(ranks.rank())] = train(graph, data, options, {.ranks = &ranks});
    });
    for (const auto& [name, tensor] : one.last.tensors)
      if (batch == 16 || name.find("running_var") == std::string::npos) {
        EXPECT_LT((tensor - several[0].last.tensor(name)).abs().max().item<double>(), 1e-9) << name;
        EXPECT_TRUE(several[1].last.tensor(name).equal(several[0].last.tensor(name))) << name;
      }
    EXPECT_NEAR(one.state.history.back().loss, several[0].state.history.back().loss, 1e-9);
    EXPECT_EQ(one.state.history.back().accuracy, several[0].state.history.back().accuracy);
  }
}

TEST(Ranks, OneThatIsStoppedStopsAll) {
  const Graph graph = build("convnet", {.width = 0.25, .classes = 2, .input = {1, 8, 8}}, 1);
  std::atomic<int> stopped = 0, saved = 0;
  on_ranks(2, [&](ProcessGroup& ranks) {
    TrainParts parts{.ranks = &ranks};
    parts.stop = [&] { return ranks.rank() == 1; };
    parts.save = [&](const TrainState& state) { saved += static_cast<int>(state.step); };
    try {
      train(graph, noise_images(40), {.epochs = 9, .batch = 8}, parts);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::interrupted) ++stopped;
    }
  });
  EXPECT_EQ(stopped, 2);
  EXPECT_EQ(saved, 1);
}

TEST(Ranks, OneThatFailsIsNamedByTheOthers) {
  std::string said;
  try {
    on_ranks(2, [&](ProcessGroup& ranks) {
      if (ranks.rank() == 1) {
        ranks.leave("its disk is full");
        return;
      }
      ranks.sum(at::ones({1}));
    });
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("rank 1 ended: its disk is full"), std::string::npos) << said;
}

}  // namespace
}  // namespace pare
