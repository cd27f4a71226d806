// Graphs side by side give what each gives alone, whatever memory there is.
#include "pare/layerwise/side_by_side.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>

#include "pare/run.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

at::Tensor tapped(const Graph& graph, const std::vector<at::Tensor>& samples, const std::string& value) {
  RunOptions options;
  options.taps = {value};
  return forward(graph, samples, options).tapped.at(value);
}

// What the graphs give in front of a node: each original, then the compressed one.
std::vector<at::Tensor> collected(SideBySide& run, size_t node, const std::string& value, size_t originals) {
  std::vector<std::vector<at::Tensor>> parts(originals + 1);
  run.run_to<std::vector<at::Tensor>>(
      node,
      [&](const BothValues& values) {
        std::vector<at::Tensor> all;
        for (const TensorMap& before : values.before) all.push_back(before.at(value));
        all.push_back(values.after.at(value));
        return all;
      },
      [&](const std::vector<at::Tensor>& all) {
        for (size_t k = 0; k < all.size(); ++k) parts[k].push_back(all[k]);
      });
  std::vector<at::Tensor> whole;
  for (const auto& own : parts) whole.push_back(at::cat(own));
  return whole;
}

// From node to node, as the compressed graph changes on the way.
TEST(SideBySide, EachGivesWhatItGivesAlone) {
  const at::NoGradGuard no_grad;
  const std::vector<Graph> nets = {build("resnet20", {.width = 0.25}, 1), build("resnet20", {.width = 0.25}, 2)};
  const auto samples = random_inputs(nets[0], 21, 3);
  for (const size_t originals : {0, 1, 2})
    for (const int64_t memory : {int64_t{0}, int64_t{2'000'000}, int64_t{1} << 30}) {
      Graph compressed = nets[0];
      References references;
      for (size_t k = 0; k < originals; ++k) references.graphs.push_back(&nets[k]), references.shares.push_back(1);
      SideBySide run(references, compressed, samples_of(samples), {.piece = 4, .memory = memory});
      for (size_t n = 1; n < compressed.nodes.size(); ++n) {
        const Node& node = compressed.nodes[n];
        if (node.op != "Conv") continue;
        const auto found = collected(run, n, node.inputs[0], originals);
        for (size_t k = 0; k < originals; ++k)
          EXPECT_TRUE(at::allclose(found[k], tapped(nets[k], samples, node.inputs[0]), 1e-4, 1e-4)) << n;
        EXPECT_TRUE(at::allclose(found.back(), tapped(compressed, samples, node.inputs[0]), 1e-4, 1e-4)) << n;
        compressed.tensors[node.inputs[1]] = compressed.tensor(node.inputs[1]) * 0.9;
        run.note_change(n);
      }
    }
}

// What was computed for one node is gone on from at the next: samples are read again only where memory is short.
TEST(SideBySide, ReadsSamplesOnceWhereMemoryAllows) {
  const at::NoGradGuard no_grad;
  const Graph net = build("resnet20", {.width = 0.25}, 1);
  const auto inputs = random_inputs(net, 21, 3);
  for (const bool enough : {true, false}) {
    std::atomic<int> reads = 0;
    Samples samples = samples_of(inputs);
    samples.inputs = [&reads, given = samples.inputs](int64_t begin, int64_t end) {
      ++reads;
      return given(begin, end);
    };
    SideBySide run({}, net, samples, {.piece = 4, .memory = enough ? int64_t{1} << 30 : 0});
    int runs = 0;
    for (size_t n = 1; n < net.nodes.size(); ++n) {
      if (net.nodes[n].op != "Conv") continue;
      collected(run, n, net.nodes[n].inputs[0], 0);
      ++runs;
    }
    EXPECT_EQ(reads, enough ? 6 : 6 * runs);
  }
}

}  // namespace
}  // namespace pare
