#include "pare/workflow/drift.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/explain.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Dataset some_images(int64_t count) {
  at::manual_seed(3);
  Dataset data{.name = "noise", .classes = {"a", "b"}, .mean = {0.5}, .std = {0.25}, .split = "test"};
  data.images = at::randint(256, {count, 3, 32, 32}, at::kByte);
  data.labels = at::zeros({count}, at::kLong);
  check_dataset(data);
  return data;
}

TEST(Drift, OfAModelToItselfIsNone) {
  const Graph model = build("resnet20", {.width = 0.25}, 1);
  const AttributionDrift drift = attribution_drift(model, model, some_images(40));
  EXPECT_NEAR(drift.cosine.mean(), 1, 1e-6);
  EXPECT_NEAR(drift.rank_correlation.mean(), 1, 1e-6);
  EXPECT_EQ(drift.cosine.counted + drift.cosine.undefined, 40);
}

TEST(Drift, IsTheMeanOfOneImageAtATime) {
  const Graph a = build("resnet20", {.width = 0.25}, 1), b = build("resnet20", {.width = 0.5}, 2);
  const Dataset data = some_images(5);
  const Attributor before(a, {}), after(b, {});
  DefinedMean cosine, correlation;
  for (int64_t n = 0; n < 5; ++n) {
    const at::Tensor image = make_batch(data, n, n + 1).images;
    const Attribution theirs = before.explain(image);
    const at::Tensor own = after.explain(image, {}, theirs.classes).maps[0];
    cosine.add(map_cosine(theirs.maps[0], own));
    correlation.add(map_rank_correlation(theirs.maps[0], own));
  }
  const AttributionDrift drift = attribution_drift(a, b, data);
  EXPECT_NEAR(drift.cosine.mean(), cosine.mean(), 1e-5);
  EXPECT_NEAR(drift.rank_correlation.mean(), correlation.mean(), 1e-3);
}

TEST(Drift, NeedsALayerWithExtent) {
  EXPECT_THROW(check_drift(build("lenet-300-100")), Error);
  EXPECT_NO_THROW(check_drift(build("lenet-5")));
}

// The compressed model as well: found out after a training it would be late.
TEST(Drift, NeedsALayerWithExtentOfBoth) {
  const Graph original = build("vgg9", {.width = 0.25, .classes = 2, .input = {3, 32, 32}}, 1);
  const Graph flat = build("lenet-300-100", {.classes = 2, .input = {3, 32, 32}}, 1);
  try {
    attribution_drift(original, flat, some_images(1));
    FAIL() << "a model without maps";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "`attribution-drift`") << error.what();
  }
}

TEST(Drift, MapsOfTwoSizesAreComparedAtTheSizeOfTheImages) {
  at::manual_seed(1);
  const at::Tensor a = at::rand({2, 7, 7}), b = at::rand({2, 14, 14});
  const auto found = map_similarity(a, b, 56, 56);
  ASSERT_EQ(found.size(), 2u);
  const at::Tensor large_a = resize_maps(a, 56, 56), large_b = resize_maps(b, 56, 56);
  for (int64_t p = 0; p < 2; ++p) {
    EXPECT_EQ(found[static_cast<size_t>(p)].cosine, map_cosine(large_a[p], large_b[p]));
    EXPECT_EQ(found[static_cast<size_t>(p)].rank_correlation, map_rank_correlation(large_a[p], large_b[p]));
    EXPECT_EQ(map_similarity(a, a.flip(2), 56, 56)[static_cast<size_t>(p)].cosine, map_cosine(a[p], a.flip(2)[p]));
  }
}

TEST(Drift, AllZeroMapsAreCounted) {
  Graph dead = build("vgg9", {.width = 0.25, .classes = 2, .input = {3, 32, 32}}, 1);
  for (const char* name : {"features.16.weight", "features.16.bias"})
    dead.tensors.at(name) = at::zeros_like(dead.tensor(name));
  const AttributionDrift drift =
      attribution_drift(build("vgg9", {.width = 0.25, .classes = 2, .input = {3, 32, 32}}, 1), dead, some_images(3));
  EXPECT_EQ(drift.counts.zero, 3);
  EXPECT_EQ(drift.cosine.sum, 0);
}

}  // namespace
}  // namespace pare
