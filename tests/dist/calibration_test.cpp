// Statistics of images that ranks share: what they make of their parts together is what one makes of all of them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "dist/on_ranks.h"
#include "pare/calibrate/moments.h"
#include "pare/compensate/compensate.h"
#include "pare/error.h"
#include "pare/fuse/fuse.h"
#include "pare/layerwise/row_moments.h"
#include "pare/prune/subset.h"
#include "pare/zoo/zoo.h"

namespace pare {
namespace {

Graph small_network(uint64_t seed) {
  Graph graph = build("convnet-bn", {.width = 0.25, .input = {1, 28, 28}}, seed);
  for (auto& [name, tensor] : graph.tensors)  // sums in another order must not show
    if (tensor.is_floating_point()) tensor = tensor.to(at::kDouble);
  for (auto& input : graph.inputs) input.dtype = at::kDouble;
  for (auto& output : graph.outputs) output.dtype = at::kDouble;
  return graph;
}

std::vector<at::Tensor> some_images(int64_t count) {
  at::manual_seed(5);
  return {at::randn({count, 1, 28, 28}, at::kDouble)};
}

double largest_difference(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.tensors.size(), b.tensors.size());
  double largest = 0;
  for (const auto& [name, tensor] : a.tensors)
    if (tensor.is_floating_point() && tensor.numel() > 0)
      largest = std::max(largest, (tensor - b.tensors.at(name)).abs().max().item<double>());
  return largest;
}

TEST(CalibrationOverRanks, MomentsAreThoseOfAllRows) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({50, 6}, at::kDouble) + 3;
  const at::Tensor y = at::randn({50, 4}, at::kDouble);
  const RowMoments alone = row_moments(x, y);
  on_ranks(3, [&](ProcessGroup& ranks) {
    const auto own = own_part({x, y}, ranks);
    const RowMoments moments = over_ranks(row_moments(own[0], own[1]), ranks);
    ChannelMoments channels;
    channels.add(own[0]);
    channels.sum_over(ranks);
    EXPECT_EQ(moments.count, 50);
    EXPECT_TRUE(at::allclose(moments.covariance_xx(), alone.covariance_xx(), 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(moments.covariance_xy(), alone.covariance_xy(), 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(moments.mean_y, y.mean(0), 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(channels.variance(), x.var(0, /*unbiased=*/false), 1e-10, 1e-10));
  });
}

// Ranks whose parts have other means, far from zero, and one that has nothing to add.
TEST(CalibrationOverRanks, MomentsOfPartsThatDiffer) {
  at::manual_seed(3);
  const at::Tensor x = at::cat({at::randn({30, 3}) + 1800, at::randn({50, 3}) + 1810});
  const at::Tensor y = x.narrow(1, 0, 2) * 0.5 + at::randn({80, 2});
  const auto centred = [](const at::Tensor& t) { return t.to(at::kDouble) - t.to(at::kDouble).mean(0); };
  const at::Tensor xx = at::mm(centred(x).t(), centred(x)) / 80;
  const at::Tensor xy = at::mm(centred(x).t(), centred(y)) / 80;
  on_ranks(3, [&](ProcessGroup& ranks) {
    const int64_t begin = ranks.rank() == 0 ? 0 : 30;
    const int64_t count = ranks.rank() == 0 ? 30 : ranks.rank() == 1 ? 50 : 0;
    const at::Tensor own = x.narrow(0, begin, count);
    const RowMoments moments = over_ranks(row_moments(own, y.narrow(0, begin, count)), ranks);
    ChannelMoments channels;
    channels.add(own);
    channels.sum_over(ranks);
    EXPECT_EQ(moments.count, 80);
    EXPECT_TRUE(at::allclose(moments.mean_x, x.to(at::kDouble).mean(0), 1e-12));
    EXPECT_TRUE(at::allclose(moments.covariance_xx(), xx, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(moments.covariance_xy(), xy, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(moments.mean_y, y.to(at::kDouble).mean(0), 1e-12));
    EXPECT_TRUE(at::allclose(channels.variance(), xx.diagonal(), 1e-9, 1e-9));
  });
}

TEST(CalibrationOverRanks, EveryImageBelongsToOneRank) {
  const std::vector<at::Tensor> images = {at::arange(7)};
  on_ranks(3, [&](ProcessGroup& ranks) {
    const at::Tensor own = own_part(images, ranks)[0];
    const at::Tensor hits = at::zeros({7}, at::kLong).index_fill(0, own, 1);
    ranks.sum(hits);
    EXPECT_TRUE(hits.eq(1).all().item<bool>());
  });
  EXPECT_THROW(on_ranks(2, [&](ProcessGroup& ranks) { own_part({at::arange(1)}, ranks); }), Error);
}

class OneOfRanks : public Observer {
 public:
  explicit OneOfRanks(ProcessGroup& ranks) : ranks_(ranks) {}
  ProcessGroup& ranks() override { return ranks_; }

 private:
  ProcessGroup& ranks_;
};

TEST(CalibrationOverRanks, CompensationIsThatOfOneRank) {
  const Graph graph = small_network(1);
  const ChannelMap map = analyze_channels(graph, {});
  std::set<ChannelId> removed;
  for (const auto& group : map.groups)
    if (group.prunable())
      for (size_t i = 0; i < group.channels.size(); i += 2) removed.insert(group.channels[i]);
  ASSERT_FALSE(removed.empty());
  const auto images = some_images(9);
  const Compensation& method = find_compensation("calibrated");
  CompensateOptions options;
  options.refit.side_by_side.piece = 1;
  options.refit.read.checked = 0;  // which samples choose the ridge depends on who has them
  Observer nobody;
  const auto cuts = cuts_of(map, removed);
  const Graph alone_graph = compensate(graph, map, cuts, method, options, samples_of(images), nobody).graph;
  const auto alone_moments = reader_moments(graph, map, samples_of(images));
  on_ranks(2, [&](ProcessGroup& ranks) {
    const auto own = own_part(images, ranks);
    OneOfRanks observer(ranks);
    const Graph shared = compensate(graph, map, cuts, method, options, samples_of(own), observer).graph;
    EXPECT_LT(largest_difference(shared, alone_graph), 1e-9);
    const auto moments = reader_moments(graph, map, samples_of(own), observer);
    ASSERT_EQ(moments.size(), alone_moments.size());
    for (const auto& [group, readers] : moments)
      EXPECT_TRUE(at::allclose(readers[0].covariance, alone_moments.at(group)[0].covariance, 1e-9, 1e-12));
  });
}

TEST(CalibrationOverRanks, FusionIsThatOfOneRank) {
  const std::vector<Graph> models = {small_network(1), small_network(2)};
  const auto images = some_images(9);
  for (const auto repair : {FusionRepair::rescale, FusionRepair::regression}) {
    FuseOptions options;
    options.align = AlignBy::activations;
    options.repair = repair;
    const bool regression = options.repair == FusionRepair::regression;
    if (regression)
      options.inputs = 9;  // the samples and nothing between them, which each rank would draw from its own
    const Graph expected = fuse(models, options, images).fused;
    on_ranks(2, [&](ProcessGroup& ranks) {
      FuseOptions own = options;
      if (regression) own.inputs = 8;
      OneOfRanks observer(ranks);
      EXPECT_LT(largest_difference(fuse(models, own, own_part(images, ranks), observer).fused, expected), 1e-8)
          << name_of(repair);
    });
  }
}

}  // namespace
}  // namespace pare
