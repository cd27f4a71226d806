#include "experiments/roar.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/pixel_removal.h"
#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Dataset labelled(int64_t count, bool multi_label) {
  at::manual_seed(3);
  Dataset data{.name = "noise", .classes = {"a", "b", "c"}, .mean = {0.5}, .std = {0.25}, .split = "train"};
  data.images = at::randint(256, {count, 3, 16, 16}, at::kByte);
  data.labels = multi_label ? at::tensor({1, 0, 1, 0, 0, 0, 0, 1, 0}, at::kByte).reshape({3, 3})
                            : at::arange(count, at::kLong).remainder(3);
  check_dataset(data);
  return data;
}

Graph model() { return build("vgg9-bn", {.width = 0.25, .classes = 3, .input = {3, 16, 16}}, 4); }

TEST(Roar, PixelsAreOrderedByTheLargestMapOfTheLabels) {
  const Dataset data = labelled(3, true);
  const at::Tensor order = pixel_order(model(), data, {}).places;
  const Attributor attributor(model(), {});
  const std::vector<std::vector<int64_t>> classes = {{0, 2}, {0}, {1}};  // the second has no label
  for (int64_t n = 0; n < 3; ++n) {
    std::vector<double> largest(256, -1);
    for (const int64_t c : classes[static_cast<size_t>(n)]) {
      const auto found = attributor.explain(make_batch(data, n, n + 1).images, {}, at::full({1}, c, at::kLong));
      const at::Tensor map = resize_maps(found.maps, 16, 16)[0].flatten();
      const double top = std::max(map.max().item<double>(), 1e-12);
      for (int64_t p = 0; p < 256; ++p)
        largest[static_cast<size_t>(p)] = std::max(largest[static_cast<size_t>(p)], map[p].item<double>() / top);
    }
    double last = 2;
    for (int64_t i = 0; i < 256; ++i) {
      const double value = largest[static_cast<size_t>(order[n][i].item<int>())];
      EXPECT_LE(value, last + 1e-5);
      last = value;
    }
    EXPECT_TRUE(std::get<0>(order[n].sort()).equal(at::arange(256, at::kInt)));
  }
}

TEST(Roar, TheFirstPixelsBecomeTheMeanColour) {
  const Dataset data = labelled(3, false);
  const at::Tensor color = mean_color(data), order = random_pixel_order(data, 16, 16, 1);
  for (int64_t c = 0; c < 3; ++c)
    EXPECT_NEAR(color[c].item<double>(), data.images.select(1, c).to(at::kDouble).mean().item<double>(), 0.5);
  const PixelFill fill("mean", data);
  const Dataset rest = fill.without(data, order, 0.3);
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t i = 0; i < 256; ++i) {
      const auto p = order[n][i].item<int>();
      for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(rest.images[n][c][p / 16][p % 16].item<int>(),
                  i < 76 ? color[c].item<int>() : data.images[n][c][p / 16][p % 16].item<int>());
    }
  EXPECT_TRUE(fill.without(data, order, 0.001).images.equal(data.images));
}

// More images than are worked on at once.
TEST(Roar, PiecesMakeNoDifference) {
  const Dataset data = labelled(70, false);
  const at::Tensor order = pixel_order(model(), data, {}).places, later = order.slice(0, 64, 70);
  EXPECT_EQ(order.scalar_type(), at::kInt);
  Dataset last = data;
  last.images = data.images.slice(0, 64, 70).contiguous();
  last.labels = data.labels.slice(0, 64, 70).contiguous();
  EXPECT_TRUE(pixel_order(model(), last, {}).places.equal(later));
  const PixelFill fill("mean", data);
  const Dataset rest = fill.without(data, order, 0.5);
  EXPECT_TRUE(rest.images.slice(0, 64, 70).equal(fill.without(last, later, 0.5).images));
  EXPECT_TRUE(rest.labels.equal(data.labels));
}

// The model with every weight of its last layer set to a value.
Graph with_head(float value) {
  Graph graph = model();
  const std::string head = graph.nodes.back().inputs.at(1);
  graph.tensors.at(head) = at::full_like(graph.tensor(head), value);
  return graph;
}

TEST(Roar, MapsThatSayNothingAreCounted) {
  const Dataset data = labelled(3, false);
  const MapCounts usual = pixel_order(model(), data, {}).counts;
  EXPECT_EQ(usual.maps, 3);
  EXPECT_EQ(usual.nan, 0);
  const RoarData of{data, data, {}};
  const MapCounts zero = ranking_by(with_head(0), of, {}).counts, nan = ranking_by(with_head(NAN), of, {}).counts;
  EXPECT_EQ(zero.maps, 6);
  EXPECT_EQ(zero.zero, 6);
  EXPECT_EQ(nan.nan, 6);
  EXPECT_EQ(nan.zero, 0);
}

TEST(Roar, HolesAreFilledFromAroundThem) {
  // A plane of one colour stays one, whatever is removed of it; a ramp stays near itself.
  at::Tensor kept = at::ones({1, 9, 13}, at::kBool);
  kept.slice(1, 2, 6).slice(2, 3, 8) = false;
  const at::Tensor plane = at::full({1, 2, 9, 13}, 7.0f);
  EXPECT_LT((filled_from_neighbours(plane, kept) - plane).abs().max().item<float>(), 1e-4);
  const at::Tensor ramp = at::arange(13, at::kFloat).expand({1, 1, 9, 13}).contiguous();
  const at::Tensor filled = filled_from_neighbours(ramp, kept);
  EXPECT_LT((filled - ramp).abs().max().item<float>(), 3);
  EXPECT_TRUE(at::where(kept.unsqueeze(1), filled, ramp).equal(ramp));
  EXPECT_TRUE(filled_from_neighbours(ramp, at::zeros_like(kept)).eq(0).all().item<bool>());
}

TEST(Roar, FilledHolesAreAsNoisyAsTheImages) {
  Dataset data = labelled(6, false);
  at::manual_seed(5);
  data.images = (100 + 10 * at::randn({6, 3, 16, 16})).clamp(0, 255).to(at::kByte);
  const PixelFill fill("neighbours", data);
  const at::Tensor order = random_pixel_order(data, 16, 16, 1);
  const Dataset rest = fill.without(data, order, 0.5);
  const at::Tensor changed = rest.images.ne(data.images);
  EXPECT_NEAR(changed.to(at::kDouble).mean().item<double>(), 0.5, 0.05);
  const at::Tensor values = rest.images.masked_select(changed).to(at::kDouble);
  EXPECT_NEAR(values.mean().item<double>(), 99.5, 1.5);
  EXPECT_GT(values.std().item<double>(), 8);
  EXPECT_LT(values.std().item<double>(), 16);
  EXPECT_TRUE(rest.images.equal(fill.without(data, order, 0.5).images));
}

TEST(Roar, RandomMapsRemovePatchesAndRandomPixelsRemovePixels) {
  const Dataset data = labelled(3, false);
  // Neighbouring pixels of the first tenth: how many of the pixels right of a removed one are removed too.
  const auto joined = [&](const at::Tensor& order) {
    at::Tensor removed = at::zeros({3, 256}, at::kBool);
    removed.scatter_(1, order.narrow(1, 0, 26).to(at::kLong), true);
    const at::Tensor grid = removed.view({3, 16, 16});
    return (grid.slice(2, 0, 15) & grid.slice(2, 1, 16)).sum().item<int64_t>();
  };
  RoarOptions options;
  const PixelRanking maps = random_ranking(model(), {data, data, {}}, options);
  options.random = "pixels";
  const PixelRanking pixels = random_ranking(model(), {data, data, {}}, options);
  EXPECT_GT(joined(maps.train), 3 * joined(pixels.train));
  EXPECT_NE(maps.estimator, pixels.estimator);
  EXPECT_FALSE(maps.train.equal(maps.test));
  EXPECT_TRUE(std::get<0>(maps.train[0].sort()).equal(at::arange(256, at::kInt)));
  EXPECT_TRUE(maps.train.equal(random_ranking(model(), {data, data, {}}, {}).train));
}

Graph classifier(uint64_t seed) { return build("vgg9", {.width = 0.125, .classes = 3, .input = {3, 16, 16}}, seed); }

// Of the one run of a curve with a single level.
std::string definition(const Dataset& data, const AttributionOptions& attribution) {
  std::string found;
  const Trainer trainer = [&](const Graph& graph, const Dataset&, const TrainingOptions&, const TrainingJob& job) {
    found = job.definition;
    return TrainingOutcome{.graph = graph};
  };
  const RoarOptions options{.attribution = attribution, .levels = {0.5}};
  const RoarData of{data, data, classifier};
  roar_curve("maps", {ranking_by(model(), of, options)}, of, options, trainer);
  return found;
}

// A run that is done is found again by its definition: what makes another ranking has to make another one.
TEST(Roar, WhatMakesARankingIsInTheDefinition) {
  const Dataset data = labelled(3, false);
  const std::vector<AttributionOptions> all = {{.method = "lrp"},
                                               {.method = "lrp", .lrp = "zero"},
                                               {.method = "lrp", .lrp = "epsilon"},
                                               {.method = "ig", .steps = 2},
                                               {.method = "ig", .steps = 3},
                                               {.method = "smoothgrad", .samples = 2},
                                               {.method = "smoothgrad", .samples = 3},
                                               {.method = "smoothgrad", .samples = 2, .noise = 0.3},
                                               {.method = "smoothgrad", .samples = 2, .seed = 1}};
  std::set<std::string> definitions;
  for (const auto& options : all) definitions.insert(definition(data, options));
  EXPECT_EQ(definitions.size(), all.size());
  EXPECT_EQ(definition(data, {}), definition(data, {.seed = 1})) << "Grad-CAM draws nothing";
  RoarOptions zero, one;
  one.training.train.seed = 1;
  EXPECT_NE(random_ranking(model(), {data, data, {}}, zero).estimator,
            random_ranking(model(), {data, data, {}}, one).estimator);
}

TEST(Roar, HasACurveForEachModelAndARandomOne) {
  const Dataset data = labelled(9, false);
  int64_t trainings = 0;
  const Trainer trainer = [&](const Graph& graph, const Dataset& images, const TrainingOptions& options, TrainingJob) {
    ++trainings;
    return TrainingOutcome{.graph = train(graph, images, options.train).last};
  };
  RoarOptions options{.levels = {0.2, 0.8}, .seeds = 2};
  options.training.train.epochs = 1;
  const RoarResult result = roar({{"one", model()}}, {data, data, classifier}, options, trainer);
  EXPECT_EQ(trainings, 2 * (1 + 2 * 2));
  ASSERT_EQ(result.curves.size(), 2u);
  EXPECT_EQ(result.curves[1].name, "random");
  EXPECT_EQ(result.curves[0].means("top1").size(), 2u);
  const RoarPoint& point = result.curves[0].points.at(1);
  ASSERT_EQ(point.size(), 2u);
  const double one = metric_of(point[0], "loss"), other = metric_of(point[1], "loss");
  EXPECT_NE(one, other);
  EXPECT_NEAR(result.curves[0].means("loss").at(1), (one + other) / 2, 1e-12);
  EXPECT_NEAR(result.curves[0].figures("loss").at(1).error, std::abs(one - other) / 2, 1e-12);
  EXPECT_EQ(means_of(point).at(2), std::pair(std::string("loss"), (one + other) / 2));
  const PixelRanking ranking = ranking_by(model(), {data, data, classifier}, options);
  EXPECT_THROW(roar_curve("three", {ranking, ranking, ranking}, {data, data, classifier}, options, trainer), Error);
  options.levels = {1.5};
  EXPECT_THROW(roar({{"one", model()}}, {data, data, classifier}, options, trainer), Error);
  options.levels = {0.5};
  trainings = 0;
  const Graph narrow = build("vgg9-bn", {.width = 0.25, .classes = 2, .input = {3, 16, 16}}, 4);
  const Graph large = build("vgg9-bn", {.width = 0.25, .classes = 3, .input = {3, 32, 32}}, 4);
  const Graph flat = build("lenet-300-100", {.classes = 3, .input = {3, 16, 16}}, 4);
  for (const Graph& odd : {narrow, large, flat}) try {
      roar({{"one", model()}, {"odd", odd}}, {data, data, classifier}, options, trainer);
      ADD_FAILURE() << "it does not fit";
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "odd") << error.what();
    }
  EXPECT_EQ(trainings, 0) << "found out before";
}

}  // namespace
}  // namespace pare
