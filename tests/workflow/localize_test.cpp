// pare localize and pare explain against the same computed one pair at a time.
#include "pare/workflow/localize.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/data/image.h"
#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/workflow/explain.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

// Squares of class-dependent brightness on noise; image 5 has no object.
Dataset squares() {
  at::manual_seed(9);
  Dataset data{.name = "squares", .mean = {0.5}, .std = {0.25}, .split = "test"};
  data.images = at::randint(60, {12, 3, 32, 32}, at::kByte);
  data.labels = at::zeros({12, 4}, at::kByte);
  data.masks = at::zeros({12, 32, 32}, at::kByte);
  for (int64_t n = 0; n < 12; ++n)
    for (int64_t k = 0; k < 2 && n != 5; ++k) {
      const int64_t c = (n + 2 * k) % 4, top = 3 + 14 * k, left = (5 * n) % 20;
      data.images[n].slice(1, top, top + 10).slice(2, left, left + 10).fill_(120 + 30 * c);
      data.masks[n].slice(0, top, top + 10).slice(1, left, left + 10).fill_(c + 1);
      data.labels[n][c] = 1;
    }
  data.masks.slice(1, 31, 32).fill_(255);  // void
  data.classes = {"a", "b", "c", "d"};
  return data;
}

std::vector<Graph> two_models() {
  const ArchOptions arch{.width = 0.5, .classes = 4, .input = {3, 32, 32}};
  return {build("vgg9-bn", arch, 1), build("vgg9-bn", arch, 2)};
}

TEST(Localize, AgreesWithOnePairAtATime) {
  Dataset data = squares();
  check_dataset(data);
  const auto models = two_models();
  for (const char* method : {"gradcam", "lrp"}) {
    LocalizationMetrics present, predicted, shared;
    DefinedMean cosine, correlation;
    std::vector<at::Tensor> first;
    std::vector<bool> first_predicts;
    for (size_t m = 0; m < 2; ++m) {
      const Attributor attributor(models[m], {.method = method});
      present = predicted = shared = {};
      cosine = correlation = {};
      size_t pair = 0;
      for (int64_t n = 0; n < data.size(); ++n)
        for (int64_t c = 0; c < 4; ++c) {
          const auto mask = data.masks[n].eq(c + 1);
          if (!mask.any().item<bool>()) continue;
          const auto found = attributor.explain(make_batch(data, n, n + 1).images, {}, at::full({1}, c, at::kLong));
          const auto map = resize_maps(found.maps, 32, 32)[0];
          present.add(map, mask, 2);
          if (found.scores[0][c].item<double>() > 0) predicted.add(map, mask, 2);
          if (m == 0) first.push_back(found.maps[0]), first_predicts.push_back(found.scores[0][c].item<double>() > 0);
          if (first_predicts[pair]) shared.add(map, mask, 2);
          cosine.add(map_cosine(found.maps[0], first[pair]));
          correlation.add(map_rank_correlation(found.maps[0], first[pair]));
          ++pair;
        }
      for (const int64_t batch : {1, 5, 100}) {
        const auto result = localize(models, data, {.attribution = {.method = method}, .tolerance = 2, .batch = batch});
        ASSERT_EQ(result.models.size(), 2u);
        EXPECT_EQ(result.pairs, 22);
        const auto& found = result.models[m];
        EXPECT_EQ(found.present.pairs, present.pairs);
        EXPECT_EQ(found.predicted.pairs, predicted.pairs);
        EXPECT_EQ(found.shared.pairs, shared.pairs);
        EXPECT_NEAR(found.shared.auc.mean(), shared.auc.mean(), 1e-3) << method;
        EXPECT_NEAR(found.present.auc.mean(), present.auc.mean(), 1e-3) << method;
        EXPECT_NEAR(found.present.mass.mean(), present.mass.mean(), 1e-3) << method;
        EXPECT_NEAR(found.present.rank.mean(), present.rank.mean(), 1e-2) << method;
        EXPECT_NEAR(found.present.point.mean(), present.point.mean(), 0.05) << method;
        EXPECT_NEAR(found.cosine.mean(), cosine.mean(), 1e-3) << method;
        EXPECT_NEAR(found.rank_correlation.mean(), correlation.mean(), 1e-3) << method;
      }
    }
  }
}

TEST(Localize, NeedsMasksAndTheRightNumberOfClasses) {
  Dataset data = squares();
  check_dataset(data);
  EXPECT_THROW(localize({build("vgg9-bn", {.classes = 5, .input = {3, 32, 32}})}, data), Error);
  EXPECT_THROW(localize({build("vgg9-bn", {.classes = 4})}, data), Error) << "another size";
  for (const int64_t classes : {3, 5}) try {
      const Graph odd = build("vgg9-bn", {.width = 0.5, .classes = classes, .input = {3, 32, 32}});
      localize({two_models()[0], odd}, data, {.names = {"a.onnx", "b.onnx"}});
      ADD_FAILURE() << classes;
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "b.onnx") << error.what();
      EXPECT_NE(error.message().find(fmt::format("{} scores for an image, squares has 4 classes", classes)),
                std::string::npos)
          << error.what();
    }
  data.masks = at::Tensor();
  EXPECT_THROW(localize(two_models(), data), Error);
}

TEST(Explain, HandsOverPicturesInOrder) {
  Dataset data = squares();
  check_dataset(data);
  const auto models = two_models();
  const auto input = make_explain_input(data, 6);
  EXPECT_EQ(input.classes[0].size(), 2u);
  EXPECT_TRUE(input.classes[5].empty());
  std::vector<Explanation> list;
  const auto layers = explain(models[0], {{"itself", models[0]}, {"other", models[1]}}, input, {},
                              [&](const Explanation& e) { list.push_back(e); });
  EXPECT_EQ(layers.size(), 3u);
  ASSERT_EQ(list.size(), 11u);
  EXPECT_EQ(list[10].image, 5u);
  for (const auto& e : list) {
    EXPECT_EQ(e.picture.sizes(), at::IntArrayRef({3, 224, 4 * 224 + 24}));
    ASSERT_EQ(e.compared.size(), 2u);
    const double itself = e.compared[0].similarity.cosine, other = e.compared[1].similarity.cosine;
    EXPECT_EQ(e.compared[0].zero, e.zero);
    EXPECT_TRUE(std::isnan(itself) ? e.zero : itself > 1 - 1e-9);
    EXPECT_TRUE(std::isnan(other) ? e.zero : other >= 0 && other <= 1 + 1e-9);
    EXPECT_EQ(e.compared[0].score, e.score);
  }
}

TEST(Explain, TakesImagesOfAnySizeAndColour) {
  const std::string gray = testing::TempDir() + "/explain_gray.png", wide = testing::TempDir() + "/explain_wide.png";
  write_png(gray, at::randint(256, {1, 20, 20}, at::kByte));
  write_png(wide, at::randint(256, {3, 50, 90}, at::kByte));
  const auto model = two_models()[0];
  const auto input = read_explain_input({gray, wide}, model);
  EXPECT_EQ(input.read(0, 2).images.sizes(), at::IntArrayRef({2, 3, 32, 32}));
  EXPECT_EQ(input.mean.size(), 3u);
  std::vector<at::Tensor> pictures;
  explain(model, {}, input, {.method = "ig", .steps = 3}, [&](const Explanation& e) { pictures.push_back(e.picture); });
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_EQ(pictures[1].sizes(), at::IntArrayRef({3, 200, 2 * 200 + 8}));  // the square that it saw, enlarged
  const auto turned = read_explain_input({wide}, build("lenet-5"), {.mean = {0}, .std = {1}, .preprocess = "stretch"});
  const at::Tensor decoded = read_image(wide, {.color = ImageColor::gray});
  EXPECT_EQ(turned.image, (std::vector<int64_t>{1, 28, 28}));
  EXPECT_TRUE(turned.read(0, 1).images[0].mul(255).round().equal(resize_bilinear(decoded, 28, 28).to(at::kFloat)));
  EXPECT_THROW(read_explain_input({"/nowhere.png"}, model), Error);
  // A size is that of models which take any.
  EXPECT_THROW(read_explain_input({wide}, model, {.size = 64}), Error);
  Graph open = model;
  for (const size_t axis : {2, 3}) open.inputs[0].dims->at(axis) = {};
  EXPECT_EQ(read_explain_input({wide}, open).image, (std::vector<int64_t>{3, 50, 90}));
  EXPECT_EQ(read_explain_input({wide}, open, {.size = 64}).read(0, 1).images.sizes(), at::IntArrayRef({1, 3, 64, 64}));
}

TEST(Explain, ShowsLargePicturesSmaller) {
  const std::string path = testing::TempDir() + "/explain_large.png";
  write_png(path, at::zeros({3, 30, 3000}, at::kByte));
  const auto input = read_explain_input({path}, two_models()[0], {.preprocess = "stretch"});
  EXPECT_EQ(input.read(0, 1).pictures[0].sizes(), at::IntArrayRef({3, 10, 1024}));
}

TEST(Explain, MapsThatSayNothingAreTold) {
  Dataset data = squares();
  check_dataset(data);
  for (const float value : {0.0F, NAN}) {
    Graph model = two_models()[0];
    const std::string head = model.nodes.back().inputs.at(1);
    model.tensors.at(head) = at::full_like(model.tensor(head), value);
    for (const char* method : {"gradcam", "lrp"})
      explain(model, {{"itself", model}}, make_explain_input(data, 1), {.method = method}, [&](const Explanation& e) {
        EXPECT_EQ(e.zero, value == 0);
        EXPECT_EQ(e.nan, std::isnan(value));
        EXPECT_EQ(e.compared.at(0).zero, e.zero);
        EXPECT_EQ(e.compared[0].nan, e.nan);
        EXPECT_EQ(e.conservation_error.has_value(), std::string(method) == "lrp");
        EXPECT_EQ(e.nan, std::isnan(e.conservation_error.value_or(e.nan ? NAN : 0)));
      });
  }
}

TEST(Explain, ALayerThatTheScoresDoNotDependOnIsNotUnknown) {
  Graph model = two_models()[0];
  Node aside = model.nodes.front();
  aside.name = "aside";
  aside.outputs = {"aside"};
  model.nodes.insert(model.nodes.begin() + 1, aside);
  model.outputs.push_back({.name = "aside", .dtype = at::kFloat});
  try {
    const Attributor attributor(model, {.layer = "aside"});
    FAIL() << "a layer beside";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "the scores do not depend on it");
  }
}

TEST(Explain, ClassesHaveTheNamesOfTheModel) {
  const std::string path = testing::TempDir() + "/explain_named.png";
  write_png(path, at::randint(256, {3, 32, 32}, at::kByte));
  Graph model = two_models()[0];
  const auto names = [&](const std::string& metadata) {
    model.metadata["pare.classes"] = metadata;
    return read_explain_input({path}, model).class_names;
  };
  EXPECT_EQ(names(R"(["cat", "dog", "cow", "hen"])"), (std::vector<std::string>{"cat", "dog", "cow", "hen"}));
  for (const char* odd : {"", "cat", "7", "{}", R"(["cat", 1])"}) EXPECT_TRUE(names(odd).empty()) << odd;
}

TEST(Normalization, AnotherThanTheModelsIsNoted) {
  Graph model = two_models()[0];
  EXPECT_TRUE(normalization_notes(model, {0.5}, {0.25}).empty());
  model.metadata["pare.mean"] = "[0.5]";
  model.metadata["pare.std"] = "[0.25]";
  EXPECT_TRUE(normalization_notes(model, {0.5}, {0.25}).empty());
  const auto notes = normalization_notes(model, {0.5}, {0.2});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("std of 0.25; here it is 0.2"), std::string::npos) << notes[0];
}

TEST(Explain, FindsClassesByNumberAndName) {
  EXPECT_EQ(find_class("3", {}), 3);
  EXPECT_EQ(find_class("b", {"a", "b"}), 1);
  EXPECT_THROW(find_class("c", {"a", "b"}), Error);
  EXPECT_THROW(find_class("c", {}), Error);
}

}  // namespace
}  // namespace pare
