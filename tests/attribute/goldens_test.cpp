// The maps that PyTorch's autograd gives (tests/data/attribute/make_goldens.py).
#include <gtest/gtest.h>

#include "attribute/nets.h"
#include "pare/io/npy.h"
#include "support/paths.h"

namespace pare {
namespace {

at::Tensor wave(const std::vector<int64_t>& shape, double phase) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return at::sin(1.3 * at::arange(count, at::kDouble) + phase).reshape(shape);
}

Graph golden_net() {
  TestGraph g;
  using Ints = std::vector<int64_t>;
  const auto conv = [&](const std::string& x, const at::Tensor& weight, const at::Tensor& bias) {
    return g.relu(g.node("Conv", {x, g.tensor(weight), g.tensor(bias)}, {{"pads", Ints{1, 1, 1, 1}}}));
  };
  std::string x = conv(g.input("x", {-1, 3, 8, 8}), wave({4, 3, 3, 3}, 0.1) / 2, wave({4}, 0.2) / 4);
  x = g.node("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  x = conv(x, wave({5, 4, 3, 3}, 0.3) / 2, wave({5}, 0.4) / 4);
  x = g.node("Flatten", {x});
  return g.finish(
      g.node("Gemm", {x, g.tensor(wave({3, 80}, 0.5) / 2), g.tensor(wave({3}, 0.6))}, {{"transB", int64_t{1}}}));
}

TEST(Goldens, MapsAreThoseOfPyTorch) {
  const Graph net = golden_net();
  const at::Tensor x = wave({2, 3, 8, 8}, 0.7) + 0.25, classes = at::tensor({2, 0}, at::kLong);
  for (const char* method : {"gradcam", "hirescam", "input-x-gradient", "gradient", "ig"}) {
    const at::Tensor expected = read_npy(golden(std::string("attribute/") + method + ".npy"));
    const at::Tensor found = Attributor(net, {.method = method, .steps = 7}).explain(x, {}, classes).maps;
    ASSERT_EQ(found.sizes(), expected.sizes()) << method;
    ASSERT_GT(largest(expected), 0) << method;
    EXPECT_LT(largest(found - expected), 1e-12 * largest(expected)) << method;
  }
}

}  // namespace
}  // namespace pare
