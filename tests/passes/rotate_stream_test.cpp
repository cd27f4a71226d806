// A rotated network computes what it computed, and then its streams may be cut: removed is masked.
#include "pare/passes/rotate_stream.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/layerwise/stream_basis.h"
#include "pare/passes/fuse_layer_norms.h"
#include "pare/passes/simplify.h"
#include "pare/run.h"
#include "pare/workflow/rotate.h"
#include "pare/zoo/zoo.h"
#include "passes/removed_is_masked.h"
#include "support/builder.h"

namespace pare {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kPlaces = 6, kStream = 8;

at::Tensor random_basis(int64_t width) { return std::get<0>(at::linalg_qr(at::randn({width, width}, at::kDouble))); }

std::string layer_norm(TestGraph& g, const std::string& x, int64_t width = kStream) {
  return g.node("LayerNormalization", {x, g.positive({width}), g.random({width})}, {{"epsilon", 1e-3}});
}

std::string rms_norm(TestGraph& g, const std::string& x) {
  return g.node("RMSNormalization", {x, g.positive({kStream})}, {{"epsilon", 1e-3}});
}

std::string mlp(TestGraph& g, const std::string& x) {
  return g.projected(g.node("Gelu", {g.projected(x, kStream, 12)}), 12, kStream);
}

// Rotates whatever can be, each by a random basis; how many.
int expect_same_when_rotated(Graph graph) {
  const at::NoGradGuard no_grad;
  graph = cast(graph, at::kDouble);
  const auto inputs = random_inputs(graph, 2, 7);
  const at::Tensor expected = forward(graph, inputs).outputs[0];
  const auto expect_same = [&](const std::string& what) {
    const at::Tensor found = forward(graph, inputs).outputs[0];
    EXPECT_LE((found - expected).abs().max().item<double>(), 1e-10 * std::max(1.0, expected.abs().max().item<double>()))
        << what;
  };
  graph = part_first_norms(fuse_layer_norms(graph));
  expect_same("norms parted");
  const size_t count = find_streams(graph).all.size();
  int rotated = 0;
  for (size_t i = 0; i < count; ++i) {
    const Streams streams = find_streams(graph);
    const Stream& stream = streams.all.at(i);
    if (!stream.reason.empty()) continue;
    graph = rotate_stream(graph, streams, stream, random_basis(stream.width()));
    verify(graph);
    expect_same(fmt::format("{}: {} norms, {} writers, {} readers", stream.name, stream.norms.size(),
                            stream.writers.size(), stream.readers.size()));
    ++rotated;
  }
  const ChannelMap map = analyze_channels(graph);
  for (const Stream& stream : find_streams(graph).all)
    if (stream.reason.empty()) EXPECT_EQ(reason_of(graph, stream.name), "prunable");
  expect_removed_equals_masked(graph);
  expect_removed_equals_masked(graph, ChannelUse::dimensions);
  return rotated;
}

std::string reason(const Graph& graph) {
  const Streams streams = find_streams(graph);
  return streams.all.empty() ? "none" : streams.all.front().reason;
}

TEST(RotateStream, VisionTransformer) {
  EXPECT_EQ(expect_same_when_rotated(simplify(build("vit-tiny", {.width = 0.25}, 3))), 1);
}

TEST(RotateStream, UnderLayerNorms) {
  TestGraph g;
  auto x = g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream);
  x = g.node("Add", {x, g.random({1, kPlaces, kStream})});
  for (int i = 0; i < 2; ++i) x = g.node("Add", {x, mlp(g, layer_norm(g, x))});
  const auto first = g.node("Gather", {layer_norm(g, x), g.tensor(at::zeros({}, at::kLong))}, {{"axis", int64_t{1}}});
  EXPECT_EQ(expect_same_when_rotated(g.finish(g.linear(first, kStream, 3))), 1);
}

TEST(RotateStream, UnderRmsNormsWithAGatedMlp) {
  TestGraph g;
  auto x = g.node("Gather", {g.random({20, kStream}), g.tensor(at::arange(kPlaces, at::kLong).reshape({1, kPlaces}))});
  x = g.node("Add", {x, g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream)});
  for (int i = 0; i < 2; ++i) {
    const auto y = rms_norm(g, x);
    const auto gate = g.projected(y, kStream, 10);
    const auto inner = g.node("Mul", {g.node("Mul", {gate, g.node("Sigmoid", {gate})}), g.projected(y, kStream, 10)});
    x = g.node("Add", {x, g.node("MatMul", {inner, g.random({10, kStream})})});
  }
  EXPECT_EQ(expect_same_when_rotated(g.finish(g.node("MatMul", {rms_norm(g, x), g.random({kStream, 3})}))), 1);
}

// Patches, a norm that begins the stream, then two stages whose tokens are merged four by four, as in Swin. A layer
// norm of four tokens subtracts the mean of all, which no channel of one could do: that stream stays.
TEST(RotateStream, StagesThatMergeTokens) {
  for (const bool centred : {true, false}) {
    TestGraph g;
    const auto norm = [&](const std::string& x, int64_t width = kStream) {
      return centred ? layer_norm(g, x, width)
                     : g.node("RMSNormalization", {x, g.positive({width})}, {{"epsilon", 1e-3}});
    };
    auto x = g.node("Conv", {g.input("x", {-1, 3, 8, 8}), g.random({kStream, 3, 2, 2}), g.random({kStream})},
                    {{"strides", Ints{2, 2}}});
    x = norm(g.node("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}}));
    x = g.node("Add", {x, mlp(g, norm(x))});
    std::vector<std::string> parts;
    for (const int64_t row : {0, 1})
      for (const int64_t column : {0, 1})
        parts.push_back(g.node(
            "Slice", {x, g.integers({row, column}), g.integers({4, 4}), g.integers({1, 2}), g.integers({2, 2})}));
    x = norm(g.node("Concat", parts, {{"axis", int64_t{-1}}}), 4 * kStream);
    x = g.node("MatMul", {x, g.random({4 * kStream, kStream})});
    x = g.node("Add", {x, mlp(g, norm(x))});
    x = g.node("ReduceMean", {norm(x), g.integers({1, 2})}, {{"keepdims", int64_t{0}}});
    EXPECT_EQ(expect_same_when_rotated(g.finish(g.linear(x, kStream, 3))), centred ? 2 : 3);
  }
}

TEST(RotateStream, NormsThatAreWrittenOut) {
  TestGraph g;
  const auto written = [&](const std::string& x) {
    const auto d = g.node("Sub", {x, g.node("ReduceMean", {x, g.integers({-1})})});
    const auto v = g.node("ReduceMean", {g.node("Pow", {d, g.number(2)}), g.integers({-1})});
    const auto y = g.node("Div", {d, g.node("Sqrt", {g.node("Add", {v, g.number(1e-3)})})});
    return g.node("Add", {g.node("Mul", {y, g.positive({kStream})}), g.random({kStream})});
  };
  auto x = g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream);
  x = g.node("Add", {x, mlp(g, written(x))});
  const Graph graph = g.finish(g.node("MatMul", {written(x), g.random({kStream, 3})}));
  const Graph fused = fuse_layer_norms(graph);
  EXPECT_LT(fused.nodes.size(), graph.nodes.size() - 10);
  const auto inputs = random_inputs(graph, 2, 3);
  EXPECT_TRUE(forward(fused, inputs).outputs[0].allclose(forward(graph, inputs).outputs[0], 1e-12, 1e-12));
  EXPECT_EQ(expect_same_when_rotated(graph), 1);
}

TEST(RotateStream, SaysWhatCannotBe) {
  {
    TestGraph g;  // norms after the sum
    auto x = g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream);
    x = layer_norm(g, g.node("Add", {x, mlp(g, x)}));
    x = layer_norm(g, g.node("Add", {x, mlp(g, x)}));
    EXPECT_NE(reason(g.finish(g.node("MatMul", {x, g.random({kStream, 3})}))).find("sum"), std::string::npos);
  }
  {
    TestGraph g;  // a number for each channel
    auto x = g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream);
    x = g.node("Add", {x, g.node("Mul", {mlp(g, layer_norm(g, x)), g.random({kStream})})});
    const auto why = reason(g.finish(g.node("MatMul", {layer_norm(g, x), g.random({kStream, 3})})));
    EXPECT_NE(why.find("one by one"), std::string::npos) << why;
  }
  {
    TestGraph g;  // read without the norm
    auto x = g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream);
    x = g.node("Add", {x, mlp(g, layer_norm(g, x))});
    const auto why = reason(g.finish(g.node("MatMul", {x, g.random({kStream, 3})})));
    EXPECT_NE(why.find("without the norm"), std::string::npos) << why;
  }
  {
    TestGraph g;  // an output of the network
    auto x = g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream);
    x = g.node("Add", {x, mlp(g, layer_norm(g, x))});
    EXPECT_NE(reason(g.finish(x)).find("output"), std::string::npos);
  }
}

// The basis: eigenvectors of what norms see, against a slow sum over samples and tokens.
TEST(StreamBasis, IsOfPrincipalComponents) {
  const at::NoGradGuard no_grad;
  TestGraph g;
  auto x = g.projected(g.input("x", {-1, kPlaces, 5}), 5, kStream);
  const auto before = x;
  x = g.node("Add", {x, mlp(g, layer_norm(g, x))});
  const Graph graph = g.finish(g.node("MatMul", {layer_norm(g, x), g.random({kStream, 3})}));
  const Streams streams = find_streams(graph);
  ASSERT_EQ(streams.all.size(), 1U);
  const at::Tensor inputs = at::randn({9, kPlaces, 5}, at::kDouble);
  const auto bases = stream_bases(graph, streams, samples_of({inputs}), unobserved());
  at::Tensor energy = at::zeros({kStream, kStream}, at::kDouble);
  RunOptions run;
  run.taps = {before, x};
  const auto tapped = forward(graph, {{inputs}}, run).tapped;
  for (const std::string& value : {before, x})
    for (const at::Tensor& row : tapped.at(value).reshape({-1, kStream}).unbind(0)) {
      const at::Tensor n = (row - row.mean()) / row.std(/*unbiased=*/false);
      energy += at::outer(n, n);
    }
  const at::Tensor& q = bases[0].vectors;
  EXPECT_TRUE(at::matmul(q.t(), q).allclose(at::eye(kStream, at::kDouble), 1e-9, 1e-9));
  const at::Tensor turned = at::matmul(at::matmul(q.t(), energy), q) / energy.trace();
  EXPECT_TRUE(turned.allclose(at::diag(bases[0].parts), 1e-6, 1e-8)) << turned;
  EXPECT_TRUE((at::diff(bases[0].parts) <= 1e-12).all().item<bool>());
  EXPECT_NEAR(bases[0].parts[kStream - 1].item<double>(), 0, 1e-9);  // the mean, which the norms subtract
}

}  // namespace
}  // namespace pare
