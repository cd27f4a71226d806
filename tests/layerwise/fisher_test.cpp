// What outputs mean to the network: however the gradients are kept, the matrix is theirs.
#include "pare/layerwise/fisher.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/builder.h"

namespace pare {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Fisher, WeighedOutputsHaveItsProducts) {
  at::manual_seed(1);
  const at::Tensor W = at::randn({5, 4, 3}, at::kDouble);
  for (const int64_t rows : {1, 3, 9}) {
    const at::Tensor root = at::randn({rows, 5}, at::kDouble), F = at::mm(root.t(), root);
    const at::Tensor regular = F + 0.01 * F.diagonal().mean() * at::eye(5, at::kDouble);
    const at::Tensor weighed = weighed_by(root, W).flatten(1), plain = W.flatten(1);
    EXPECT_LT(distance(at::mm(weighed.t(), weighed), at::mm(plain.t(), at::mm(regular, plain))), 1e-10);
  }
  EXPECT_TRUE(at::equal(weighed_by(at::zeros({2, 5}, at::kDouble), W), W));
}

// Fewer gradients than outputs, and more: of one score the sign that is drawn does not matter.
TEST(Fisher, IsTheMeanOfItsImages) {
  TestGraph g(3);
  const auto x = g.input("x", {-1, 6});
  const Graph graph = g.finish(g.linear(g.relu(g.linear(x, 6, 20)), 20, 1));
  const at::Tensor few = at::randn({5, 6}, at::kDouble), many = few.repeat({8, 1});
  const auto root_of = [&](const at::Tensor& images) {
    return output_fisher(graph, {0}, samples_of({images}), {}, unobserved()).at(0);
  };
  const at::Tensor rows = root_of(few), matrix = root_of(many);
  EXPECT_EQ(rows.size(0), 5);
  EXPECT_EQ(matrix.size(0), 20);
  const at::Tensor hidden = at::addmm(graph.tensor("t1"), few, graph.tensor("t0").t());
  const at::Tensor g_rows = hidden.gt(0).to(at::kDouble) * graph.tensor("t2");
  const at::Tensor length = g_rows.norm(2, 1, true);
  const at::Tensor unit = g_rows / length.clamp_min(1e-15);
  const at::Tensor F = at::mm(unit.t(), unit) / 5 * length.square().mean();
  EXPECT_LT(distance(at::mm(rows.t(), rows), F), 1e-9);
  EXPECT_LT(distance(at::mm(matrix.t(), matrix), F), 1e-9);
}

}  // namespace
}  // namespace pare
