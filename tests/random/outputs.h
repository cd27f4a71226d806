// Outputs of a graph, and whether two of them agree.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pare {

using Outputs = std::vector<at::Tensor>;

inline void expect_near(const Outputs& found, const Outputs& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << what;
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), tolerance * scale) << what;
  }
}

}  // namespace pare
