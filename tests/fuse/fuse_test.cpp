// The identities of fusion: a permuted copy is found again, weights (1, 0) return the first model, widening loses
// nothing, and what cannot be fused is refused by the name of the node.
#include "pare/fuse/fuse.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "pare/fuse/average.h"
#include "pare/fuse/repair.h"
#include "pare/passes/remove_channels.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"

namespace pare {
namespace {

// Batch norms as after training: every channel its own.
Graph with_lived_in_batch_norms(Graph graph, uint64_t seed) {
  at::manual_seed(seed);
  for (const Node& node : graph.nodes) {
    if (node.op != "BatchNormalization") continue;
    for (size_t i = 1; i <= 4; ++i) {
      at::Tensor& tensor = graph.tensors[node.inputs[i]];
      tensor = i == 1 || i == 4 ? at::rand(tensor.sizes()) + 0.5 : at::randn(tensor.sizes()) * 0.2;
    }
  }
  return graph;
}

Graph zoo_net(const std::string& arch, uint64_t seed, double width) {
  return with_lived_in_batch_norms(build(arch, {.width = width}, seed), seed);
}

// The same function with the channels of every class in another order.
Graph permuted_copy(const Graph& graph, uint64_t seed) {
  at::manual_seed(seed);
  const Network network = analyze_network(graph);
  ClassMaps maps;
  for (const ChannelClass& own : network.classes) {
    std::vector<int64_t> source;
    const at::Tensor order = own.fixed ? at::arange(own.size) : at::randperm(own.size);
    for (int64_t i = 0; i < own.size; ++i) source.push_back(order[i].item<int64_t>());
    maps.push_back(matching_map(source, own.size));
  }
  return carried_network(network, network, maps);
}

void expect_equal(const Graph& found, const Graph& expected) {
  for (const auto& [name, tensor] : expected.tensors)
    EXPECT_TRUE(at::equal(found.tensor(name), tensor)) << expected.name << " " << name;
}

double largest_difference(const Graph& a, const Graph& b) {
  const at::NoGradGuard no_grad;
  const auto inputs = random_inputs(a, 3, 5);
  const at::Tensor expected = forward(a, inputs).outputs[0];
  return ((forward(b, inputs).outputs[0] - expected).abs().max() / expected.abs().max()).item<double>();
}

class EveryArchitecture : public testing::TestWithParam<std::string> {};

TEST_P(EveryArchitecture, FindsAPermutedCopyOfItself) {
  const std::string arch = GetParam();
  const bool small = arch.find("net-") == 0 || arch.find("mlp") == 0 || arch.find("lenet") == 0 ||
                     arch.find("convnet") == 0 || arch == "resnet20";
  const Graph net = zoo_net(arch, 3, small ? 1.0 : 0.25);
  const Graph copy = permuted_copy(net, 7);
  EXPECT_LE(largest_difference(net, copy), 1e-4);
  size_t moved = 0;
  for (const auto& [name, tensor] : net.tensors) moved += at::equal(copy.tensor(name), tensor) ? 0 : 1;
  EXPECT_GT(moved, net.tensors.size() / 4);

  const FusionResult result = fuse({net, copy}, {});
  expect_equal(result.fused, net);
  expect_equal(result.aligned[1], net);
  for (const ClassAlignment& own : result.alignments[1].classes) {
    EXPECT_NEAR(own.cost, 0, 1e-12) << own.name;
    EXPECT_NEAR(own.split, 0, 1e-12) << own.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryArchitecture, testing::ValuesIn(architecture_names()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST(Fuse, EveryMethodFindsAPermutedCopy) {
  const Graph net = zoo_net("convnet-bn", 1, 1);
  const std::vector<Graph> models = {net, permuted_copy(net, 2), permuted_copy(net, 3)};
  const auto samples = random_inputs(net, 16, 1);
  for (const std::string method : {"ot", "hungarian", "greedy", "rebasin", "merge-many", "barycentre"})
    for (const auto align : {AlignBy::weights, AlignBy::activations}) {
      if (method == "barycentre" && align == AlignBy::activations) continue;  // refused: tests/fuse/options_test.cpp
      FuseOptions options;
      options.method = method;
      options.align = align;
      SCOPED_TRACE(method + " " + std::string(name_of(align)));
      const FusionResult result = fuse(models, options, samples);
      // The order of channels is free where the reference itself is moved; the function is not.
      EXPECT_LE(largest_difference(net, result.fused), 1e-5);
      if (method == "ot" || method == "hungarian" || method == "greedy") expect_equal(result.fused, net);
    }
}

TEST(Fuse, WeightsOneAndZeroReturnTheFirstModel) {
  const Graph a = zoo_net("convnet-bn", 1, 1);
  const Graph b = zoo_net("convnet-bn", 2, 1);
  FuseOptions options;
  options.weights = {1, 0};
  expect_equal(fuse({a, b}, options).fused, a);
  options.reference = 1;
  EXPECT_LE(largest_difference(a, fuse({a, b}, options).fused), 1e-5);
  options.weights = {0, 3};
  expect_equal(fuse({a, b}, options).fused, b);
}

TEST(Fuse, WideningAndBackLosesNothing) {
  const Graph narrow = zoo_net("convnet", 1, 1);
  const Graph wide = zoo_net("convnet", 2, 2);
  FuseOptions options;
  options.reference = 1;
  options.weights = {1, 0};
  const Graph widened = fuse({narrow, wide}, options).fused;
  EXPECT_LE(largest_difference(narrow, widened), 1e-5);
  for (const auto& [name, tensor] : wide.tensors) EXPECT_EQ(widened.tensor(name).sizes(), tensor.sizes());
  const Graph back = fuse({widened, narrow}, options).fused;
  EXPECT_LE(largest_difference(narrow, back), 1e-5);
}

TEST(Fuse, WidthsMayDiffer) {
  for (const std::string arch : {"mlpnet", "convnet-bn", "resnet20", "mobilenetv1"}) {
    const Graph a = zoo_net(arch, 1, 0.5);
    const Graph b = zoo_net(arch, 2, 0.25);
    for (const std::string method : {"ot", "hungarian", "greedy", "rebasin", "average"})
      for (const int64_t reference : {0, 1}) {
        FuseOptions options;
        options.method = method;
        options.reference = reference;
        SCOPED_TRACE(arch + " " + method + " " + std::to_string(reference));
        const FusionResult result = fuse({a, b}, options);
        const Graph& target = reference == 0 ? a : b;
        for (const auto& [name, tensor] : target.tensors)
          EXPECT_EQ(result.fused.tensor(name).sizes(), tensor.sizes()) << name;
        EXPECT_TRUE(forward(result.fused, random_inputs(a, 2, 1)).outputs[0].isfinite().all().item<bool>());
      }
  }
}

TEST(Fuse, SinkhornKeepsItsSource) {
  const Graph a = zoo_net("mlpnet", 1, 0.25);
  const Graph b = zoo_net("mlpnet", 2, 0.25);
  FuseOptions options;
  options.solver = TransportSolver::sinkhorn;
  for (const double epsilon : {0.1, 0.003}) {
    options.regularization = epsilon;
    const FusionResult result = fuse({a, b}, options);
    for (const auto& plan : result.alignments[1].plans) EXPECT_NEAR(plan.sum().item<double>(), 1, 1e-9);
    EXPECT_GT(result.aligned[1].tensor("fc1.weight").abs().max().item<double>(), 1e-3);
  }
}

// Carrying only some axes, or a map per layer instead of one per group, would change the function.
TEST(Fuse, CarriesConcatenationsSharedVectorsAndDepthwiseLayers) {
  TestGraph g;
  auto x = g.input("x", {-1, 3, 6, 6});
  auto left = g.relu(g.conv(x, 3, 4));
  auto right = g.relu(g.batch_norm(g.conv(x, 3, 6), 6));
  auto joined = g.node("Concat", {left, right}, {{"axis", int64_t{1}}});
  auto deep = g.relu(g.conv(joined, 10, 10, 3, 10));
  auto grouped = g.relu(g.conv(deep, 10, 8, 3, 2));
  auto flat = g.node("Flatten", {grouped});
  Graph graph = g.finish(g.linear(flat, 8 * 36, 5));
  const Graph copy = permuted_copy(graph, 4);
  EXPECT_LE(largest_difference(graph, copy), 1e-12);
  expect_equal(fuse({graph, copy}, {}).fused, graph);
}

TEST(Fuse, RefusesWhatDoesNotFit) {
  const auto message = [](const std::vector<Graph>& models, const FuseOptions& options) -> std::string {
    try {
      fuse(models, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto expect_says = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "'";
  };
  const Graph mlp = zoo_net("mlpnet", 1, 0.25);
  expect_says(message({mlp}, {}), "at least two");
  expect_says(message({mlp, zoo_net("lenet-300-100", 1, 0.25)}, {}), "fc1");  // it has biases, the other none
  expect_says(message({zoo_net("convnet", 1, 1), zoo_net("convnet-bn", 1, 1)}, {}), "act_conv1");
  expect_says(message({zoo_net("convnet", 1, 1), zoo_net("lenet-5", 1, 1)}, {}), "conv1");
  expect_says(message({mlp, build("mlpnet", {.width = 0.25, .classes = 7})}, {}), "fc4");
  expect_says(message({mlp, build("mlpnet", {.width = 0.25, .input = {1, 20, 20}})}, {}), "flatten");
  expect_says(message({zoo_net("vgg11", 1, 0.1), zoo_net("vgg16", 1, 0.1)}, {}), "features");
  FuseOptions options;
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{{0, 0}, {1, -1}, {1}, {NAN, 1}}) {
    options.weights = weights;
    expect_says(message({mlp, mlp}, options), "`weights`");
  }
  options.weights.clear();
  options.align = AlignBy::activations;
  expect_says(message({mlp, mlp}, options), "`data`");
  options = {};
  options.reference = 2;
  expect_says(message({mlp, mlp}, options), "`reference`");
  Graph broken = mlp;
  broken.tensors["fc2.weight"] = broken.tensors["fc2.weight"].clone();
  broken.tensors["fc2.weight"][1][2] = NAN;
  expect_says(message({mlp, broken}, {}), "fc2");
}

TEST(Fuse, EqualNeuronsGiveADefinedResult) {
  Graph flat = zoo_net("mlpnet", 1, 0.1);
  for (auto& [name, tensor] : flat.tensors) tensor = at::full_like(tensor, 0.125);
  for (const std::string method : {"ot", "hungarian", "greedy", "rebasin", "barycentre"}) {
    FuseOptions options;
    options.method = method;
    expect_equal(fuse({flat, flat}, options).fused, flat);
    Graph zero = flat;
    for (auto& [name, tensor] : zero.tensors) tensor = at::zeros_like(tensor);
    // Whatever is matched with what, half of one and half of the other is the mean everywhere.
    const Graph half = fuse({flat, zero}, options).fused;
    for (const auto& [name, tensor] : half.tensors)
      EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, 0.0625))) << method << " " << name;
  }
}

TEST(Repair, LeavesAgreeingParentsAsTheyAre) {
  for (const std::string arch : {"mlpnet", "convnet", "convnet-bn"}) {
    const Graph net = zoo_net(arch, 1, 0.5);
    const std::vector<Graph> parents = {net, net};
    const std::vector<double> shares = {0.5, 0.5};
    const Samples samples = samples_of(random_inputs(net, 60, 2));
    EXPECT_LE(largest_difference(net, rescale_norms(net, {parents, shares})), 1e-5);
    if (arch == "convnet-bn") continue;  // its running statistics are not those of the samples
    EXPECT_LE(largest_difference(net, rescale(net, {parents, shares}, samples)), 1e-4);
    EXPECT_LE(largest_difference(net, regress(net, {parents, shares}, samples, 0.03)), 1e-3);
  }
}

// One linear layer: the repaired weights solve the regression of the formula.
TEST(Repair, RegressionIsTheFormula) {
  TestGraph g;
  auto x = g.input("x", {-1, 6});
  Graph a = g.finish(g.node("Gemm", {x, g.random({4, 6})}, {{"transB", int64_t{1}}}));
  Graph b = a;
  b.tensors["t0"] = at::randn({4, 6}, at::kDouble);
  const std::vector<double> shares = {0.25, 0.75};
  const Graph fused = weighted_average({a, a}, {}, 0);
  const at::Tensor U = at::randn({200, 6}, at::kDouble);
  const double rho = 0.3;
  const at::Tensor W = a.tensors["t0"];
  const at::Tensor Z = at::mm(U, (0.25 * W + 0.75 * b.tensors["t0"]).t()) + 0.5;
  for (Graph* parent : {&a, &b}) {  // parents have a bias, the fused layer gets one
    parent->nodes[0].inputs.push_back("b");
    parent->tensors["b"] = at::full({4}, 0.5, at::kDouble);
  }
  const std::vector<Graph> parents = {a, b};
  const at::Tensor U1 = at::cat({U, at::ones({200, 1}, at::kDouble)}, 1);
  const at::Tensor W1 = at::cat({W, at::zeros({4, 1}, at::kDouble)}, 1);
  const at::Tensor gram = at::mm(U1.t(), U1) / 200.0;
  const at::Tensor ridge = rho * gram.diag().mean() * at::eye(7, at::kDouble);
  const at::Tensor expected = W1 + at::mm(at::mm((Z - at::mm(U1, W1.t())).t(), U1) / 200.0, (gram + ridge).inverse());
  const Graph found = regress(fused, {parents, shares}, samples_of({U}), rho);
  EXPECT_LE((found.tensor("t0") - expected.narrow(1, 0, 6)).abs().max().item<double>(), 1e-9);
  ASSERT_EQ(found.nodes[0].inputs.size(), 3);
  EXPECT_LE((found.tensor(found.nodes[0].inputs[2]) - expected.select(1, 6)).abs().max().item<double>(), 1e-9);
}

}  // namespace
}  // namespace pare
