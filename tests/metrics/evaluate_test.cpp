// Evaluation of multi-label data against the metrics of logits computed at once.
#include "pare/metrics/evaluate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Dataset random_multi_label(int64_t count, int64_t classes) {
  at::manual_seed(4);
  Dataset data{.name = "random", .mean = {0.5}, .std = {0.25}, .split = "test"};
  data.images = at::randint(256, {count, 1, 28, 28}, at::kByte);
  data.labels = at::rand({count, classes}).gt(0.7).to(at::kByte);
  for (int64_t k = 0; k < classes; ++k) data.classes.push_back(std::to_string(k));
  return data;
}

TEST(EvaluateMultiLabel, AgreesWithTheMetricsOfAllLogits) {
  const auto data = random_multi_label(83, 6);
  const std::vector<Graph> models = {build("lenet-5", {.classes = 6}, 1), build("lenet-5", {.classes = 6}, 2)};
  const auto result = evaluate(models, data, {.batch = 20, .ensemble = true, .threshold = 0});
  ASSERT_EQ(result.multi_label.size(), 3u);
  EXPECT_TRUE(result.models.empty());
  const auto batch = make_batch(data, 0, data.size());
  at::Tensor probabilities = at::zeros({83, 6}, at::kDouble);
  std::vector<at::Tensor> logits;
  for (const auto& model : models) {
    logits.push_back(forward(model, {&batch.images, 1}).outputs[0].to(at::kDouble));
    probabilities += logits.back().sigmoid() / 2;
  }
  logits.push_back(at::log(probabilities / (1 - probabilities)));
  for (size_t m = 0; m < 3; ++m) {
    const auto p = logits[m].sigmoid();
    const auto y = batch.labels.to(at::kDouble);
    const double loss = -(y * p.log() + (1 - y) * (1 - p).log()).mean().item<double>();
    EXPECT_NEAR(result.multi_label[m].loss, loss, 1e-5);
    EXPECT_NEAR(result.multi_label[m].sample_precision, sample_average_precision(logits[m], data.labels).mean, 1e-3);
    EXPECT_NEAR(result.multi_label[m].class_precision, class_average_precision(logits[m], data.labels).mean, 1e-3);
    EXPECT_NEAR(result.multi_label[m].f1, example_f1(logits[m], data.labels, 0), 1e-3);
    EXPECT_NEAR(result.multi_label[m].macro_f1, macro_f1(logits[m], data.labels, 0), 1e-3);
  }
  EXPECT_THROW(evaluate({build("lenet-5", {.classes = 7})}, data), Error);
}

// Normalised images that are cast to integers are no images any more.
TEST(EvaluateMultiLabel, RefusesAModelOfIntegers) {
  Graph model = build("lenet-5", {.classes = 6}, 1);
  const std::string input = model.inputs[0].name;
  model.inputs[0].name = "pixels";
  model.inputs[0].dtype = at::kByte;
  model.nodes.insert(
      model.nodes.begin(),
      {.name = "cast", .op = "Cast", .inputs = {"pixels"}, .outputs = {input}, .attributes = {{"to", int64_t{1}}}});
  try {
    evaluate({model}, random_multi_label(4, 6));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "pixels");
    EXPECT_NE(error.message().find("floating-point"), std::string::npos) << error.what();
  }
}

TEST(Evaluate, RefusesTheModelsClassesInAnotherOrder) {
  Dataset data = random_multi_label(4, 6);
  Graph model = build("lenet-5", {.classes = 6}, 1);
  model.metadata["pare.classes"] = R"(["0", "1", "2", "3", "4", "5"])";
  EXPECT_NO_THROW(evaluate({model}, data));
  model.metadata["pare.classes"] = R"(["1", "0", "2", "3", "4", "5"])";
  EXPECT_THROW(evaluate({model}, data), Error);
}

TEST(CheckClasses, ComparesScoresWithClassesBeforeARun) {
  const auto many = random_multi_label(2, 6);
  EXPECT_NO_THROW(check_classes(build("lenet-5", {.classes = 6}), many));
  EXPECT_THROW(check_classes(build("lenet-5", {.classes = 7}), many), Error);
  Dataset one = many;
  one.labels = at::zeros({2}, at::kLong);
  EXPECT_NO_THROW(check_classes(build("lenet-5", {.classes = 7}), one)) << "more scores than classes";
  one.labels_by_name = true;  // which say no order, unless it learned them
  Graph seven = build("lenet-5", {.classes = 7});
  EXPECT_THROW(evaluate({seven}, one), Error);
  seven.metadata["pare.classes"] = R"(["0", "1", "2", "3", "4", "5"])";
  EXPECT_NO_THROW(evaluate({seven}, one));
  one.labels_by_name = false;
  try {
    check_classes(build("lenet-300-100", {.classes = 3}), one);
    FAIL() << "three scores for six classes";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::shape);
    EXPECT_NE(error.message().find("3 scores for an image, random has 6 classes"), std::string::npos) << error.what();
  }
}

// A network that ends in probabilities has the loss and the threshold of the scores before them.
TEST(EvaluateMultiLabel, TakesTheScoresInFrontOfProbabilities) {
  const auto data = random_multi_label(20, 6);
  const Graph plain = build("lenet-5", {.classes = 6}, 1);
  Graph ending = plain;
  ending.nodes.push_back(
      {.name = "last", .op = "Sigmoid", .inputs = {plain.outputs[0].name}, .outputs = {"probabilities"}});
  ending.outputs[0].name = "probabilities";
  const auto result = evaluate({plain, ending}, data);
  EXPECT_EQ(result.multi_label[0].loss, result.multi_label[1].loss);
  EXPECT_EQ(result.multi_label[0].f1, result.multi_label[1].f1);
}

TEST(EvaluateMultiLabel, KeepsLargeLogitsFinite) {
  const auto logits = at::tensor({1000.0, -1000.0, -3.0}, at::kDouble).view({1, 3});
  EXPECT_NEAR(multi_label_soft_margin(logits, at::tensor({1, 0, 1}).view({1, 3})), std::log1p(std::exp(3.0)) / 3,
              1e-12);
  EXPECT_NEAR(multi_label_soft_margin(logits, at::tensor({0, 0, 0}).view({1, 3})),
              (1000 + std::log1p(std::exp(-3.0))) / 3, 1e-9);
}

}  // namespace
}  // namespace pare
