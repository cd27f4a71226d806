// The objective against the formulas written slowly, and its gradients against differences.
#include "pare/distill/distillation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attribute/nets.h"
#include "pare/distill/attention.h"
#include "pare/distill/soft_targets.h"
#include "pare/error.h"
#include "pare/train/train.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Graph teacher_net() { return plain_net({.bias = true, .batch_norm = true, .seed = 11}); }
Graph student_net() { return plain_net({.bias = true, .seed = 12}); }

Batch batch_of(int64_t count, bool multi_label = true) {
  Batch batch{.images = images(count), .labels = {}};
  at::manual_seed(5);
  batch.labels = multi_label ? at::randint(0, 2, {count, 5}).to(at::kFloat) : at::randint(0, 5, {count}, at::kLong);
  return batch;
}

// alpha = 0: the labels' loss and the penalty.
DistillationOptions only(const std::string& match) { return {.alpha = 0, .match = match, .match_weight = 1}; }

struct Step {
  double loss = 0;
  TensorMap gradients;
};

Step step_of(Objective& objective, const Graph& student, const Batch& batch, const TensorMap& changed = {}) {
  const Program program(student);
  TensorMap parameters, statistics;
  for (const auto& name : trained_tensors(student)) {
    const auto found = changed.find(name);
    parameters[name] =
        (found != changed.end() ? found->second : student.tensor(name)).detach().clone().requires_grad_();
  }
  at::manual_seed(1);
  const Loss loss = objective({program, parameters, batch, &statistics, {}});
  loss.value.backward();
  Step step{.loss = loss.value.item<double>()};
  for (const auto& [name, tensor] : parameters)
    step.gradients[name] = tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor);
  return step;
}

// Only the penalty.
double penalty_of(const DistillationOptions& options, const Graph& student, const Batch& batch,
                  const TensorMap& changed = {}) {
  Distillation with(teacher_net(), student, options);
  const DistillationOptions none{.alpha = options.alpha, .temperature = options.temperature};
  Distillation without(teacher_net(), student, none);
  return step_of(with, student, batch, changed).loss - step_of(without, student, batch, changed).loss;
}

// ReLU(Σ_k a_k A^k) at `layer` by gradients of one image after the other.
at::Tensor slow_map(const Graph& graph, const at::Tensor& x, const at::Tensor& classes, const std::string& layer) {
  std::vector<at::Tensor> maps;
  for (int64_t n = 0; n < x.size(0); ++n) {
    const Cut cut = cut_after(graph, layer);
    const at::Tensor image = x.slice(0, n, n + 1);
    auto boundary = forward(cut.front, {&image, 1}).outputs;
    const at::Tensor A = boundary[0] = boundary[0].detach().requires_grad_();
    forward(cut.back, boundary).outputs[0][0][classes[n].item<int64_t>()].backward();
    at::Tensor map = at::zeros({A.size(2), A.size(3)}, at::kDouble);
    for (int64_t k = 0; k < A.size(1); ++k) map = map + A.grad()[0][k].sum() * A.detach()[0][k];
    maps.push_back(map.clamp_min(0));
  }
  return at::stack(maps);
}

// mean |v̂_T − v̂_S|² / P, where a map that is all zero stays so.
double slow_distance(const at::Tensor& a, const at::Tensor& b) {
  double sum = 0;
  for (int64_t n = 0; n < a.size(0); ++n) {
    const auto length = [](const at::Tensor& v) { return std::max(v.norm().item<double>(), 1e-12); };
    sum += (a[n] / length(a[n]) - b[n] / length(b[n])).square().sum().item<double>();
  }
  return sum / static_cast<double>(a.size(0)) / static_cast<double>(a[0].numel());
}

TEST(Distillation, SensitivityWeightedIsTheFormula) {
  const Batch batch = batch_of(6);
  const Graph teacher = explained_graph(teacher_net()), student = student_net();
  const at::Tensor classes = scores_of(teacher, batch.images).argmax(1);  // the teacher's, for both
  const auto T = slow_map(teacher, batch.images, classes, last_spatial_value(teacher));
  const auto S = slow_map(student, batch.images, classes, last_spatial_value(student));
  EXPECT_NEAR(penalty_of(only("swa"), student, batch), slow_distance(T, S), 1e-14);
}

// Two convolutions side by side on one that both read: neither layer is on the way to the other.
Graph parallel_net(uint64_t seed) {
  TestGraph g(seed);
  const std::string x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string one = g.relu(g.conv(x, 4, 3)), other = g.relu(g.conv(x, 4, 3));
  return g.finish(g.linear(g.node("Flatten", {g.node("Add", {one, other})}), 192, 5));
}

TEST(Distillation, SensitivitiesOfParallelLayersAreSummed) {
  const Batch batch = batch_of(4);
  const Graph teacher = parallel_net(1), student = parallel_net(2);
  DistillationOptions options = only("swa");
  options.match_layers = {"Relu3", "Relu5"};
  Distillation with(teacher, student, options), without(teacher, student, {.alpha = 0});
  const at::Tensor classes = scores_of(teacher, batch.images).argmax(1);
  double expected = 0;
  for (const auto& pair : with.layers())
    expected += slow_distance(slow_map(teacher, batch.images, classes, pair.teacher),
                              slow_map(student, batch.images, classes, pair.student));
  ASSERT_GT(expected, 0);
  EXPECT_NEAR(step_of(with, student, batch).loss - step_of(without, student, batch).loss, expected, 1e-14);
}

Graph with_final(Graph graph, const std::string& op) {
  graph.nodes.push_back({.name = op, .op = op, .inputs = {graph.outputs[0].name}, .outputs = {"probabilities"}});
  graph.outputs[0].name = "probabilities";
  return graph;
}

// Probabilities that a network ends in are not its scores: not the teacher's, not the student's, not those of training.
TEST(Distillation, AFinalOperatorHasNoPartInTheScores) {
  const Batch batch = batch_of(4);
  const Graph student = student_net();
  ClassificationObjective plain;
  for (const std::string op : {"Softmax", "LogSoftmax", "Sigmoid"}) {
    const Graph ending = with_final(student, op);
    for (const std::string match : {"none", "at-grad", "swa"}) {
      const DistillationOptions options{.alpha = 0.5, .match = match};
      Distillation of_ending(with_final(teacher_net(), op), ending, options),
          of_scores(teacher_net(), student, options);
      const Step step = step_of(of_ending, ending, batch), expected = step_of(of_scores, student, batch);
      EXPECT_EQ(step.loss, expected.loss) << op << " " << match;
      for (const auto& [name, gradient] : expected.gradients) EXPECT_TRUE(gradient.equal(step.gradients.at(name)));
    }
    Distillation of_itself(ending, ending, {.alpha = 1});
    EXPECT_NEAR(step_of(of_itself, ending, batch).loss, 0, 1e-12) << op;
    EXPECT_EQ(step_of(plain, ending, batch).loss, step_of(plain, student, batch).loss) << op;
  }
}

TEST(Distillation, EquallyWeightedIsTheFormula) {
  const Batch batch = batch_of(6);
  const Graph teacher = explained_graph(teacher_net()), student = student_net();
  const auto map = [&](const Graph& graph) {
    return attention_map(values_of(graph, batch.images).at(last_spatial_value(graph)));
  };
  EXPECT_NEAR(penalty_of(only("ewa"), student, batch), slow_distance(map(teacher), map(student)), 1e-14);
}

TEST(Distillation, ActivationAttentionSumsTheStages) {
  const Batch batch = batch_of(4);
  const Graph teacher = explained_graph(teacher_net()), student = student_net();
  const Distillation objective(teacher_net(), student, only("at"));
  ASSERT_EQ(objective.layers().size(), 3u);  // 8x8, 4x4, 2x2
  double expected = 0;
  for (const auto& pair : objective.layers())
    expected += slow_distance(attention_map(values_of(teacher, batch.images).at(pair.teacher)),
                              attention_map(values_of(student, batch.images).at(pair.student)));
  EXPECT_NEAR(penalty_of(only("at"), student, batch), expected, 1e-14);
}

TEST(Distillation, GradientAttentionIsTheFormula) {
  for (const bool multi_label : {false, true}) {
    const Batch batch = batch_of(4, multi_label);
    const auto gradient = [&](const Graph& graph, int64_t n) {
      const at::Tensor x = batch.images.slice(0, n, n + 1).clone().requires_grad_();
      classification_loss(forward(graph, {&x, 1}).outputs[0], batch.labels.slice(0, n, n + 1)).backward();
      return x.grad();
    };
    double expected = 0;
    for (int64_t n = 0; n < 4; ++n)
      expected +=
          0.5 * (gradient(explained_graph(teacher_net()), n) - gradient(student_net(), n)).norm().item<double>();
    EXPECT_NEAR(penalty_of(only("at-grad"), student_net(), batch), expected / 4, 1e-13);
  }
}

// (gradient · d) against the difference quotient of fourth order along a random direction d of one tensor.
struct Slope {
  double gradient = 0, difference = 0;
};

Slope slope_of(Objective& objective, const Graph& student, const std::string& name, double h, uint64_t seed) {
  const Batch batch = batch_of(4);
  const at::Tensor& start = student.tensor(name);
  at::manual_seed(seed);
  at::Tensor d = at::randn(start.sizes(), at::kDouble);
  d = d / d.norm();
  const auto loss = [&](double t) { return step_of(objective, student, batch, {{name, start + t * d}}).loss; };
  return {.gradient = (step_of(objective, student, batch).gradients.at(name) * d).sum().item<double>(),
          .difference = (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h)};
}

// The head's weights have their part in the student's sensitivities: a second derivative.
TEST(Distillation, GradientOfTheHeadsWeights) {
  const Graph student = student_net();
  Distillation objective(teacher_net(), student, only("swa"));
  for (uint64_t direction = 0; direction < 5; ++direction) {
    const Slope slope = slope_of(objective, student, student.nodes.back().inputs[1], 1e-3, direction);
    EXPECT_NEAR(slope.gradient, slope.difference, 1e-11);
  }
}

// Of every tensor by every method; after the second layer there is more than the head. Steps are small because of
// kinks.
TEST(Distillation, GradientsAreThoseOfDifferences) {
  const Graph student = student_net();
  for (const std::string match : {"at", "at-grad", "ewa", "swa"})
    for (const bool early : {false, true}) {
      if (early && (match == "at" || match == "at-grad")) continue;
      DistillationOptions options = only(match);
      if (early) options.match_layers = {"MaxPool2=MaxPool3"};  // the teacher's batch norm is a node of its own
      Distillation objective(teacher_net(), student, options);
      for (const auto& name : trained_tensors(student)) {
        const Slope slope = slope_of(objective, student, name, 1e-6, 1);
        EXPECT_NEAR(slope.gradient, slope.difference, 1e-8) << match << (early ? " early " : " ") << name;
      }
    }
}

TEST(Distillation, TheHeadsBiasHasNoPartInMaps) {
  const Batch batch = batch_of(4);
  const Graph student = student_net();
  const std::string bias = student.nodes.back().inputs[2];
  Distillation with(teacher_net(), student, only("swa"));
  Distillation without(teacher_net(), student, {.alpha = 0});
  const auto gradient = [&](Objective& objective) { return step_of(objective, student, batch).gradients.at(bias); };
  EXPECT_LT(largest(gradient(with) - gradient(without)), 1e-15);
}

TEST(Distillation, StochasticBetweenNothingAndEverythingLeftOut) {
  const Batch batch = batch_of(6);
  DistillationOptions options = only("sswa");
  options.drop = 0;
  EXPECT_EQ(penalty_of(options, student_net(), batch), penalty_of(only("swa"), student_net(), batch));
  options.drop = 1;  // the teacher's maps are zero: 1/P of each image whose own map is not, P = 2x2
  const at::Tensor classes = scores_of(teacher_net(), batch.images).argmax(1);
  const auto S = slow_map(student_net(), batch.images, classes, last_spatial_value(student_net()));
  const auto maps = S.ne(0).any(2).any(1).sum().item<double>();
  ASSERT_GT(maps, 0);
  EXPECT_NEAR(penalty_of(options, student_net(), batch), maps / 6 / 4, 1e-14);
  options.drop = 0.5;
  EXPECT_NE(penalty_of(options, student_net(), batch), penalty_of(only("swa"), student_net(), batch));
}

TEST(Distillation, SoftTargetsAndLabelsShareTheLoss) {
  const Graph student = student_net();
  for (const bool multi_label : {false, true}) {
    const Batch batch = batch_of(4, multi_label);
    Distillation objective(teacher_net(), student, {.alpha = 0.9, .temperature = 4});
    const auto z = scores_of(student, batch.images), t = scores_of(teacher_net(), batch.images);
    const double expected = 0.1 * classification_loss(z, batch.labels).item<double>() +
                            0.9 * soft_target_loss(z, t, 4, multi_label).item<double>();
    EXPECT_NEAR(step_of(objective, student, batch).loss, expected, 1e-12);
  }
}

// The teacher is observed as it is used: with running statistics and without dropout.
TEST(Distillation, TheTeacherIsNotInTraining) {
  const ArchOptions arch{.width = 0.25, .input = {3, 16, 16}, .dropout = 0.5};
  const Graph teacher = cast(build("vgg9-bn", arch, 3), at::kDouble);
  at::manual_seed(2);
  const at::Tensor x = at::randn({3, 3, 16, 16}, at::kDouble);
  const Graph explained = explained_graph(teacher);
  using Gradients = MatchMethod::Gradients;
  for (const auto gradients : {Gradients::none, Gradients::layers, Gradients::input}) {
    const std::string layer = last_spatial_value(explained);
    Teacher observed(explained, gradients == Gradients::input ? std::vector<std::string>{} : std::vector{layer},
                     gradients);
    const Batch batch{.images = x};
    const Observation once = observed.observe(batch), twice = observed.observe(batch);
    EXPECT_TRUE(once.scores.equal(twice.scores));
    EXPECT_LT(largest(once.scores - scores_of(teacher, x)), 1e-12);
    if (gradients != Gradients::input) {
      EXPECT_LT(largest(once.layers[0] - values_of(explained, x).at(layer)), 1e-12);
    }
  }
}

// The first convolution of a bottleneck comes before its stride: it has the extent of the stage before it.
TEST(Distillation, StagesEndBeforeTheNextOneBegins) {
  TestGraph g;
  using Ints = std::vector<int64_t>;
  const auto conv = [&](const std::string& x, int64_t in, int64_t out, int64_t side, int64_t stride) {
    return g.node("Conv", {x, g.random({out, in, side, side})},
                  {{"pads", Ints(4, side / 2)}, {"strides", Ints{stride, stride}}});
  };
  const std::string first = g.relu(conv(g.input("x", {-1, 3, 8, 8}), 3, 8, 3, 1));
  const std::string inner = g.relu(conv(g.relu(conv(first, 8, 4, 1, 1)), 4, 4, 3, 2));
  const std::string second = g.relu(g.node("Add", {conv(inner, 4, 8, 1, 1), conv(first, 8, 8, 1, 2)}));
  const Graph net = g.finish(g.linear(g.node("Flatten", {g.node("GlobalAveragePool", {second})}), 8, 5));
  const auto pairs = matched_layers(net, net, *find_match_method("at"), {});
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].teacher, second);
  EXPECT_EQ(pairs[1].teacher, first);
  EXPECT_EQ(pairs[1].student, first);
}

TEST(Distillation, WidthsAndArchitecturesMayDiffer) {
  at::manual_seed(2);
  Batch batch{.images = at::randn({3, 3, 32, 32}), .labels = at::tensor({0, 4, 9}, at::kLong)};
  const Graph teacher = build("resnet20", {.width = 0.5}, 1);
  const Graph student = build("vgg11-bn", {.width = 0.03125}, 2);
  const auto loss = [&](const DistillationOptions& options) {
    Distillation objective(teacher, student, options);
    return step_of(objective, student, batch).loss;
  };
  EXPECT_GT(loss({.match = "at"}), 0);          // 32x32, 16x16 and 8x8 are in both
  EXPECT_THROW(loss({.match = "swa"}), Error);  // 8x8 against 2x2
  EXPECT_GT(loss({.match = "swa", .match_layers = {"features.10=" + last_spatial_value(explained_graph(teacher))}}), 0);
}

// A layer before a batch norm is the same layer in both networks: of two that are equal nothing is to be matched.
TEST(Distillation, MatchesALayerInFrontOfItsBatchNorm) {
  at::manual_seed(2);
  Batch batch{.images = at::randn({3, 3, 32, 32}), .labels = at::tensor({0, 4, 9}, at::kLong)};
  Graph net = build("vgg9-bn", {.width = 0.25, .input = {3, 32, 32}}, 1);
  net.tensors.at("features.1.running_mean") = at::randn_like(net.tensors.at("features.1.running_mean"));
  const auto loss = [&](const DistillationOptions& options) {
    Distillation objective(net, net, options);
    return step_of(objective, net, batch).loss;
  };
  const double alone = loss({.alpha = 0});
  EXPECT_NEAR(loss({.alpha = 0, .match = "ewa", .match_layers = {"features.0"}}), alone, 1e-5);
  EXPECT_GT(loss({.alpha = 0, .match = "ewa", .match_layers = {"features.0=features.1"}}), alone + 1e-3);
}

// What only a second output reads is not on the way to the scores.
TEST(Distillation, MatchesALayerOfTheScores) {
  const Graph net = student_net();
  Graph two = net;
  two.nodes.push_back({.name = "aside", .op = "Relu", .inputs = {"MaxPool5_0"}, .outputs = {"aside"}});
  two.outputs.push_back({.name = "aside", .dtype = at::kDouble});
  for (const std::string match : {"at", "ewa", "swa"}) {
    const Distillation of_two(teacher_net(), two, only(match)), of_one(teacher_net(), net, only(match));
    ASSERT_EQ(of_two.layers().size(), of_one.layers().size()) << match;
    for (size_t i = 0; i < of_two.layers().size(); ++i)
      EXPECT_EQ(of_two.layers()[i].student, of_one.layers()[i].student) << match;
  }
}

TEST(Distillation, WhatIsRefused) {
  const Graph mlp = build("lenet-300-100"), net = student_net();
  EXPECT_NO_THROW(Distillation(mlp, mlp, {}));
  for (const std::string match : {"at", "ewa", "swa", "sswa"}) {
    EXPECT_THROW(Distillation(mlp, mlp, {.match = match}), Error) << match;
    EXPECT_THROW(Distillation(net, net, {.match = match, .match_layers = {"nowhere"}}), Error) << match;
  }
  EXPECT_THROW(Distillation(net, net, {.match = "magic"}), Error);
  EXPECT_THROW(Distillation(net, net, {.match = "at-grad", .match_layers = {"MaxPool2"}}), Error);
  EXPECT_THROW(Distillation(net, net, {.match_layers = {"MaxPool2"}}), Error);
  for (const double alpha : {-0.1, 1.1, std::nan("")}) EXPECT_THROW(Distillation(net, net, {.alpha = alpha}), Error);
  for (const double T : {0.0, -1.0, std::nan("")}) EXPECT_THROW(Distillation(net, net, {.temperature = T}), Error);
  for (const double drop : {-0.1, 1.1}) EXPECT_THROW(Distillation(net, net, {.match = "sswa", .drop = drop}), Error);
  Distillation flat(net, net, {.match = "swa", .match_layers = {"Flatten6"}});
  EXPECT_THROW(step_of(flat, net, batch_of(2)), Error);  // no spatial extent
}

// Bright above or below; the teacher's maps are taken over by a student of another width.
TEST(Distillation, TrainsInTheLoopAndResumesToTheSameBits) {
  Dataset data{.name = "halves", .classes = {"above", "below"}, .mean = {0.5}, .std = {0.5}, .split = "train"};
  at::manual_seed(7);
  data.labels = at::arange(60, at::kLong).remainder(2);
  data.images = at::randint(0, 120, {60, 1, 16, 16}, at::kByte);
  for (int64_t i = 0; i < 60; ++i) data.images[i][0].narrow(0, i % 2 * 8, 8).add_(80);
  const auto net = [](double width, uint64_t seed) {
    return build("vgg9-bn", {.width = width, .classes = 2, .input = {1, 16, 16}, .dropout = 0.3}, seed);
  };
  TrainOptions options;
  options.epochs = 3;
  options.batch = 16;
  options.optimizer.lr = 0.005;
  const Graph teacher = train(net(0.5, 1), data, options).last, student = net(0.25, 2);
  const DistillationOptions sswa{.match = "sswa"};
  Distillation objective(teacher, student, sswa);
  TrainParts parts{.objective = &objective};
  const TrainResult whole = train(student, data, options, parts);
  EXPECT_LT(whole.state.history.back().loss, whole.state.history.front().loss);
  TrainState saved;
  int64_t steps = 0;
  parts.on_step = [&](const StepReport&) { ++steps; };
  parts.stop = [&] { return steps == 5; };
  parts.save = [&](const TrainState& state) {
    saved = state;
    for (auto& [name, tensor] : saved.raw) tensor = tensor.clone();
    for (auto& [name, tensor] : saved.optimizer) tensor = tensor.clone();
  };
  EXPECT_THROW(train(student, data, options, parts), Error);
  parts.stop = {};
  parts.save = {};
  Distillation again(teacher, student, sswa);
  parts.objective = &again;
  const TrainResult resumed = train(student, data, options, parts, &saved);
  for (const auto& [name, tensor] : whole.last.tensors) EXPECT_TRUE(tensor.equal(resumed.last.tensor(name))) << name;
}

}  // namespace
}  // namespace pare
