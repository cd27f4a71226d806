// Singh, Jaggi: Model Fusion via Optimal Transport, NeurIPS 2020. The paper's pairs and its 4, 6 and 8 models were
// trained on MNIST, CIFAR-10 and CIFAR-100; here every parent is trained by us, and its figures stand beside for
// comparison of the order, not of the numbers.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "experiments/reproduce/papers.h"
#include "pare/metrics/evaluate.h"
#include "pare/workflow/fuse.h"

namespace pare {

namespace {

constexpr int64_t kSamples = 200;  // images of the training data that a method may see

struct FusionMethod {
  const char* what;
  FuseOptions options;
  int64_t samples = 0;
  double published = kNoFigure;
};

FuseOptions as_published(AlignBy align) {
  return {.method = "ot", .align = align, .ground = NeuronDistance::euclidean, .scaling = ColumnScaling::published};
}

FusionMethod plain_average(double published = kNoFigure) {
  return {"vanilla average", {.method = "average"}, 0, published};
}

// The paper's two forms and what came after them; `matching` is rebasin, or merge-many for more than two networks.
std::vector<FusionMethod> fusion_methods(const char* matching, double weights = kNoFigure,
                                         double activations = kNoFigure) {
  return {{"OT on weights, as published", as_published(AlignBy::weights), 0, weights},
          {"OT on activations, as published", as_published(AlignBy::activations), kSamples, activations},
          {"weight matching, no data", {.method = matching}},
          {"weight matching, regression on noise, no data", {.method = matching, .repair = FusionRepair::regression}},
          {"weight matching, regression on 200 samples",
           {.method = matching, .repair = FusionRepair::regression},
           kSamples}};
}

FuseRun fused(const std::vector<Graph>& models, const FusionMethod& method, const DataChoice& data) {
  return run_fuse(models, {.fuse = method.options, .data = data, .samples = method.samples});
}

double mean_of(const std::vector<MetricList>& models) {
  double sum = 0;
  for (const auto& metrics : models) sum += metrics.front().second;
  return sum / static_cast<double>(models.size());
}

// More only on request.
size_t most_models(const Reproduction& table) { return table.at_scale<size_t>(4, 8, 8); }

// Networks of one kind, told apart by their seeds.
class Parents {
 public:
  Parents(Reproduction& table, TrainingPlan plan, std::string title, int64_t test)
      : table_(table), plan_(std::move(plan)), title_(std::move(title)), data_{.data = plan_.data, .limit = test} {}

  const TrainingPlan& plan() const { return plan_; }
  const DataChoice& data() const { return data_; }
  bool on_request() const { return on_request_; }  // their rows take long
  void on_request(bool value) { on_request_ = value; }
  std::string title() const {
    const std::string images = plan_.limit > 0 ? fmt::format("{} images", plan_.limit) : "all images";
    return fmt::format("{}, {}, {} epochs of {}{}", title_, plan_.data, plan_.training.train.epochs, images,
                       test_images_text(data_.limit));
  }

  std::vector<Graph> first(size_t count) {
    std::vector<TrainingPlan> missing;
    for (size_t i = graphs_.size(); i < count; ++i) {
      missing.push_back(plan_);
      missing.back().seed = i;
    }
    for (auto& graph : table_.train_each(missing)) graphs_.push_back(std::move(graph));
    return {graphs_.begin(), graphs_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  Reproduction& table_;
  TrainingPlan plan_;
  std::string title_;
  DataChoice data_;
  bool on_request_ = false;
  std::vector<Graph> graphs_;
};

struct Baselines {
  double parents = kNoFigure;
  double ensemble = kNoFigure;
  double vanilla = kNoFigure;
};

void fusion_rows(Reproduction& table, Parents& parents, size_t count, const std::vector<FusionMethod>& methods,
                 const Baselines& published = {}) {
  const auto row = [&](const std::string& what, double figure) {
    return TableRow{.table = parents.title(),
                    .what = fmt::format("{} models: {}", count, what),
                    .published = figure,
                    .note = std::isnan(figure) ? "" : "published: the authors' own pair",
                    .on_request = parents.on_request() || count > most_models(table)};
  };
  table.rows({row("mean parent", published.parents), row("average of predictions", published.ensemble),
              row("vanilla average", published.vanilla)},
             [&] {
               const FuseRun run = fused(parents.first(count), plain_average(), parents.data());
               return std::vector<double>{mean_of(run.models), run.ensemble.front().second, run.fused.front().second};
             });
  for (const auto& method : methods)
    table.row(row(method.what, method.published),
              [&] { return fused(parents.first(count), method, parents.data()).fused.front().second; });
}

TrainingPlan plan_for(const Reproduction& table, const std::string& arch, const std::string& data) {
  TrainingPlan plan{.arch = arch, .data = data};
  plan.limit = table.at_scale<int64_t>(10'000, 0, 0);
  plan.training.train.epochs = table.at_scale<int64_t>(2, 5, 10);
  plan.training.train.optimizer.lr = 0.05;
  plan.training.train.batch = 64;
  return plan;
}

int64_t test_images(const Reproduction& table) { return table.at_scale<int64_t>(2'000, 0, 0); }

void perceptron_tables(Reproduction& table) {
  Parents mnist(table, plan_for(table, "mlpnet", "mnist"), "784-400-200-100-10 without biases", test_images(table));
  TrainingPlan biased = plan_for(table, "mlpnet", "mnist");
  biased.model.bias = LinearBias::yes;
  Parents mnist_bias(table, biased, "784-400-200-100-10 with biases", test_images(table));
  Parents fashion(table, plan_for(table, "mlpnet", "fashion-mnist"), "784-400-200-100-10 without biases",
                  test_images(table));
  biased.data = "fashion-mnist";
  Parents fashion_bias(table, biased, "784-400-200-100-10 with biases", test_images(table));
  fusion_rows(table, mnist, 2, fusion_methods("rebasin", 0.9558, 0.9631), {0.97735, 0.9788, 0.7384});
  for (size_t count = 4; count <= 8; count += 2) fusion_rows(table, mnist, count, fusion_methods("merge-many"));
  fusion_rows(table, mnist_bias, 2, fusion_methods("rebasin"));
  fusion_rows(table, fashion, 2, fusion_methods("rebasin"));
  fusion_rows(table, fashion_bias, 2, fusion_methods("rebasin"));
  for (size_t count = 4; count <= 8; count += 2) fusion_rows(table, fashion_bias, count, fusion_methods("merge-many"));
}

void convolution_tables(Reproduction& table) {
  for (const char* arch : {"convnet", "convnet-bn"}) {
    Parents parents(table, plan_for(table, arch, "fashion-mnist"), arch, test_images(table));
    fusion_rows(table, parents, 2, fusion_methods("rebasin"));
  }
}

// Deep networks on CIFAR-10: one with residual streams, trained for a few epochs, and on request the paper's own two,
// whose figures are not among our sources.
void deep_tables(Reproduction& table) {
  struct Deep {
    const char* arch;
    double lr;
    bool on_request;
  };
  const std::string& scale = table.options().scale;
  for (const Deep& deep :
       {Deep{"resnet20", 0.4, scale == "toy"}, {"vgg11", 0.05, scale != "full"}, {"resnet18", 0.1, scale != "full"}}) {
    TrainingPlan plan = plan_for(table, deep.arch, "cifar10");
    plan.training.train.epochs = table.at_scale<int64_t>(1, 3, 100);
    plan.training.train.batch = 128;
    plan.training.train.optimizer.lr = deep.lr;
    plan.training.train.augment = "standard";
    Parents parents(table, plan, deep.arch, test_images(table));
    parents.on_request(deep.on_request);
    fusion_rows(table, parents, 2, fusion_methods("rebasin"));
  }
}

// 400-200-100 into 200-100-50.
void width_table(Reproduction& table) {
  TrainingPlan plan = plan_for(table, "mlpnet", "fashion-mnist");
  plan.model.bias = LinearBias::yes;
  const DataChoice data{.data = plan.data, .limit = test_images(table)};
  const std::string title =
      fmt::format("400-200-100 fused into 200-100-50, {}{}", plan.data, test_images_text(data.limit));
  Lazy<std::vector<Graph>> parents([&] {
    TrainingPlan narrow = plan;
    narrow.model.width = 0.5;
    narrow.seed = 1;
    return std::vector<Graph>{table.train(narrow), table.train(plan)};
  });
  std::vector<FusionMethod> methods = {
      {"sliced average", {.method = "average"}},
      {"OT as published", as_published(AlignBy::weights)},
      {"OT, function-preserving", {.method = "ot"}},
      {"OT, regression on noise, no data", {.method = "ot", .repair = FusionRepair::regression}},
      {"OT, regression on 200 samples", {.method = "ot", .repair = FusionRepair::regression}, kSamples}};
  table.rows({{.table = title, .what = "the small parent"}, {.table = title, .what = "the large parent"}}, [&] {
    return std::vector<double>{table.accuracy(parents.get()[0], data), table.accuracy(parents.get()[1], data)};
  });
  for (const auto& method : methods)
    table.row({.table = title, .what = method.what},
              [&] { return fused(parents.get(), method, data).fused.front().second; });
}

// After fusion the networks train on.
struct FinetuningFigure {
  size_t count;
  double ensemble = kNoFigure, vanilla = kNoFigure, transport = kNoFigure;
};

void finetuning_rows(Reproduction& table, Parents& parents, double alone,
                     const std::vector<FinetuningFigure>& figures) {
  TrainingPlan more = parents.plan();
  more.training.train.epochs = table.at_scale<int64_t>(1, 5, 10);
  more.training.train.optimizer.lr = 0.01;
  more.training.train.schedule.schedule = ScheduleKind::cosine;
  const std::string title = fmt::format("fine-tuned for {} epochs: {}", more.training.train.epochs, parents.title());
  const auto tuned = [&](const Graph& graph, const std::string& what) {
    return table.accuracy(table.finetune(graph, more, what), parents.data());
  };
  const auto row = [&](size_t count, const std::string& what, double published) {
    return TableRow{.table = title,
                    .what = fmt::format("{} models: {}", count, what),
                    .published = published,
                    .note = fmt::format("{} times fewer parameters than the ensemble", count),
                    .on_request = parents.on_request() || count > most_models(table)};
  };
  table.row({.table = title,
             .what = "one parent alone",
             .published = alone,
             .note = std::isnan(alone) ? "" : "published: not tuned on",
             .on_request = parents.on_request()},
            [&] { return tuned(parents.first(1)[0], "a parent"); });
  for (const auto& figure : figures) {
    const size_t count = figure.count;
    TableRow ensemble = row(count, "average of predictions", figure.ensemble);
    ensemble.note = "not tuned, the parents as they are";
    table.row(ensemble,
              [&] { return fused(parents.first(count), plain_average(), parents.data()).ensemble.front().second; });
    const FusionMethod methods[] = {
        plain_average(figure.vanilla),
        {"OT on weights, as published", as_published(AlignBy::weights), 0, figure.transport},
        {"weight matching, regression on 200 samples",
         {.method = count == 2 ? "rebasin" : "merge-many", .repair = FusionRepair::regression},
         kSamples}};
    for (const auto& method : methods)
      table.row(row(count, method.what, method.published), [&] {
        return tuned(fused(parents.first(count), method, parents.data()).result.fused,
                     fmt::format("{} models by {}", count, method.what));
      });
  }
}

// The paper's are VGG-11 on CIFAR-100: as many models there, and perceptrons for machines that have less time.
void finetuning_tables(Reproduction& table) {
  TrainingPlan plan = plan_for(table, "mlpnet", "fashion-mnist");
  plan.model.bias = LinearBias::yes;
  Parents perceptrons(table, plan, "784-400-200-100-10 with biases", test_images(table));
  finetuning_rows(table, perceptrons, kNoFigure, {{2}, {4}, {6}, {8}});
  TrainingPlan deep = plan_for(table, "vgg11", "cifar100");
  deep.training.train.epochs = 300;
  deep.training.train.batch = 128;
  deep.training.train.augment = "standard";
  Parents vgg(table, deep, "vgg11", 0);
  vgg.on_request(table.options().scale != "full");
  finetuning_rows(table, vgg, 0.6270,
                  {{4, 0.6632, 0.0402, 0.6429}, {6, 0.6699, 0.0085, 0.6455}, {8, 0.6728, 0.0100, 0.6505}});
}

// The pair that the authors published, as two files among the checkpoints.
void published_pair_table(Reproduction& table) {
  const std::string title = "784-400-200-100-10 without biases, MNIST, the published pair";
  const DataChoice data{.data = "mnist"};
  Lazy<std::vector<Graph>> pair([&] {
    std::vector<Graph> models;
    for (const char* file : {"mlpnet.mnist.0.checkpoint", "mlpnet.mnist.1.checkpoint"})
      models.push_back(load_model(table.checkpoint(file), {.arch = "mlpnet"}).graph);
    return models;
  });
  table.rows({{.table = title, .what = "mean parent", .published = 0.97735},
              {.table = title, .what = "average of predictions", .published = 0.9788},
              {.table = title, .what = "vanilla average", .published = 0.7384}},
             [&] {
               const FuseRun run = fused(pair.get(), plain_average(), data);
               return std::vector<double>{mean_of(run.models), run.ensemble.front().second, run.fused.front().second};
             });
  const auto weights = [](NeuronDistance ground, NeuronMass importance, std::vector<double> shares = {}) {
    FuseOptions options = as_published(AlignBy::weights);
    options.ground = ground;
    options.importance = importance;
    options.weights = std::move(shares);
    return options;
  };
  FuseOptions cosine = as_published(AlignBy::activations);
  cosine.ground = NeuronDistance::cosine;
  std::vector<FusionMethod> methods = {
      {"OT on weights, Euclidean", as_published(AlignBy::weights), 0, 0.9558},
      {"OT on weights, unit rows", weights(NeuronDistance::unit, NeuronMass::uniform), 0, 0.9663},
      {"OT on weights, squared", weights(NeuronDistance::squared, NeuronMass::uniform), 0, 0.9532},
      {"OT on weights, cosine", weights(NeuronDistance::cosine, NeuronMass::uniform), 0, 0.9660},
      {"OT on weights, importance l1", weights(NeuronDistance::euclidean, NeuronMass::l1), 0, 0.9516},
      {"OT on weights, importance l2", weights(NeuronDistance::euclidean, NeuronMass::l2), 0, 0.9552},
      {"OT on weights, 0.9 of the first", weights(NeuronDistance::euclidean, NeuronMass::uniform, {0.9, 0.1}), 0,
       0.9749},
      {"OT on weights, 0.1 of the first", weights(NeuronDistance::euclidean, NeuronMass::uniform, {0.1, 0.9}), 0,
       0.9760},
      {"OT on activations, 10 samples", as_published(AlignBy::activations), 10, 0.766},
      {"OT on activations, 50 samples", as_published(AlignBy::activations), 50, 0.953},
      {"OT on activations, 200 samples", as_published(AlignBy::activations), kSamples, 0.9631},
      {"OT on activations, 1000 samples", as_published(AlignBy::activations), 1000, 0.966},
      {"OT on activations, 200 samples, cosine", cosine, kSamples, 0.9668}};
  for (const auto& method : methods)
    table.row({.table = title, .what = method.what, .published = method.published},
              [&] { return fused(pair.get(), method, data).fused.front().second; });
}

// Numbers of [0, 1) for every image, by the seed.
at::Tensor draws(int64_t count, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::rand({count}, generator, at::TensorOptions(at::kDouble));
}

at::Tensor where_true(const at::Tensor& mask) { return at::nonzero(mask).squeeze(1); }

// Networks, and training images that none of them has seen, to choose on.
struct Mixed {
  std::vector<Graph> models;
  Dataset held_out;
};

// The accuracy with the mixing weights of two networks that do best on the images held out.
double best_mixture(const Mixed& mixed, const FusionMethod& method, const DataChoice& data) {
  double best = -1;
  double accuracy = 0;
  for (int i = 1; i < 10; ++i) {
    FusionMethod weighted = method;
    weighted.options.weights = {0.1 * i, 1 - 0.1 * i};
    const FuseRun run = fused(mixed.models, weighted, data);
    const double chosen = metrics_of(evaluate({run.result.fused}, mixed.held_out), 0).front().second;
    if (chosen <= best) continue;
    best = chosen;
    accuracy = run.fused.front().second;
  }
  return accuracy;
}

// One network knows a digit and a tenth of the rest, the other nine tenths of the rest; no image is shared.
void skill_table(Reproduction& table) {
  constexpr int64_t kSkill = 4;
  const TrainingPlan plan = plan_for(table, "mlpnet", "mnist");
  const DataChoice data{.data = plan.data, .limit = test_images(table)};
  const std::string title = fmt::format("skill transfer, {}, {} epochs{}", plan.data, plan.training.train.epochs,
                                        test_images_text(data.limit));
  Lazy<Mixed> mixed([&] {
    const DatasetParts parts = hold_out(training_data(plan), 0.1, table.options().seed);
    const Dataset& whole = parts.rest;
    const at::Tensor special = whole.labels == kSkill;
    const at::Tensor tenth = draws(whole.size(), table.options().seed) < 0.1;
    TrainingPlan other = plan;
    other.seed = 1;
    return Mixed{
        {table.train(plan, samples_at(whole, where_true(special.logical_or(tenth)))),
         table.train(other, samples_at(whole, where_true(special.logical_not().logical_and(tenth.logical_not()))))},
        parts.held_out};
  });
  table.rows({{.table = title, .what = "the specialist"},
              {.table = title, .what = "the generalist"},
              {.table = title, .what = "average of predictions"}},
             [&] {
               const FuseRun run = fused(mixed.get().models, plain_average(), data);
               return std::vector<double>{run.models[0].front().second, run.models[1].front().second,
                                          run.ensemble.front().second};
             });
  std::vector<FusionMethod> methods = fusion_methods("rebasin");
  methods.insert(methods.begin(), plain_average());
  for (const auto& method : methods)
    table.row({.table = title,
               .what = method.what,
               .note = "mixing weight of 0.1 to 0.9 chosen on 10 % of the training images held out"},
              [&] { return best_mixture(mixed.get(), method, data); });
}

// Clients whose data differ, fused once, by the size of their data.
void federated_table(Reproduction& table) {
  constexpr int64_t kClients = 4;
  TrainingPlan plan = plan_for(table, "mlpnet", "fashion-mnist");
  plan.model.bias = LinearBias::yes;
  const DataChoice data{.data = plan.data, .limit = test_images(table)};
  struct Round {
    std::vector<Graph> models;
    std::vector<double> sizes;
  };
  for (const bool together : {true, false}) {
    const std::string title =
        fmt::format("four clients with different classes, {}, {}{}", plan.data,
                    together ? "one initialisation" : "each its own initialisation", test_images_text(data.limit));
    Lazy<Round> clients([&] {
      const Dataset whole = training_data(plan);
      // Half of the images go to the client of their class, the others to anyone.
      const at::Tensor anyone = at::floor(draws(whole.size(), table.options().seed + 1) * kClients);
      const at::Tensor own = at::floor(whole.labels.to(at::kDouble) * (0.1 * kClients));
      const at::Tensor client = at::where(draws(whole.size(), table.options().seed + 2) < 0.5, own, anyone);
      Round round;
      for (int64_t i = 0; i < kClients; ++i) {
        const Dataset part = samples_at(whole, where_true(client == static_cast<double>(i)));
        TrainingPlan own_plan = plan;
        own_plan.seed = together ? 0 : static_cast<uint64_t>(i);
        round.models.push_back(table.train(own_plan, part));
        round.sizes.push_back(static_cast<double>(part.size()));
      }
      return round;
    });
    const auto run = [&](FusionMethod method) {
      method.options.weights = clients.get().sizes;
      return fused(clients.get().models, method, data);
    };
    table.rows({{.table = title, .what = "mean client"},
                {.table = title, .what = "average of predictions"},
                {.table = title, .what = "vanilla average (one round of FedAvg)"}},
               [&] {
                 const FuseRun result = run(plain_average());
                 return std::vector<double>{mean_of(result.models), result.ensemble.front().second,
                                            result.fused.front().second};
               });
    for (const auto& method : fusion_methods("merge-many"))
      table.row({.table = title, .what = method.what}, [&] { return run(method).fused.front().second; });
  }
}

}  // namespace

void reproduce_fusion(Reproduction& table) {
  perceptron_tables(table);
  convolution_tables(table);
  width_table(table);
  published_pair_table(table);
  finetuning_tables(table);
  skill_table(table);
  federated_table(table);
  deep_tables(table);
}

}  // namespace pare
