// Singh, Jaggi: Model Fusion via Optimal Transport, NeurIPS 2020. The paper's pairs and its 4, 6 and 8 models were
// trained on MNIST, CIFAR-10 and CIFAR-100; here every parent is trained by us, and its figures stand beside for
// comparison of the order, not of the numbers.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "pare/workflow/fuse.h"
#include "pare/workflow/reproduce/papers.h"

namespace pare {

namespace {

constexpr int64_t kSamples = 200;  // images of the training data that a method may see

struct FusionMethod {
  const char* what;
  FuseOptions options;
  int64_t samples = 0;
  double published = kNoFigure;
};

FuseOptions as_published(const char* align) {
  return {.method = "ot", .align = align, .ground = "euclidean", .scaling = "published"};
}

FusionMethod plain_average(double published = kNoFigure) {
  return {"vanilla average", {.method = "average"}, 0, published};
}

// The paper's two forms and what came after them; `matching` is rebasin, or merge-many for more than two networks.
std::vector<FusionMethod> fusion_methods(const char* matching, double weights = kNoFigure,
                                         double activations = kNoFigure) {
  return {{"OT on weights, as published", as_published("weights"), 0, weights},
          {"OT on activations, as published", as_published("activations"), kSamples, activations},
          {"weight matching, no data", {.method = matching}},
          {"weight matching, regression on noise, no data", {.method = matching, .repair = "regression"}},
          {"weight matching, regression on 200 samples", {.method = matching, .repair = "regression"}, kSamples}};
}

FuseRun fused(const std::vector<Graph>& models, const FusionMethod& method, const DataChoice& data) {
  return run_fuse(models, {.fuse = method.options, .data = data, .samples = method.samples});
}

double mean_of(const std::vector<MetricList>& models) {
  double sum = 0;
  for (const auto& metrics : models) sum += metrics.front().second;
  return sum / static_cast<double>(models.size());
}

// Networks of one kind, told apart by their seeds.
class Parents {
 public:
  Parents(Reproduction& table, TrainingPlan plan, std::string title, int64_t test)
      : table_(table), plan_(std::move(plan)), title_(std::move(title)), data_{.data = plan_.data, .limit = test} {}

  const TrainingPlan& plan() const { return plan_; }
  const DataChoice& data() const { return data_; }
  std::string title() const {
    const std::string images = plan_.limit > 0 ? fmt::format("{} images", plan_.limit) : "all images";
    return fmt::format("{}, {}, {} epochs of {}", title_, plan_.data, plan_.training.train.epochs, images);
  }

  std::vector<Graph> first(size_t count) {
    for (size_t i = graphs_.size(); i < count; ++i) {
      plan_.seed = i;
      graphs_.push_back(table_.train(plan_));
    }
    return {graphs_.begin(), graphs_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  Reproduction& table_;
  TrainingPlan plan_;
  std::string title_;
  DataChoice data_;
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
    return TableRow{.table = parents.title(), .what = fmt::format("{} models: {}", count, what), .published = figure};
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
  biased.model.bias = "yes";
  Parents mnist_bias(table, biased, "784-400-200-100-10 with biases", test_images(table));
  Parents fashion(table, plan_for(table, "mlpnet", "fashion-mnist"), "784-400-200-100-10 without biases",
                  test_images(table));
  biased.data = "fashion-mnist";
  Parents fashion_bias(table, biased, "784-400-200-100-10 with biases", test_images(table));
  const size_t most = table.at_scale<size_t>(4, 8, 8);
  fusion_rows(table, mnist, 2, fusion_methods("rebasin", 0.9558, 0.9631), {0.97735, 0.9788, 0.7384});
  for (size_t count = 4; count <= most; count += 2) fusion_rows(table, mnist, count, fusion_methods("merge-many"));
  fusion_rows(table, mnist_bias, 2, fusion_methods("rebasin"));
  fusion_rows(table, fashion, 2, fusion_methods("rebasin"));
  fusion_rows(table, fashion_bias, 2, fusion_methods("rebasin"));
  for (size_t count = 4; count <= most; count += 2)
    fusion_rows(table, fashion_bias, count, fusion_methods("merge-many"));
}

void convolution_tables(Reproduction& table) {
  for (const char* arch : {"convnet", "convnet-bn"}) {
    Parents parents(table, plan_for(table, arch, "fashion-mnist"), arch, test_images(table));
    fusion_rows(table, parents, 2, fusion_methods("rebasin"));
  }
}

// A deep network with residual streams, trained for a few epochs.
void residual_table(Reproduction& table) {
  if (table.options().scale == "toy") return;
  TrainingPlan plan = plan_for(table, "resnet20", "cifar10");
  plan.training.train.epochs = table.at_scale<int64_t>(0, 3, 100);
  plan.training.train.batch = 128;
  plan.training.train.optimizer.lr = 0.4;
  plan.training.train.augment = "standard";
  Parents parents(table, plan, "resnet20", test_images(table));
  fusion_rows(table, parents, 2, fusion_methods("rebasin"));
}

// 400-200-100 into 200-100-50.
void width_table(Reproduction& table) {
  TrainingPlan plan = plan_for(table, "mlpnet", "fashion-mnist");
  plan.model.bias = "yes";
  const DataChoice data{.data = plan.data, .limit = test_images(table)};
  const std::string title = fmt::format("400-200-100 fused into 200-100-50, {}", plan.data);
  Lazy<std::vector<Graph>> parents([&] {
    TrainingPlan narrow = plan;
    narrow.model.width = 0.5;
    narrow.seed = 1;
    return std::vector<Graph>{table.train(narrow), table.train(plan)};
  });
  std::vector<FusionMethod> methods = {
      {"sliced average", {.method = "average"}},
      {"OT as published", as_published("weights")},
      {"OT, function-preserving", {.method = "ot"}},
      {"OT, regression on noise, no data", {.method = "ot", .repair = "regression"}},
      {"OT, regression on 200 samples", {.method = "ot", .repair = "regression"}, kSamples}};
  table.rows({{.table = title, .what = "the small parent"}, {.table = title, .what = "the large parent"}}, [&] {
    return std::vector<double>{table.accuracy(parents.get()[0], data), table.accuracy(parents.get()[1], data)};
  });
  for (const auto& method : methods)
    table.row({.table = title, .what = method.what},
              [&] { return fused(parents.get(), method, data).fused.front().second; });
}

// After fusion the networks train on; the paper's are VGG-11 on CIFAR-100.
void finetuning_table(Reproduction& table) {
  struct Figure {
    size_t count;
    double ensemble, vanilla, transport;
  };
  constexpr Figure figures[] = {{2, kNoFigure, kNoFigure, kNoFigure},
                                {4, 0.6632, 0.0402, 0.6429},
                                {6, 0.6699, 0.0085, 0.6455},
                                {8, 0.6728, 0.0100, 0.6505}};
  TrainingPlan plan = plan_for(table, "mlpnet", "fashion-mnist");
  plan.model.bias = "yes";
  Parents parents(table, plan, "784-400-200-100-10 with biases", test_images(table));
  TrainingPlan more = plan;
  more.training.train.epochs = table.at_scale<int64_t>(1, 5, 10);
  more.training.train.optimizer.lr = 0.01;
  more.training.train.schedule.schedule = "cosine";
  const std::string title = fmt::format("fine-tuned for {} epochs: {}", more.training.train.epochs, parents.title());
  const auto tuned = [&](const Graph& graph, const std::string& what) {
    return table.accuracy(table.finetune(graph, more, what), parents.data());
  };
  const auto row = [&](size_t count, const std::string& what, double published) {
    return TableRow{.table = title,
                    .what = fmt::format("{} models: {}", count, what),
                    .published = published,
                    .note = fmt::format("{} times fewer parameters than the ensemble{}", count,
                                        std::isnan(published) ? "" : "; published: VGG-11, CIFAR-100")};
  };
  table.row({.table = title,
             .what = "one parent alone",
             .published = 0.6270,
             .note = "published: VGG-11, CIFAR-100, not tuned on"},
            [&] { return tuned(parents.first(1)[0], "a parent"); });
  for (const auto& figure : figures) {
    if (figure.count > table.at_scale<size_t>(4, 8, 8)) break;
    const size_t count = figure.count;
    table.row({.table = title,
               .what = fmt::format("{} models: average of predictions", count),
               .published = figure.ensemble,
               .note = "not tuned, the parents as they are"},
              [&] { return fused(parents.first(count), plain_average(), parents.data()).ensemble.front().second; });
    const FusionMethod methods[] = {plain_average(figure.vanilla),
                                    {"OT on weights, as published", as_published("weights"), 0, figure.transport},
                                    {"weight matching, regression on 200 samples",
                                     {.method = count == 2 ? "rebasin" : "merge-many", .repair = "regression"},
                                     kSamples}};
    for (const auto& method : methods)
      table.row(row(count, method.what, method.published), [&] {
        return tuned(fused(parents.first(count), method, parents.data()).result.fused,
                     fmt::format("{} models by {}", count, method.what));
      });
  }
}

// Numbers of [0, 1) for every image, by the seed.
at::Tensor draws(int64_t count, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::rand({count}, generator, at::TensorOptions(at::kDouble));
}

at::Tensor where_true(const at::Tensor& mask) { return at::nonzero(mask).squeeze(1); }

// The best accuracy over the mixing weights of two networks.
double best_mixture(const std::vector<Graph>& models, const FusionMethod& method, const DataChoice& data) {
  double best = 0;
  for (int i = 1; i < 10; ++i) {
    FusionMethod mixed = method;
    mixed.options.weights = {0.1 * i, 1 - 0.1 * i};
    best = std::max(best, fused(models, mixed, data).fused.front().second);
  }
  return best;
}

// One network knows a digit and a tenth of the rest, the other nine tenths of the rest; no image is shared.
void skill_table(Reproduction& table) {
  constexpr int64_t kSkill = 4;
  const TrainingPlan plan = plan_for(table, "mlpnet", "mnist");
  const DataChoice data{.data = plan.data, .limit = test_images(table)};
  const std::string title = fmt::format("skill transfer, {}, {} epochs", plan.data, plan.training.train.epochs);
  Lazy<std::vector<Graph>> models([&] {
    const Dataset whole = training_data(plan);
    const at::Tensor special = whole.labels == kSkill;
    const at::Tensor tenth = draws(whole.size(), table.options().seed) < 0.1;
    TrainingPlan other = plan;
    other.seed = 1;
    return std::vector<Graph>{
        table.train(plan, samples_at(whole, where_true(special.logical_or(tenth)))),
        table.train(other, samples_at(whole, where_true(special.logical_not().logical_and(tenth.logical_not()))))};
  });
  table.rows({{.table = title, .what = "the specialist"},
              {.table = title, .what = "the generalist"},
              {.table = title, .what = "average of predictions"}},
             [&] {
               const FuseRun run = fused(models.get(), plain_average(), data);
               return std::vector<double>{run.models[0].front().second, run.models[1].front().second,
                                          run.ensemble.front().second};
             });
  std::vector<FusionMethod> methods = fusion_methods("rebasin");
  methods.insert(methods.begin(), plain_average());
  for (const auto& method : methods)
    table.row({.table = title, .what = method.what, .note = "best mixing weight of 0.1 to 0.9"},
              [&] { return best_mixture(models.get(), method, data); });
}

// Clients whose data differ, fused once, by the size of their data.
void federated_table(Reproduction& table) {
  constexpr int64_t kClients = 4;
  TrainingPlan plan = plan_for(table, "mlpnet", "fashion-mnist");
  plan.model.bias = "yes";
  const DataChoice data{.data = plan.data, .limit = test_images(table)};
  struct Round {
    std::vector<Graph> models;
    std::vector<double> sizes;
  };
  for (const bool together : {true, false}) {
    const std::string title = fmt::format("four clients with different classes, {}, {}", plan.data,
                                          together ? "one initialisation" : "each its own initialisation");
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
  finetuning_table(table);
  skill_table(table);
  federated_table(table);
  residual_table(table);
}

}  // namespace pare
