// An untouched ticket is the dense run: with a mask of ones, from any epoch to which it goes back, every method trains
// to the weights of the plain dense run, bit for bit. Over random small networks, data, schedules and optimisers.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "experiments/tickets.h"
#include "pare/data/random.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

struct Setting {
  Graph graph;
  Dataset data;
  TrainingOptions training;
  int64_t rewind = 0;
};

template <typename T>
T one_of(Random& random, const std::vector<T>& values) {
  return values[static_cast<size_t>(random.below(static_cast<int64_t>(values.size())))];
}

Dataset some_data(Random& random) {
  at::manual_seed(random.bits());
  const int64_t count = 24 + random.below(20);
  Dataset data{.name = "noise", .classes = {"a", "b", "c"}, .mean = {0.5}, .std = {0.25}, .split = "train"};
  data.images = at::randint(256, {count, 1, 8, 8}, at::kLong).to(at::kByte);
  data.labels = at::randint(0, 3, {count}, at::kLong);
  check_dataset(data);
  return data;
}

Setting random_setting(uint64_t seed, const fs::path& runs) {
  Random random(seed);
  Setting setting;
  setting.data = some_data(random);
  const auto arch = one_of<std::string>(random, {"lenet-300-100", "lenet-300-100", "lenet-300-100", "convnet-bn"});
  setting.graph = build(arch, {.width = arch == "convnet-bn" ? 0.1 : 0.03, .classes = 3, .input = {1, 8, 8}}, seed);
  setting.training.runs = runs.string();
  setting.training.label_smoothing = one_of<double>(random, {0, 0.1});
  TrainOptions& train = setting.training.train;
  train.seed = seed;
  train.epochs = 1 + random.below(4);
  train.batch = one_of<int64_t>(random, {7, 16, 64});
  train.optimizer.optimizer = one_of<OptimizerKind>(
      random, {OptimizerKind::sgd, OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw});
  train.optimizer.lr = one_of<double>(random, {0.01, 0.1});
  train.optimizer.momentum = one_of<double>(random, {0, 0.9});
  train.optimizer.nesterov = train.optimizer.momentum > 0 && random.coin();
  train.optimizer.weight_decay = one_of<double>(random, {0, 5e-4});
  train.schedule.schedule = one_of<ScheduleKind>(
      random, {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine, ScheduleKind::one_cycle});
  train.augment = one_of<std::string>(random, {"none", "flip"});
  train.clip_norm = one_of<double>(random, {0, 0.5});
  setting.rewind = random.below(train.epochs + 1);
  return setting;
}

// The run itself, by the training loop alone.
Graph plain_run(const Graph& graph, const Dataset& data, const TrainingOptions& training, int64_t first_epoch = 0) {
  TrainOptions options = training.train;
  options.first_epoch = first_epoch;
  ClassificationObjective objective(training.label_smoothing);
  return train(graph, data, options, {.objective = &objective}).last;
}

::testing::AssertionResult same_weights(const Graph& expected, const Graph& found) {
  for (const auto& [name, tensor] : expected.tensors)
    if (!tensor.equal(found.tensor(name)))
      return ::testing::AssertionFailure()
             << name << " differs by " << (tensor - found.tensor(name)).abs().max().item<double>();
  return ::testing::AssertionSuccess();
}

class UntouchedTicket : public ::testing::Test {
 protected:
  void SetUp() override {
    runs_ = fs::temp_directory_path() / fmt::format("pare-untouched-{}", ::getpid());
    at::set_num_threads(1);
  }
  void TearDown() override { fs::remove_all(runs_); }

  static uint64_t count() { return std::getenv("PARE_FULL") != nullptr ? 2000 : 200; }

  SparsifyResult kept_whole(const Setting& setting, const std::string& method) const {
    SparsifyOptions options;
    options.method = method;
    options.sparsity = 0;
    options.rounds = 2;
    options.rewind = setting.rewind;
    options.training = setting.training;
    return sparsify(setting.graph, false, setting.data, options, run_training);
  }

  fs::path runs_;
};

TEST_F(UntouchedTicket, OfARewoundNetworkIsTheDenseRun) {
  for (uint64_t seed = 0; seed < count(); ++seed) {
    Setting setting = random_setting(seed, runs_);
    setting.training.train.average = seed % 5 == 0 ? 0.9 : 0;
    const Graph dense = plain_run(setting.graph, setting.data, setting.training);
    for (const auto& round : kept_whole(setting, seed % 2 == 0 ? "imp" : "weight-rewind").rounds)
      ASSERT_TRUE(same_weights(dense, round.graph)) << "seed " << seed << " " << round.name;
    fs::remove_all(runs_);
  }
}

TEST_F(UntouchedTicket, OfASearchIsTheDenseRun) {
  for (uint64_t seed = 0; seed < count(); ++seed) {
    const Setting setting = random_setting(seed + 10'000, runs_);
    TicketOptions options;
    options.search.method = seed % 3 == 0 ? "imp" : "cs";
    options.search.sparsity = 0;
    options.search.rounds = 1 + static_cast<int64_t>(seed % 2);
    options.search.rewind = setting.rewind;
    options.search.training = setting.training;
    const TicketSearch search = search_tickets(setting.graph, setting.data, options, run_training, nullptr);
    const DatasetParts parts = hold_out(setting.data, options.validation(), setting.training.train.seed);
    const Graph dense = plain_run(setting.graph, parts.rest, setting.training);
    for (const auto& ticket : search.tickets) {
      ASSERT_TRUE(same_weights(dense, ticket.trained)) << "seed " << seed << " " << ticket.name;
      ASSERT_EQ(ticket.validation, search.dense);
    }
    fs::remove_all(runs_);
  }
}

// Methods that keep their weights and replay the schedule: the plain run that does so without a mask. Where nothing of
// the schedule is left that is the dense run again.
TEST_F(UntouchedTicket, OfAReplayedScheduleIsThePlainReplay) {
  for (uint64_t seed = 0; seed < count(); ++seed) {
    const Setting setting = random_setting(seed + 20'000, runs_);
    const bool continued = seed % 2 == 0;
    const Graph dense = plain_run(setting.graph, setting.data, setting.training);
    const auto rounds = kept_whole(setting, continued ? "imp-continued" : "lr-rewind").rounds;
    Graph expected = dense;
    for (const auto& round : rounds) {
      expected = plain_run(expected, setting.data, setting.training, continued ? 0 : setting.rewind);
      ASSERT_TRUE(same_weights(expected, round.graph)) << "seed " << seed << " " << round.name;
    }
    if (!continued && setting.rewind == setting.training.train.epochs) {
      ASSERT_TRUE(same_weights(dense, rounds.back().graph)) << "seed " << seed;
    }
    fs::remove_all(runs_);
  }
}

}  // namespace
}  // namespace pare
