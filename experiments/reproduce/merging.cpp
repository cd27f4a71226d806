// Kim, Kim, Park, Jeon: Neuron Merging: Compensating for Pruned Neurons, NeurIPS 2020. Figures of LeNet-300-100 by l1
// and of VGG-16 are the paper's; those of l2, gm, 90 % and ResNet-20 are what its released program gives on the same
// checkpoints; activations, MobileNetV1, ImageNet and NMF are from the authors' answers to the reviewers. All after
// batch norms are by the released program's scales (compensate/most_sim.h); rows with the corrected ones stand beside.
#include <ATen/ATen.h>

#include <cmath>
#include <iterator>

#include "experiments/reproduce/papers.h"
#include "pare/error.h"
#include "pare/workflow/prune.h"

namespace pare {

namespace {

// A network of the tables, and the data it is measured on.
struct Subject {
  std::string table;
  Lazy<Graph>& graph;
  DataChoice data;
  PruneJob options;         // what all its rows share
  bool on_request = false;  // as in TableRow
};

struct Published {
  const char* criterion;
  double ratio;
  double pruned;
  double merged;
};

// How the removed channels are made up for, and the name of it.
struct Variant {
  std::string compensate;
  bool as_published = false;

  std::string text() const {
    return compensate == "none" ? "pruned only" : as_published ? "most-sim, the released program's scales" : compensate;
  }
};

double pruned_accuracy(Reproduction& table, Subject& subject, const Variant& variant) {
  PruneJob options = subject.options;
  options.compensate = variant.compensate;
  options.unchecked = true;  // the methods as they were published, wherever they lead
  options.most_sim.as_published = variant.as_published;
  options.seed = table.options().seed;
  if (variant.compensate == "calibrated") {
    options.data = subject.data;
    options.data.limit = 1;  // measured below
  }
  return table.accuracy(prune(subject.graph.get(), options).graph, subject.data);
}

// `note` says what network a published figure is of, where that is another one.
void add_base(Reproduction& table, Subject& subject, double published, const std::string& note = "") {
  table.row({.table = subject.table,
             .what = "as trained",
             .published = published,
             .note = note,
             .on_request = subject.on_request},
            [&] { return table.accuracy(subject.graph.get(), subject.data); });
}

void add_pruned(Reproduction& table, Subject& subject, const Variant& variant, double published = kNoFigure,
                const std::string& note = "") {
  const size_t layers = subject.options.layers.size();
  const std::string where = layers == 0 ? "" : layers == 1 ? " of one layer" : fmt::format(" of {} layers", layers);
  table.row({.table = subject.table,
             .what = fmt::format("{}, {:.0f} %{} removed, {}", subject.options.criterion,
                                 100 * subject.options.channels.value_or(0), where, variant.text()),
             .published = published,
             .note = note,
             .on_request = subject.on_request},
            [&] { return pruned_accuracy(table, subject, variant); });
}

// Pruned and merged as published, and merged by the corrected scales.
void add_published(Reproduction& table, Subject& subject, const Published& published, const std::string& note = "") {
  add_pruned(table, subject, {"none"}, published.pruned, note);
  add_pruned(table, subject, {"most-sim", true}, published.merged, note);
  add_pruned(table, subject, {"most-sim"});
}

PruneJob exact_cut(double channels) {
  PruneJob options;
  options.channels = channels;
  options.criterion = "l1";
  options.scope = PruneScope::uniform;
  options.round_to = 1;  // as published
  return options;
}

constexpr double kLeNetThreshold = 0.45;

constexpr Published kLeNetFigures[] = {
    {"l1", 0.5, 0.8840, 0.8869}, {"l1", 0.6, 0.8517, 0.8692}, {"l1", 0.7, 0.7126, 0.8275}, {"l1", 0.8, 0.6676, 0.8002},
    {"l1", 0.9, 0.3180, 0.5212}, {"l2", 0.5, 0.8786, 0.8838}, {"l2", 0.6, 0.8303, 0.8807}, {"l2", 0.7, 0.7121, 0.8327},
    {"l2", 0.8, 0.6390, 0.7711}, {"l2", 0.9, 0.2812, 0.4343}, {"gm", 0.5, 0.8808, 0.8857}, {"gm", 0.6, 0.8582, 0.8810},
    {"gm", 0.7, 0.7838, 0.8639}, {"gm", 0.8, 0.6419, 0.7749}, {"gm", 0.9, 0.2985, 0.4876},
};

void lenet_table(Reproduction& table) {
  Lazy<Graph> lenet([&] {
    return load_model(table.checkpoint("lenet-300-100.fashion-mnist.pth.tar"), {.arch = "lenet-300-100"}).graph;
  });
  Subject subject{.table = "LeNet-300-100, published checkpoint, Fashion-MNIST",
                  .graph = lenet,
                  .data = {.data = "fashion-mnist", .mean = {0.5}, .std = {0.5}},
                  .options = {}};
  add_base(table, subject, 0.8980);
  for (const auto& published : kLeNetFigures) {
    subject.options = exact_cut(published.ratio);
    subject.options.criterion = published.criterion;
    subject.options.most_sim.threshold = kLeNetThreshold;
    add_pruned(table, subject, {"none"}, published.pruned);
    add_pruned(table, subject, {"most-sim"}, published.merged);
    if (subject.options.criterion != "l1") continue;
    for (const char* method : {"nnls", "gaussian", "ot", "calibrated"}) add_pruned(table, subject, {method});
    add_pruned(table, subject, {"nmf"});
  }
}

// The first convolution of every block, l1.
constexpr Published kResNetFigures[] = {{"l1", 0.1, 0.8457, 0.8827}, {"l1", 0.2, 0.6957, 0.7905},
                                        {"l1", 0.3, 0.6104, 0.6992}, {"l1", 0.4, 0.3955, 0.4557},
                                        {"l1", 0.5, 0.1475, 0.2190}, {"l1", 0.6, 0.0868, 0.1223}};

void resnet_table(Reproduction& table) {
  Lazy<Graph> resnet([&] { return load_model(table.checkpoint("resnet20.cifar10.th"), {.arch = "resnet20"}).graph; });
  const int64_t images = table.at_scale<int64_t>(1000, 0, 0);
  Subject subject{
      .table = "ResNet-20, published checkpoint, CIFAR-10" + test_images_text(images),
      .graph = resnet,
      .data = {.data = "cifar10", .limit = images, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}},
      .options = {}};
  add_base(table, subject, 0.9173);
  for (const auto& published : kResNetFigures) {
    subject.options = exact_cut(published.ratio);
    subject.options.inner_only = true;
    subject.options.distill_steps = table.at_scale<int64_t>(10, 150, 150);
    add_published(table, subject, published);
    // Half an hour has room for our own methods at two of the ratios.
    subject.on_request = table.options().scale == "small" && published.ratio != 0.3 && published.ratio != 0.5;
    for (const char* method : {"nnls", "nmf", "gaussian", "ot", "calibrated"}) add_pruned(table, subject, {method});
    add_pruned(table, subject, {"synthetic"}, kNoFigure,
               fmt::format("64 images distilled in {} steps", subject.options.distill_steps));
    subject.on_request = false;
  }
}

// Networks that are trained here.
struct Recipe {
  TrainingPlan plan;
  int64_t test = 0;  // images

  std::string text() const {
    const std::string images = plan.limit > 0 ? fmt::format("{} images", plan.limit) : "all images";
    const std::string width = plan.model.width == 1 ? "" : fmt::format(" x {}", plan.model.width);
    return fmt::format("{}{}, CIFAR-10, {} epochs of {}{}", plan.arch, width, plan.training.train.epochs, images,
                       test_images_text(test));
  }
};

Recipe cifar_recipe(const Reproduction& table, const std::string& arch, double width) {
  Recipe recipe;
  recipe.plan.arch = arch;
  recipe.plan.data = "cifar10";
  recipe.plan.model.width = width;
  recipe.plan.limit = table.at_scale<int64_t>(4000, 0, 0);
  recipe.test = table.at_scale<int64_t>(1000, 0, 0);
  TrainOptions& train = recipe.plan.training.train;
  train.epochs = table.at_scale<int64_t>(3, 3, 200);
  train.batch = table.at_scale<int64_t>(64, 128, 128);
  train.optimizer.lr = 0.1;
  train.augment = table.at_scale<std::string>("none", "standard", "standard");
  return recipe;
}

// Which ratios the published means are over is not said.
void lenet5_table(Reproduction& table) {
  TrainingPlan plan{.arch = "lenet-5", .data = "fashion-mnist"};
  plan.limit = table.at_scale<int64_t>(10'000, 0, 0);
  plan.training.train.epochs = table.at_scale<int64_t>(2, 5, 60);
  Lazy<Graph> lenet([&] { return table.train(plan); });
  const int64_t test = table.at_scale<int64_t>(2'000, 0, 0);
  Subject subject{.table = fmt::format("LeNet-5, Fashion-MNIST, {} epochs of {}{}", plan.training.train.epochs,
                                       plan.limit > 0 ? fmt::format("{} images", plan.limit) : "all images",
                                       test_images_text(test)),
                  .graph = lenet,
                  .data = {.data = "fashion-mnist", .limit = test},
                  .options = {}};
  add_base(table, subject, kNoFigure);
  constexpr double ratios[] = {0.5, 0.6, 0.7};
  const auto add_mean = [&](const Variant& variant, double published) {
    table.row({.table = subject.table,
               .what = fmt::format("l1, mean of 50, 60 and 70 % removed, {}", variant.text()),
               .published = published,
               .note = std::isnan(published) ? "" : "published: a mean over ratios that are not named"},
              [&] {
                double sum = 0;
                for (const double ratio : ratios) {
                  subject.options = exact_cut(ratio);
                  subject.options.most_sim.threshold = kLeNetThreshold;
                  sum += pruned_accuracy(table, subject, variant);
                }
                return sum / static_cast<double>(std::size(ratios));
              });
  };
  add_mean({"none"}, kNoFigure);
  add_mean({"most-sim"}, 0.8869);
  add_mean({"nmf"}, 0.1580);
  add_mean({"calibrated"}, kNoFigure);
}

// The first convolution and those after the third pool lose half of their filters, as published.
std::vector<std::string> vgg_layers(const std::string& arch) {
  if (arch == "vgg9-bn") return {"features.0", "features.14", "features.17", "features.20", "features.23"};
  return {"features.0", "features.24", "features.27", "features.30", "features.34", "features.37", "features.40"};
}

// A published figure is of the whole network.
std::string full_width_note(const Recipe& recipe, const char* arch, const char* published) {
  const bool same = recipe.plan.arch == arch && recipe.plan.model.width == 1;
  return same ? "" : fmt::format("published: {}", published);
}

std::string vgg_note(const Recipe& recipe) {
  return full_width_note(recipe, "vgg16-bn", "VGG-16 of full width, CIFAR-10");
}

Recipe vgg_recipe(const Reproduction& table) {
  return cifar_recipe(table, table.at_scale<std::string>("vgg9-bn", "vgg16-bn", "vgg16-bn"),
                      table.at_scale(0.5, 0.25, 1.0));
}

void vgg_table(Reproduction& table) {
  const Recipe recipe = vgg_recipe(table);
  Lazy<Graph> vgg([&] { return table.train(recipe.plan); });
  Subject subject{.table = recipe.text(),
                  .graph = vgg,
                  .data = {.data = "cifar10", .limit = recipe.test},
                  .options = exact_cut(0.5)};
  const std::string note = vgg_note(recipe);
  add_base(table, subject, 0.9370, note);
  subject.options.layers = vgg_layers(recipe.plan.arch);
  constexpr Published figures[] = {
      {"l1", 0.5, 0.8870, 0.9316}, {"l2", 0.5, 0.8914, 0.9316}, {"gm", 0.5, 0.8785, 0.9310}};
  for (const auto& published : figures) {
    subject.options.criterion = published.criterion;
    add_published(table, subject, published, note);
    for (const char* method : {"gaussian", "calibrated"}) add_pruned(table, subject, {method});
  }
}

void activations_table(Reproduction& table) {
  struct Figure {
    const char* activation;
    Published published;
    bool on_request = false;  // half an hour has room for four trainings more
  };
  constexpr Figure figures[] = {{"tanh", {"l1", 0.5, 0.6781, 0.8132}},
                                {"softsign", {"l1", 0.5, 0.7698, 0.8718}, true},
                                {"elu", {"l1", 0.5, 0.7773, 0.8968}},
                                {"selu", {"l1", 0.5, 0.2517, 0.8028}},
                                {"leaky-relu", {"l1", 0.5, 0.9210, 0.9346}, true},
                                {"hardswish", {"l1", 0.5, 0.8830, 0.9172}}};
  for (const auto& [activation, published, on_request] : figures) {
    Recipe recipe = vgg_recipe(table);
    recipe.plan.model.activation = activation;
    Lazy<Graph> vgg([&] { return table.train(recipe.plan); });
    Subject subject{.table = fmt::format("{} in {}", activation, recipe.text()),
                    .graph = vgg,
                    .data = {.data = "cifar10", .limit = recipe.test},
                    .options = exact_cut(0.5),
                    .on_request = table.options().scale == "small" && on_request};
    add_base(table, subject, kNoFigure);
    subject.options.layers = vgg_layers(recipe.plan.arch);
    add_published(table, subject, published, vgg_note(recipe));
    add_pruned(table, subject, {"calibrated"});
  }
}

// Which layers lost channels is not published. With all of them cut nothing is left of a network this thin; the last
// two that a depthwise layer reads give figures of the published kind.
void mobilenet_table(Reproduction& table) {
  const Recipe recipe = cifar_recipe(table, "mobilenetv1", table.at_scale(0.25, 0.25, 1.0));
  Lazy<Graph> mobilenet([&] { return table.train(recipe.plan); });
  Subject subject{
      .table = recipe.text(), .graph = mobilenet, .data = {.data = "cifar10", .limit = recipe.test}, .options = {}};
  const std::string note = full_width_note(recipe, "mobilenetv1", "MobileNetV1 of full width");
  const std::string layers =
      note.empty() ? "published: layers that are not named" : note + ", layers that are not named";
  add_base(table, subject, 0.8790, note);
  constexpr Published figures[] = {
      {"l1", 0.4, 0.8452, 0.8584}, {"l1", 0.5, 0.7734, 0.8074}, {"l1", 0.6, 0.3939, 0.5588}};
  for (const auto& published : figures) {
    subject.options = exact_cut(published.ratio);
    subject.options.layers = {"model.11.3", "model.12.3"};
    add_published(table, subject, published, layers);
    add_pruned(table, subject, {"calibrated"});
  }
}

// Networks and images that are not on every machine: the rows say where they would be found.
struct ImageNetSubject {
  const char* file;
  const char* layers;  // GLOB of those that are cut; empty: all but residual streams
  double base;
  std::vector<Published> figures;
};

void imagenet_table(Reproduction& table) {
  const ImageNetSubject subjects[] = {
      {"vgg16_bn.imagenet.onnx",
       "*features.40*",  // the last convolution
       0.7336,
       {{"l1", 0.5, 0.5700, 0.6118}, {"l1", 0.6, 0.4770, 0.5378}, {"l1", 0.7, 0.3475, 0.4326}}},
      {"resnet34.imagenet.onnx",
       "",
       0.7331,
       {{"l1", 0.1, 0.6208, 0.6630}, {"l1", 0.2, 0.4066, 0.5395}, {"l1", 0.3, 0.1252, 0.3556}}}};
  for (const auto& network : subjects) {
    Lazy<Graph> graph([&] {
      if (table.options().imagenet.empty())
        throw Error(ErrorKind::file, "ImageNet", "needs `imagenet` folder:DIR and {} among the checkpoints",
                    network.file);
      return load_model(table.checkpoint(network.file), {}).graph;
    });
    Subject subject{.table = fmt::format("{}, ImageNet", network.file),
                    .graph = graph,
                    .data = {.data = table.options().imagenet},
                    .options = {}};
    add_base(table, subject, network.base);
    for (const auto& published : network.figures) {
      subject.options = exact_cut(published.ratio);
      subject.options.inner_only = true;
      if (*network.layers != '\0') subject.options.layers = {fmt::format("{}={}", network.layers, published.ratio)};
      add_published(table, subject, published);
    }
  }
}

// Networks of the paper whose figures are not among our sources.
void residual_tables(Reproduction& table) {
  for (const char* arch : {"resnet56", "wrn-40-4"}) {
    const Recipe recipe = cifar_recipe(table, arch, 1);
    Lazy<Graph> network([&] { return table.train(recipe.plan); });
    Subject subject{.table = recipe.text(),
                    .graph = network,
                    .data = {.data = "cifar10", .limit = recipe.test},
                    .options = {},
                    .on_request = table.options().scale != "full"};
    add_base(table, subject, kNoFigure);
    for (const double ratio : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}) {
      subject.options = exact_cut(ratio);
      subject.options.inner_only = true;
      add_published(table, subject, {"l1", ratio, kNoFigure, kNoFigure});
      add_pruned(table, subject, {"calibrated"});
    }
  }
}

}  // namespace

void reproduce_merging(Reproduction& table) {
  lenet_table(table);
  lenet5_table(table);
  resnet_table(table);
  vgg_table(table);
  activations_table(table);
  mobilenet_table(table);
  residual_tables(table);
  imagenet_table(table);
}

}  // namespace pare
