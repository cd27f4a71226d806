#include "pare/workflow/run_store.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pare {
namespace {

// A run is found again by what it was made of: other images of the same number and size are other data.
TEST(RunStore, DataDifferByOnePixelOneLabelOrTheirNormalization) {
  const Dataset data{.name = "few",
                     .images = at::zeros({4, 1, 8, 8}, at::kByte),
                     .labels = at::zeros({4}, at::kLong),
                     .classes = {"a", "b"},
                     .mean = {0.5},
                     .std = {0.25}};
  Dataset same = data;
  same.images = data.images.clone();
  EXPECT_EQ(fingerprint(same), fingerprint(data));
  Dataset pixel = same;
  pixel.images = data.images.clone();
  pixel.images.view(-1)[100] = 1;
  EXPECT_NE(fingerprint(pixel), fingerprint(data));
  Dataset label = same;
  label.labels = data.labels.clone();
  label.labels[3] = 1;
  EXPECT_NE(fingerprint(label), fingerprint(data));
  Dataset scaled = same;
  scaled.std = {0.5};
  EXPECT_NE(fingerprint(scaled), fingerprint(data));
}

}  // namespace
}  // namespace pare
