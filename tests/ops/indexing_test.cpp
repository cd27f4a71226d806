#include "ops/node_testing.h"

namespace pare {
namespace {

using namespace pare::testing;  // NOLINT: the vocabulary of these tests

TEST(Indexing, OutOfRangeIndicesAreErrors) {
  const auto x = distinct({3, 4});
  for (const int64_t index : {-4L, 3L, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(error_kind("Gather", {x, ints({0, index})}), "format");
    EXPECT_EQ(error_kind("GatherElements", {x, ints({index}).reshape({1, 1})}), "format");
    EXPECT_EQ(error_kind("GatherND", {x, ints({index}).reshape({1, 1})}), "format");
    EXPECT_EQ(error_kind("ScatterElements", {x, ints({index}).reshape({1, 1}), at::ones({1, 1}, at::kDouble)}),
              "format");
    EXPECT_EQ(error_kind("ScatterND", {x, ints({index}).reshape({1, 1}), at::ones({1, 4}, at::kDouble)}), "format");
  }
  EXPECT_EQ(error_kind("Compress", {x, at::ones({5}, at::kBool)}, {{"axis", integer(1)}}), "format");
  EXPECT_EQ(error_kind("ReverseSequence", {x, ints({1, 1, 1, 4})}), "format");
  EXPECT_EQ(error_kind("Gather", {x, reals({0})}), "format");
}

TEST(Indexing, BackwardsOverAnEmptyAxisIsEmpty) {
  const auto y = run("Slice", {at::ones({0, 2}), ints({-1}), ints({INT64_MIN}), ints({0}), ints({-1})})[0];
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{0, 2}));
}

TEST(Indexing, ShapesThatDoNotFitAreErrors) {
  const auto x = distinct({3, 4});
  EXPECT_EQ(error_kind("Gather", {at::ones({}), ints({0})}), "shape");
  EXPECT_EQ(error_kind("Gather", {x, ints({0})}, {{"axis", integer(2)}}), "format");
  EXPECT_EQ(error_kind("GatherElements", {x, ints({0})}), "shape");
  EXPECT_EQ(error_kind("GatherElements", {x, at::zeros({1, 5}, at::kLong)}), "shape");
  EXPECT_EQ(error_kind("GatherND", {x, at::zeros({2, 3}, at::kLong)}), "shape");
  EXPECT_EQ(error_kind("GatherND", {x, at::zeros({2, 1}, at::kLong)}, {{"batch_dims", integer(1)}}), "shape");
  EXPECT_EQ(error_kind("ScatterElements", {x, at::zeros({1, 4}, at::kLong), at::ones({1, 3}, at::kDouble)}), "shape");
  EXPECT_EQ(error_kind("ScatterND", {x, at::zeros({2, 1}, at::kLong), at::ones({2, 3}, at::kDouble)}), "shape");
  EXPECT_EQ(error_kind("ScatterND", {x, at::zeros({2, 1}, at::kLong), at::ones({2, 4}, at::kDouble)},
                       {{"reduction", text("median")}}),
            "format");
  EXPECT_EQ(error_kind("OneHot", {ints({0}), ints({-1}), ints({0, 1})}), "format");
  EXPECT_EQ(error_kind("OneHot", {ints({0}), ints({2}), ints({0})}), "shape");
  EXPECT_EQ(error_kind("Trilu", {at::ones({3})}), "shape");
  EXPECT_EQ(error_kind("EyeLike", {at::ones({3})}), "shape");
  EXPECT_EQ(error_kind("ReverseSequence", {x, ints({1, 1})}), "shape");
  EXPECT_EQ(error_kind("ReverseSequence", {x, ints({1, 1, 1})}, {{"time_axis", integer(1)}}), "format");
}

TEST(Indexing, ScatterReduces) {
  const auto x = reals({2, 2, 2}, at::kDouble);
  const Tensors operands{x, ints({0, 0, -1}), reals({3, 5, 1}, at::kDouble)};
  const std::map<std::string, Reals> expected{
      {"add", {10, 2, 3}}, {"mul", {30, 2, 2}}, {"max", {5, 2, 2}}, {"min", {2, 2, 1}}};
  for (const auto& [reduction, result] : expected) {
    SCOPED_TRACE(reduction);
    const Attributes attributes{{"reduction", reduction}};
    expect_close(run("ScatterElements", operands, attributes)[0], reals(result));
    expect_close(run("ScatterND", {x, operands[1].unsqueeze(1), operands[2]}, attributes)[0], reals(result));
  }
  EXPECT_TRUE(at::equal(x, reals({2, 2, 2}, at::kDouble)));  // the input is not written to
}

TEST(Indexing, EmptyIndicesGiveEmptyResults) {
  const auto none = at::zeros({0}, at::kLong);
  EXPECT_EQ(run("Gather", {at::ones({3, 4}), none})[0].sizes(), Ints({0, 4}));
  EXPECT_EQ(run("GatherND", {at::ones({3, 4}), at::zeros({0, 1}, at::kLong)})[0].sizes(), Ints({0, 4}));
  EXPECT_EQ(run("ScatterND", {at::ones({3, 4}), at::zeros({0, 1}, at::kLong), at::ones({0, 4})})[0].sizes(),
            Ints({3, 4}));
  EXPECT_EQ(run("NonZero", {at::zeros({3, 4})})[0].sizes(), Ints({2, 0}));
}

TEST(Indexing, OneHotLeavesOutsidersOff) {
  const auto y = run("OneHot", {ints({0, -1, 3, 7}), reals({3}), ints({5, 9})})[0];
  EXPECT_TRUE(at::equal(y, ints({9, 5, 5, 5, 5, 9, 5, 5, 5, 5, 5, 5}).reshape({4, 3})));
}

TEST(Indexing, TriluTakesAnyDiagonal) {
  const auto x = at::ones({2, 2}, at::kBool);
  EXPECT_EQ(run("Trilu", {x, ints({INT64_MAX}).reshape({})})[0].sum().item<int64_t>(), 0);
  EXPECT_EQ(run("Trilu", {x, ints({INT64_MIN}).reshape({})})[0].sum().item<int64_t>(), 4);
}

TEST(Indexing, GradientsFlow) {
  const auto x = distinct({3, 4});
  expect_gradient("Gather", {x, ints({2, 0, 2})}, 0, {{"axis", integer(1)}});
  expect_gradient("GatherElements", {x, ints({0, 3, 3}).reshape({3, 1})}, 0, {{"axis", integer(1)}});
  expect_gradient("GatherND", {x, ints({0, 1, 2, 2}).reshape({2, 2})}, 0);
  expect_gradient("Trilu", {x}, 0);
  expect_gradient("ReverseSequence", {x, ints({3, 1, 2, 0})}, 0);
  for (const char* reduction : {"none", "add", "mul", "max"})
    for (const size_t which : {0U, 2U}) {
      expect_gradient("ScatterND", {x, ints({2, 0}).reshape({2, 1}), distinct({2, 4}) + 0.31}, which,
                      {{"reduction", text(reduction)}});
      expect_gradient("ScatterElements", {x, ints({2, 0}).reshape({1, 2}), distinct({1, 2}) + 0.31}, which,
                      {{"reduction", text(reduction)}});
    }
}

TEST(GatherLabels, FollowTheIndicesAndAreRenumbered) {
  LabelRun gather("Gather", {at::ones({2, 4, 3}), ints({3, -4, 1})}, {{"axis", integer(1)}});
  gather.label(0, 1);
  gather.know(1);
  gather.run();
  EXPECT_TRUE(at::equal(gather.out_ids[0], ints({3, 0, 1}).reshape({1, 3, 1})));
  EXPECT_FALSE(gather.sets.frozen(0));
  // Channels 0 and 2 go: indices 3 and 1 become 1 and 0.
  const auto keep = at::tensor(Ints{0, 1, 0, 1}, at::kLong).to(at::kBool).reshape({1, 4, 1});
  const auto out_keep = at::tensor(Ints{1, 0, 1}, at::kLong).to(at::kBool).reshape({1, 3, 1});
  const Graph graph = rewritten(gather, keep, out_keep);
  EXPECT_TRUE(at::equal(graph.tensor(graph.nodes[0].inputs[1]), ints({1, 0})));
}

TEST(GatherLabels, OnePickedChannelStaysButMayMove) {
  LabelRun gather("Gather", {at::ones({2, 4, 3}), ints({2}).reshape({})}, {{"axis", integer(1)}});
  gather.label(0, 1);
  gather.know(1);
  gather.run();
  EXPECT_TRUE(gather.sets.frozen(2));
  EXPECT_FALSE(gather.sets.frozen(1));
  const auto keep = at::tensor(Ints{0, 1, 1, 1}, at::kLong).to(at::kBool).reshape({1, 4, 1});
  const Graph graph = rewritten(gather, keep, {});
  EXPECT_EQ(graph.tensor(graph.nodes[0].inputs[1]).item<int64_t>(), 1);
}

TEST(GatherLabels, UnknownIndicesFreezeTheirAxisOnly) {
  for (const int64_t axis : {1, 2}) {
    LabelRun gather("Gather", {at::ones({2, 4, 3}), at::zeros({2, 2}, at::kLong)}, {{"axis", integer(axis)}});
    gather.label(0, 1);
    gather.run();
    EXPECT_EQ(gather.sets.frozen(0), axis == 1);
    if (axis == 2) {
      EXPECT_EQ(gather.out_ids[0].sizes(), Ints({1, 4, 1, 1}));
    }
  }
}

TEST(GatherLabels, AnEmbeddingMakesChannels) {
  LabelRun embedding("Gather", {at::ones({10, 4}), at::zeros({2, 5}, at::kLong)});
  embedding.run(/*parameter=*/true);
  EXPECT_EQ(embedding.out_ids[0].sizes(), Ints({1, 1, 4}));
  ASSERT_EQ(embedding.slots.size(), 1U);
  EXPECT_EQ(embedding.slots[0].axis, 1);
  EXPECT_EQ(embedding.slots[0].role, SlotRole::producer);
}

}  // namespace
}  // namespace pare
