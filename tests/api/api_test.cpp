// The public API as a user has it: one header, samples of their own, an observer.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <pare/pare.h>
#include <atomic>
#include <filesystem>

namespace pare {
namespace {

using testing::HasSubstr;

// Two classes that the sign of the mean tells apart.
struct Task {
  at::Tensor images;
  at::Tensor labels;

  explicit Task(int64_t count, std::vector<int64_t> image = {1, 8, 8}) {
    at::manual_seed(3);
    labels = at::arange(count, at::kLong).remainder(2);
    std::vector<int64_t> sizes = {count};
    sizes.insert(sizes.end(), image.begin(), image.end());
    images = at::randn(sizes) * 0.3 + (labels.to(at::kFloat) * 2 - 1).view({count, 1, 1, 1});
  }
  Samples samples() const { return samples_of({images}, labels); }
  SampleStream stream(int64_t batch) const {
    return [*this, batch, begin = int64_t{0}]() mutable -> std::optional<SampleBatch> {
      if (begin >= labels.size(0)) return std::nullopt;
      const int64_t end = std::min(begin + batch, labels.size(0));
      SampleBatch next{{images.slice(0, begin, end)}, labels.slice(0, begin, end)};
      begin = end;
      return next;
    };
  }
};

Graph small_net(uint64_t seed = 1) {
  return build(ModelOptions{.arch = "lenet-300-100", .width = 0.1, .classes = 2, .image = {1, 8, 8}}, seed);
}

TrainingOptions short_training() {
  TrainingOptions options;
  options.train.epochs = 3;
  options.train.batch = 16;
  return options;
}

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Api, EvaluatesSamplesStreamsAndModelsAlike) {
  const Task task(333);
  const Graph net = small_net();
  const at::Tensor logits = run(net, {{task.images}})[0];
  const double expected = logits.argmax(1).eq(task.labels).to(at::kDouble).mean().item<double>();
  EXPECT_DOUBLE_EQ(evaluate(net, task.samples()).metric("top1"), expected);
  for (const int64_t batch : {1, 7, 500}) {
    const Evaluation streamed = evaluate(std::vector{net}, task.stream(batch));
    EXPECT_DOUBLE_EQ(streamed.metric("top1"), expected) << batch;
    EXPECT_EQ(streamed.samples, 333);
  }
  // Batches that do not come out even with what is run at once.
  const Evaluation uneven = evaluate(std::vector{net}, task.stream(7), {.batch = 2});
  EXPECT_EQ(uneven.samples, 333);
  EXPECT_DOUBLE_EQ(uneven.metric("top1"), expected);
  const Evaluation both = evaluate({net, small_net(2)}, task.samples(), {.ensemble = true});
  EXPECT_EQ(both.models.size(), 3U);
}

TEST(Api, EvaluationRefusesWhatItCannotMeasure) {
  const Task task(20);
  EXPECT_THAT(message_of([&] { evaluate(small_net(), samples_of({task.images})); }), HasSubstr("no labels"));
  EXPECT_THAT(message_of([&] { evaluate(small_net(), samples_of({task.images}, task.labels + 5)); }),
              HasSubstr("gives 2 scores"));
  EXPECT_THAT(message_of([&] {
                evaluate(small_net(), samples_of({task.images, task.images}, task.labels));
              }),
              HasSubstr("the samples have 2"));
}

// A callback reads samples piece by piece, in bounded pieces, from several threads.
TEST(Api, SamplesMayComeFromACallback) {
  const Task task(400);
  std::atomic<int64_t> largest = 0;
  const Samples mine{.size = 400,
                     .inputs =
                         [&](int64_t begin, int64_t end) {
                           int64_t seen = largest;
                           while (end - begin > seen && !largest.compare_exchange_weak(seen, end - begin)) continue;
                           return std::vector{task.images.slice(0, begin, end)};
                         },
                     .labels = [&](int64_t begin, int64_t end) { return task.labels.slice(0, begin, end); }};
  const double expected = evaluate(small_net(), task.samples()).metric("loss");
  EXPECT_DOUBLE_EQ(evaluate(small_net(), mine, {.batch = 50}).metric("loss"), expected);
  EXPECT_LE(largest, 50);
}

struct Counter : Observer {
  int64_t calls = 0;
  int64_t stop_at = std::numeric_limits<int64_t>::max();
  void progress(std::string_view, int64_t, int64_t) override { ++calls; }
  bool cancelled() override { return calls >= stop_at; }
};

TEST(Api, AnObserverHearsAndStops) {
  const Task task(320);
  Counter counter;
  evaluate(small_net(), task.samples(), {.batch = 20}, counter);
  EXPECT_EQ(counter.calls, 16);
  counter = {};
  counter.stop_at = 2;
  try {
    train(small_net(), task.samples(), short_training(), counter);
    ADD_FAILURE() << "the training went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::interrupted);
  }
  EXPECT_EQ(counter.calls, 2);
}

struct Totals : Observer {
  std::vector<int64_t> heard;
  void progress(std::string_view, int64_t, int64_t all) override { heard.push_back(all); }
};

TEST(Api, AStreamHasNoTotalThatAnObserverCouldHear) {
  const Task task(64);
  Totals known, unknown;
  evaluate(small_net(), task.samples(), {.batch = 32}, known);
  EXPECT_THAT(known.heard, testing::Each(64));
  evaluate(std::vector{small_net()}, task.stream(32), {.batch = 32}, unknown);
  explain(small_net(), task.stream(32), {.attribution = {.method = "gradient"}}, unknown);
  EXPECT_THAT(unknown.heard, testing::Each(0));
  EXPECT_GE(unknown.heard.size(), 4U);
}

TEST(Api, TrainsWithoutLeavingFiles) {
  const Task task(200);
  const auto before = std::distance(std::filesystem::directory_iterator("."), {});
  const TrainingResult result = train(small_net(), task.samples(), short_training());
  ASSERT_EQ(result.history.size(), 3U);
  EXPECT_LT(result.history.back().loss, result.history.front().loss);
  EXPECT_GT(evaluate(result.graph, task.samples()).metric("top1"), 0.95);
  EXPECT_TRUE(result.run.empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator("."), {}), before);
}

TEST(Api, TheSameTrainingGivesTheSameBits) {
  const Task task(100);
  const Graph once = train(small_net(), task.samples(), short_training()).graph;
  const Graph again = train(small_net(), task.samples(), short_training()).graph;
  for (const auto& [name, tensor] : once.tensors) EXPECT_TRUE(tensor.equal(again.tensor(name))) << name;
}

// Augmentation works on samples as the network sees them; it is drawn by the seed, so that runs can be repeated.
TEST(Api, SamplesAreAugmentedAsTheNetworkSeesThem) {
  const Task task(100);
  const auto trained = [&](const char* augment, const Samples& samples) {
    TrainingOptions options = short_training();
    options.train.augment = augment;
    return train(small_net(), samples, options).graph.tensors;
  };
  const auto differs = [](const TensorMap& a, const TensorMap& b) {
    return std::any_of(a.begin(), a.end(), [&](const auto& entry) { return !entry.second.equal(b.at(entry.first)); });
  };
  const TensorMap plain = trained("none", task.samples());
  for (const char* augment : {"flip", "crop:2", "cutout:3", "standard"}) {
    const TensorMap once = trained(augment, task.samples());
    EXPECT_TRUE(differs(once, plain)) << augment;
    EXPECT_FALSE(differs(once, trained(augment, task.samples()))) << augment;
  }
  // Mirroring leaves alone what is its own mirror image.
  const at::Tensor symmetric = task.images + task.images.flip({3});
  const Samples mirrored = samples_of({symmetric}, task.labels);
  EXPECT_FALSE(differs(trained("flip", mirrored), trained("none", mirrored)));
  EXPECT_THAT(message_of([&] { trained("resized-crop", task.samples()); }), HasSubstr("`augment`"));
}

TEST(Api, DistillsAndSparsifies) {
  const Task task(200);
  const Graph teacher = train(small_net(), task.samples(), short_training()).graph;
  DistillOptions lesson{.training = short_training()};
  const TrainingResult student = distill(small_net(7), teacher, task.samples(), lesson);
  EXPECT_GT(evaluate(student.graph, task.samples()).metric("top1"), 0.95);
  SparsifyOptions sparse;
  sparse.method = "magnitude";
  sparse.sparsity = 0.5;
  sparse.finetune = 1;
  sparse.training = short_training();
  const SparsifyResult result = sparsify(teacher, task.samples(), sparse);
  EXPECT_NEAR(result.removed, 0.5, 0.001);
  EXPECT_GT(evaluate(result.graph, task.samples()).metric("top1"), 0.95);
  // A ticket goes back to an early epoch of a run that left no file.
  sparse = {.method = "imp", .sparsity = 0.5, .rewind = 1, .training = short_training(), .trained = false};
  EXPECT_NEAR(sparsify(small_net(), task.samples(), sparse).removed, 0.5, 0.001);
}

TEST(Api, PrunesWithSamplesWithoutLabelsAndWithout) {
  const Task task(300);
  const Graph net = train(small_net(), task.samples(), short_training()).graph;
  const PruneOptions half{.channels = 0.5, .round_to = 1};
  const PruneResult measured = prune(net, task.samples(), half);
  EXPECT_EQ(measured.groups.at(0).kept, 15);
  EXPECT_LT(measured.after.cost.parameters, measured.before.cost.parameters);
  EXPECT_DOUBLE_EQ(measured.after.metrics.at(0).second, evaluate(measured.graph, task.samples()).metric("top1"));
  EXPECT_GT(measured.after.metrics.at(0).second, 0.9);
  const PruneResult unlabelled = prune(net, samples_of({task.images}), half);
  EXPECT_GT(unlabelled.after.metrics.at(0).second, 0);
  EXPECT_EQ(unlabelled.after.metrics.at(0).first, "distance");
  EXPECT_TRUE(verify(measured.graph, unlabelled.graph).same());  // labels only measure
  EXPECT_EQ(prune(net, {}, {.channels = 0.5, .round_to = 1, .compensate = "most-sim"}).groups.at(0).kept, 15);
}

TEST(Api, PruningSaysWhatItWasNotTold) {
  const Task task(50);
  EXPECT_THAT(message_of([&] { prune(small_net(), task.samples(), {}); }), HasSubstr("one of `channels`"));
  EXPECT_THAT(message_of([&] { prune(small_net(), {}, {.channels = 0.5, .max_drop = 0.1}); }), HasSubstr("`max-drop`"));
  EXPECT_THAT(
      message_of([&] { prune(small_net(), samples_of({task.images}), {.channels = 0.5, .criterion = "taylor"}); }),
      HasSubstr("no labels"));
  Counter counter;
  counter.stop_at = 1;
  EXPECT_THAT(message_of([&] { prune(small_net(), task.samples(), {.channels = 0.5}, counter); }),
              HasSubstr("stopped"));
}

TEST(Api, FusesPermutedCopiesWithSamples) {
  const Graph net = small_net();
  const Task task(64);
  FuseOptions options;
  options.align = AlignBy::activations;
  EXPECT_THAT(message_of([&] { fuse({net, net}, Samples{}, options); }), HasSubstr("`align`"));
  const FusionResult result = fuse({net, net}, samples_of({task.images.flatten(1)}), options);
  EXPECT_TRUE(verify(net, result.fused).same());
}

TEST(Api, FusionCanBeWatchedAndStopped) {
  const Task task(64);
  const Samples samples = samples_of({task.images.flatten(1)});
  for (const std::string& method : fusion_methods())
    for (const auto repair : {FusionRepair::none, FusionRepair::rescale, FusionRepair::regression}) {
      const FuseOptions options{
          .method = method, .repair = repair, .inputs = repair == FusionRepair::regression ? 64 : 2000};
      Counter counter;
      fuse({small_net(), small_net(2), small_net(3)}, samples, options, counter);
      const int64_t all = counter.calls;
      EXPECT_GE(all, 3) << method;
      for (const int64_t stop : {int64_t{0}, all / 2, all - 1}) {
        Counter stopped;
        stopped.stop_at = stop;
        EXPECT_THAT(message_of([&] {
                      fuse({small_net(), small_net(2), small_net(3)}, samples, options, stopped);
                    }),
                    HasSubstr("stopped"))
            << method;
        EXPECT_EQ(stopped.calls, stop) << method;
      }
    }
}

TEST(Api, VerifiesAndDiffs) {
  const Graph net = small_net();
  const Graph other = small_net(2);
  EXPECT_TRUE(verify(net, net).same());
  EXPECT_FALSE(verify(net, other).same());
  const Task task(50);
  EXPECT_FALSE(verify(net, other, samples_of({task.images})).same());
  const Verification apart = verify(net, build(ModelOptions{.arch = "lenet-5"}));
  EXPECT_FALSE(apart.same());
  EXPECT_FALSE(apart.outputs.at(0).problem.empty());
  EXPECT_EQ(diff(net, net).count(NodeChange::same), net.nodes.size());
  EXPECT_GT(diff(net, other).count(NodeChange::changed), 0U);
}

TEST(Api, ExplainsSamplesInBatchesAsAtOnce) {
  const Graph net = build(ModelOptions{.arch = "lenet-5", .classes = 2, .image = {1, 28, 28}}, 1);
  const Task task(10, {1, 28, 28});
  const Attribution whole = explain(net, task.samples());
  const Attribution parts = explain(net, task.samples(), {.batch = 3});
  EXPECT_EQ(whole.maps.size(0), 10);
  EXPECT_TRUE(whole.maps.allclose(parts.maps));
  EXPECT_TRUE(explain(net, task.samples(), {.classes = {1}}).classes.eq(1).all().item<bool>());
  EXPECT_THAT(message_of([&] { explain(net, task.samples(), {.classes = {1, 0}}); }), HasSubstr("`classes`"));
}

TEST(Api, InspectsAndGoesThroughOnnx) {
  const Graph net = small_net();
  const Inspection found = inspect(net);
  EXPECT_GT(found.cost.parameters, 0);
  ASSERT_EQ(found.groups.size(), 3U);
  EXPECT_EQ(found.groups[0].removable, found.groups[0].channels);
  EXPECT_EQ(found.groups[2].removable, 0);
  EXPECT_FALSE(found.groups[2].reason.empty());
  const std::string bytes = to_onnx(net);
  EXPECT_TRUE(verify(net, from_onnx(std::as_bytes(std::span(bytes)))).same());
}

TEST(Api, OptionsAreNamedNotFlagged) {
  const Task task(20);
  TrainingOptions options = short_training();
  options.train.optimizer.lr = -1;
  const std::string said = message_of([&] { train(small_net(), task.samples(), options); });
  EXPECT_EQ(said, "`lr`: expected a positive number, found -1");
  EXPECT_EQ(name_of(ScheduleKind::one_cycle), "one-cycle");
  EXPECT_EQ(value_of<AlignBy>("activations", "align"), AlignBy::activations);
  EXPECT_THAT(message_of([] { value_of<AlignBy>("nothing", "align"); }), HasSubstr("weights, activations"));
}

}  // namespace
}  // namespace pare
