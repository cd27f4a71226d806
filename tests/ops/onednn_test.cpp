#include "pare/ops/onednn.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pare {
namespace {

TEST(OneDnn, TransposedProductIsThatOfATen) {
  at::manual_seed(1);
  const at::Tensor wide = at::randn({50, 40}), other = at::randn({50, 7});
  const auto expect_same = [](const at::Tensor& x, const at::Tensor& y) {
    const at::Tensor own = transposed_product(x, y), expected = at::mm(x.t(), y);
    ASSERT_EQ(own.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(own, expected, 1e-5, 1e-5));
  };
  expect_same(wide, other);
  expect_same(wide.narrow(1, 3, 11), wide.slice(1, 5));                       // parts of longer rows
  expect_same(at::randn({40, 50}).t(), other);                                // columns that lie together
  expect_same(wide.narrow(0, 2, 1), other.narrow(0, 2, 1));                   // one row
  expect_same(at::ones({1}).expand({50, 3}), other);                          // rows of no memory
  expect_same(wide.narrow(0, 0, 0), other.narrow(0, 0, 0));                   // none
  expect_same(at::randn({1}).as_strided({1, 1}, {0, 1}), at::randn({1, 1}));  // a stride of nothing
}

}  // namespace
}  // namespace pare
