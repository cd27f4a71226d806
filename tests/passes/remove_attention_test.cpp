// Removed is masked, in attention as it is spelled: whole heads (removal), and as many dimensions of every head
// (dimensions), which are pairs of queries with keys and of values with what is read of them.
#include "passes/removed_is_masked.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kTokens = 5, kWidth = 6, kHeads = 4, kSize = 4, kInner = kHeads * kSize;

struct Removable {
  size_t heads = 0, dimensions = 0;
};

Removable expect_both(const Graph& graph) {
  const Outcome heads = expect_removed_equals_masked(graph, ChannelUse::removal);
  const Outcome dimensions = expect_removed_equals_masked(graph, ChannelUse::dimensions);
  return {heads.removable, dimensions.removable};
}

std::string index(TestGraph& g, int64_t value) { return g.tensor(at::scalar_tensor(value, at::kLong)); }

// [N, length, heads · size] as [N, heads, length, size]
std::string in_heads(TestGraph& g, const std::string& x, int64_t heads, int64_t size = kSize) {
  return g.node("Transpose", {g.node("Reshape", {x, g.integers({0, kTokens, heads, size})})},
                {{"perm", Ints{0, 2, 1, 3}}});
}

struct Spelling {
  bool scores_bias = false;  // one for each head, as relative positions have it
};

// softmax(q kᵀ + bias) v, and the heads beside each other.
std::string attended(TestGraph& g, const std::string& q, const std::string& k, const std::string& v, int64_t heads,
                     Spelling spelling = {}, int64_t size = kSize) {
  auto scores = g.node("MatMul", {q, g.node("Transpose", {k}, {{"perm", Ints{0, 1, 3, 2}}})});
  scores = g.node("Mul", {scores, g.number(0.5)});
  if (spelling.scores_bias) scores = g.node("Add", {scores, g.random({1, heads, kTokens, kTokens})});
  auto y = g.node("MatMul", {g.node("Softmax", {scores}, {{"axis", int64_t{-1}}}), v});
  y = g.node("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
  return g.node("Reshape", {y, g.integers({0, kTokens, heads * size})});
}

std::string head(TestGraph& g, const std::string& x) { return g.node("MatMul", {x, g.random({kInner, 3})}); }

TEST(RemoveAttention, SplitProjections) {
  for (const bool bias : {false, true}) {
    TestGraph g;
    const auto x = g.input("x", {-1, kTokens, kWidth});
    const auto q = in_heads(g, g.projected(x, kWidth, kInner), kHeads),
               k = in_heads(g, g.projected(x, kWidth, kInner), kHeads),
               v = in_heads(g, g.projected(x, kWidth, kInner), kHeads);
    const auto found = expect_both(g.finish(head(g, attended(g, q, k, v, kHeads, {bias}))));
    EXPECT_EQ(found.heads, 4);
    EXPECT_EQ(found.dimensions, 2 * kSize);
  }
}

TEST(RemoveAttention, MergedProjectionThatIsSplit) {
  TestGraph g;
  const auto x = g.projected(g.input("x", {-1, kTokens, kWidth}), kWidth, 3 * kInner);
  const auto parts = g.node("Split", {x, g.integers({kInner, kInner, kInner})}, {{"axis", int64_t{2}}}, 3);
  const auto found =
      expect_both(g.finish(head(g, attended(g, in_heads(g, parts[0], kHeads), in_heads(g, parts[1], kHeads),
                                            in_heads(g, parts[2], kHeads), kHeads))));
  EXPECT_EQ(found.heads, 4);
  EXPECT_EQ(found.dimensions, 2 * kSize);
}

// Queries, keys and values share the axis of dimensions: one of each goes.
TEST(RemoveAttention, MergedProjectionWithAnAxisOfItsOwn) {
  TestGraph g;
  auto x = g.projected(g.input("x", {-1, kTokens, kWidth}), kWidth, 3 * kInner);
  x = g.node("Reshape", {x, g.integers({-1, kTokens, 3, kHeads, kSize})});
  x = g.node("Transpose", {x}, {{"perm", Ints{2, 0, 3, 1, 4}}});
  std::vector<std::string> part;
  for (int64_t i = 0; i < 3; ++i) part.push_back(g.node("Gather", {x, index(g, i)}, {{"axis", int64_t{0}}}));
  const auto found = expect_both(g.finish(head(g, attended(g, part[0], part[1], part[2], kHeads))));
  EXPECT_EQ(found.heads, 4);
  EXPECT_EQ(found.dimensions, kSize);
}

// Two heads of keys serve two queries each, as Expand repeats them.
TEST(RemoveAttention, GroupedQueries) {
  TestGraph g;
  const auto x = g.input("x", {-1, kTokens, kWidth});
  const auto repeated = [&](std::string part) {
    part = g.node("Unsqueeze", {part, g.integers({2})});
    part = g.node("Expand", {part, g.integers({1, 2, 2, kTokens, kSize})});
    return g.node("Reshape", {part, g.integers({0, kHeads, kTokens, kSize})});
  };
  const auto q = in_heads(g, g.projected(x, kWidth, kInner), kHeads);
  const auto k = repeated(in_heads(g, g.projected(x, kWidth, kInner / 2), 2));
  const auto v = repeated(in_heads(g, g.projected(x, kWidth, kInner / 2), 2));
  const auto found = expect_both(g.finish(head(g, attended(g, q, k, v, kHeads))));
  EXPECT_EQ(found.heads, 2);
  EXPECT_EQ(found.dimensions, 2 * kSize);
}

// x cos + rotate_half(x) sin, with tables in the file: the pairs that turn go together.
TEST(RemoveAttention, RotationByTables) {
  TestGraph g;
  const auto x = g.input("x", {-1, kTokens, kWidth});
  const auto cos = g.random({1, 1, kTokens, kSize}), sin = g.random({1, 1, kTokens, kSize});
  const auto part = [&](const std::string& y, int64_t from, int64_t to) {
    return g.node("Slice", {y, g.integers({from}), g.integers({to}), g.integers({3}), g.integers({1})});
  };
  const auto turned = [&](const std::string& y) {
    const auto half =
        g.node("Concat", {g.node("Neg", {part(y, kSize / 2, kSize)}), part(y, 0, kSize / 2)}, {{"axis", int64_t{-1}}});
    return g.node("Add", {g.node("Mul", {y, cos}), g.node("Mul", {half, sin})});
  };
  const auto q = turned(in_heads(g, g.projected(x, kWidth, kInner), kHeads)),
             k = turned(in_heads(g, g.projected(x, kWidth, kInner), kHeads)),
             v = in_heads(g, g.projected(x, kWidth, kInner), kHeads);
  const auto found = expect_both(g.finish(head(g, attended(g, q, k, v, kHeads))));
  EXPECT_EQ(found.heads, 4);
  EXPECT_EQ(found.dimensions, kSize / 2 + kSize);
}

// Angles that are computed of positions know no channels: dimensions stay, with the reason, and heads go.
TEST(RemoveAttention, RotationThatIsComputed) {
  TestGraph g;
  const auto x = g.input("x", {-1, kTokens, kWidth});
  const auto angles = g.node("Mul", {g.input("places", {kTokens, 1}), g.random({1, kSize})});
  const auto turned = [&](const std::string& y) { return g.node("Mul", {y, g.node("Cos", {angles})}); };
  const auto q = turned(in_heads(g, g.projected(x, kWidth, kInner), kHeads)),
             k = turned(in_heads(g, g.projected(x, kWidth, kInner), kHeads)),
             v = in_heads(g, g.projected(x, kWidth, kInner), kHeads);
  const auto found = expect_both(g.finish(head(g, attended(g, q, k, v, kHeads))));
  EXPECT_EQ(found.heads, 4);
  EXPECT_EQ(found.dimensions, kSize);  // of values
}

TEST(RemoveAttention, NormalizedQueriesAndKeys) {
  for (const bool centred : {true, false}) {
    TestGraph g;
    const auto x = g.input("x", {-1, kTokens, kWidth});
    const auto norm = [&](const std::string& y) {
      return centred ? g.node("LayerNormalization", {y, g.positive({kSize}), g.random({kSize})})
                     : g.node("RMSNormalization", {y, g.positive({kSize})});
    };
    const auto q = norm(in_heads(g, g.projected(x, kWidth, kInner), kHeads)),
               k = norm(in_heads(g, g.projected(x, kWidth, kInner), kHeads)),
               v = in_heads(g, g.projected(x, kWidth, kInner), kHeads);
    const auto found = expect_both(g.finish(head(g, attended(g, q, k, v, kHeads))));
    EXPECT_EQ(found.heads, 4) << centred;
    EXPECT_EQ(found.dimensions, centred ? kSize : 2 * kSize);
  }
}

// Windows of a Swin transformer, with their own axis, a bias by relative places and a mask.
TEST(RemoveAttention, WindowsWithRelativePlaces) {
  TestGraph g;
  const int64_t side = 4, window = 2, count = 4;
  auto x = g.input("x", {-1, side, side, kWidth});
  x = g.node("Reshape", {x, g.integers({-1, side / window, window, side / window, window, kWidth})});
  x = g.node("Transpose", {x}, {{"perm", Ints{0, 1, 3, 2, 4, 5}}});
  x = g.projected(g.node("Reshape", {x, g.integers({-1, window * window, kWidth})}), kWidth, 3 * kInner);
  x = g.node("Reshape", {x, g.integers({-1, window * window, 3, kHeads, kSize})});
  x = g.node("Transpose", {x}, {{"perm", Ints{2, 0, 3, 1, 4}}});
  std::vector<std::string> part;
  for (int64_t i = 0; i < 3; ++i) part.push_back(g.node("Gather", {x, index(g, i)}, {{"axis", int64_t{0}}}));
  auto scores = g.node("MatMul", {part[0], g.node("Transpose", {part[1]}, {{"perm", Ints{0, 1, 3, 2}}})});
  scores = g.node("Add", {scores, g.random({1, kHeads, window * window, window * window})});
  scores = g.node("Reshape", {scores, g.integers({-1, count, kHeads, window * window, window * window})});
  scores = g.node("Add", {scores, g.random({1, count, 1, window * window, window * window})});
  scores = g.node("Reshape", {scores, g.integers({-1, kHeads, window * window, window * window})});
  auto y = g.node("MatMul", {g.node("Softmax", {scores}, {{"axis", int64_t{-1}}}), part[2]});
  y = g.node("Reshape",
             {g.node("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}}), g.integers({-1, window * window, kInner})});
  const auto found = expect_both(g.finish(head(g, y)));
  EXPECT_EQ(found.heads, 4);
  EXPECT_EQ(found.dimensions, kSize);
}

TEST(RemoveAttention, Einsum) {
  TestGraph g;
  const auto x = g.input("x", {-1, kTokens, kWidth});
  const auto einsum = [&](const std::string& equation, const std::string& a, const std::string& b) {
    return g.node("Einsum", {a, b}, {{"equation", equation}});
  };
  const auto project = [&] { return einsum("btd,dhe->bthe", x, g.random({kWidth, kHeads, kSize})); };
  const auto q = project(), k = project(), v = project();
  const auto scores = g.node("Softmax", {einsum("bqhe,bkhe->bhqk", q, k)}, {{"axis", int64_t{-1}}});
  const auto y = einsum("bhqk,bkhe->bqhe", scores, v);
  const auto found = expect_both(g.finish(einsum("bqhe,hed->bqd", y, g.random({kHeads, kSize, 3}))));
  EXPECT_EQ(found.heads, 4);
  EXPECT_EQ(found.dimensions, 2 * kSize);
}

TEST(RemoveAttention, OperatorOfOpset23) {
  for (const bool four_axes : {false, true})
    for (const bool rotary : {false, true}) {
      TestGraph g;
      const auto x = g.input("x", {-1, kTokens, kWidth});
      auto q = g.projected(x, kWidth, kInner), k = g.projected(x, kWidth, kInner / 2),
           v = g.projected(x, kWidth, kInner / 2);
      if (four_axes) q = in_heads(g, q, kHeads), k = in_heads(g, k, 2), v = in_heads(g, v, 2);
      const auto turned = [&](const std::string& y, int64_t heads) {
        std::map<std::string, Attribute> form = {{"interleaved", int64_t{four_axes}}};
        if (!four_axes) form["num_heads"] = heads;
        const int64_t rotated = four_axes ? kSize : kSize / 2;
        if (!four_axes) form["rotary_embedding_dim"] = rotated;
        return g.node("RotaryEmbedding", {y, g.random({1, kTokens, rotated / 2}), g.random({1, kTokens, rotated / 2})},
                      form);
      };
      if (rotary) q = turned(q, kHeads), k = turned(k, 2);
      std::map<std::string, Attribute> form = {{"is_causal", int64_t{1}}};
      if (!four_axes) form["q_num_heads"] = kHeads, form["kv_num_heads"] = int64_t{2};
      auto y = g.node("Attention", {q, k, v}, form);
      if (four_axes)
        y = g.node("Reshape",
                   {g.node("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}}), g.integers({0, kTokens, kInner})});
      const auto found = expect_both(g.finish(head(g, y)));
      EXPECT_EQ(found.heads, 2);
      EXPECT_EQ(found.dimensions, !rotary ? 2 * kSize : four_axes ? kSize + kSize / 2 : kSize + kSize / 2 + 1);
    }
}

TEST(RemoveAttention, OfOnnxRuntime) {
  {
    TestGraph g;
    const auto x = g.input("x", {-1, kTokens, kWidth});
    const auto y = g.node("com.microsoft.MultiHeadAttention",
                          {g.projected(x, kWidth, kInner), g.projected(x, kWidth, kInner),
                           g.projected(x, kWidth, kInner), g.random({3 * kInner})},
                          {{"num_heads", kHeads}});
    const auto found = expect_both(g.finish(head(g, y)));
    EXPECT_EQ(found.heads, 4);
    EXPECT_EQ(found.dimensions, 2 * kSize);
  }
  {
    TestGraph g;
    const auto x = g.input("x", {-1, kTokens, kWidth});
    const auto y = g.node("com.microsoft.Attention", {x, g.random({kWidth, 3 * kInner}), g.random({3 * kInner})},
                          {{"num_heads", kHeads}});
    const auto found = expect_both(g.finish(head(g, y)));
    EXPECT_EQ(found.heads, 4);
    EXPECT_EQ(found.dimensions, kSize);  // of values
  }
  {
    TestGraph g;
    const auto x = g.input("x", {-1, kTokens, kWidth});
    const auto lengths = g.tensor(at::full({2}, 4, at::kInt)), longest = g.tensor(at::full({1}, 5, at::kInt));
    const auto y = g.node("com.microsoft.GroupQueryAttention",
                          {g.projected(x, kWidth, kInner), g.projected(x, kWidth, kInner / 2),
                           g.projected(x, kWidth, kInner / 2), "", "", lengths, longest},
                          {{"num_heads", kHeads}, {"kv_num_heads", int64_t{2}}});
    const auto found = expect_both(g.finish(head(g, y)));
    EXPECT_EQ(found.heads, 2);
    EXPECT_EQ(found.dimensions, 2 * kSize);
  }
}

// Hidden units, plain and gated, and of experts that lie in one weight: a unit goes in all of them.
TEST(RemoveMlp, PlainGatedAndOfExperts) {
  TestGraph g;
  const auto x = g.input("x", {-1, kTokens, kWidth});
  auto y = g.node("MatMul", {g.node("Gelu", {g.projected(x, kWidth, 8)}), g.random({8, kWidth})});
  const auto gate = g.projected(y, kWidth, 10), up = g.projected(y, kWidth, 10);
  y = g.node("MatMul", {g.node("Mul", {g.node("Mul", {gate, g.node("Sigmoid", {gate})}), up}), g.random({10, kWidth})});
  const auto both = g.node("Split", {g.projected(y, kWidth, 14), g.integers({7, 7})}, {{"axis", int64_t{2}}}, 2);
  y = g.node("MatMul", {g.node("Mul", {g.node("Gelu", {both[0]}), both[1]}), g.random({7, kWidth})});
  auto experts = g.node("Unsqueeze", {y, g.integers({1})});
  experts = g.node("Relu", {g.node("MatMul", {experts, g.random({3, kWidth, 9})})});
  experts = g.node("MatMul", {experts, g.random({3, 9, kWidth})});
  const auto shares = g.node("Softmax", {g.node("MatMul", {y, g.random({kWidth, 3})})}, {{"axis", int64_t{-1}}});
  const auto weights = g.node("Unsqueeze", {g.node("Transpose", {shares}, {{"perm", Ints{0, 2, 1}}}), g.integers({3})});
  y = g.node("ReduceSum", {g.node("Mul", {experts, weights}), g.integers({1})}, {{"keepdims", int64_t{0}}});
  const auto found = expect_both(g.finish(y));
  EXPECT_GE(found.heads, 8 + 10 + 7 + 9);
}

// What RMS norms mix may go: it counts as zeros in the mean of the squares. What layer norms mix stays.
TEST(RemoveStream, UnderRmsNorms) {
  TestGraph g;
  auto x = g.projected(g.input("x", {-1, kTokens, kWidth}), kWidth, 8);
  for (int i = 0; i < 2; ++i) {
    const auto y = g.node("RMSNormalization", {x, g.positive({8})}, {{"epsilon", 1e-2}});
    x = g.node("Add", {x, g.node("MatMul", {g.node("Gelu", {g.projected(y, 8, 12)}), g.random({12, 8})})});
  }
  x = g.node("RMSNormalization", {x, g.positive({1})});
  EXPECT_EQ(expect_both(g.finish(g.node("MatMul", {x, g.random({8, 3})}))).heads, 8 + 2 * 12);
}

}  // namespace
}  // namespace pare
