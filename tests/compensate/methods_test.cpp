// Each method against its formula, and against cases with a known answer.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/analysis/layers.h"
#include "pare/compensate/compensate.h"
#include "pare/error.h"
#include "pare/run.h"
#include "pare/zoo/zoo.h"
#include "support/builder.h"
#include "support/compensated.h"

namespace pare {
namespace {

constexpr double kPi = 3.14159265358979323846;

// layer → [batch norm] → activation → layer; the even channels of the first go.
struct Net {
  Graph graph;
  ChannelMap map;
  std::set<ChannelId> removed;

  explicit Net(Graph g) : graph(std::move(g)), map(analyze_channels(graph)) {
    const auto& channels = map.groups[0].channels;
    for (size_t i = 0; i < channels.size(); i += 2) removed.insert(channels[i]);
  }
  MergeProblem problem() const { return merge_problem(graph, map, map.groups[0], removed); }
};

Graph linear_graph(const std::string& activation = "Relu") {
  TestGraph g(1);
  const auto a = g.node(activation, {g.linear(g.input("x", {-1, 5}), 5, 8)});
  return g.finish(g.linear(a, 8, 3));
}

Graph conv_graph() {
  TestGraph g(2);
  const auto a = g.relu(g.batch_norm(g.node("Conv", {g.input("x", {-1, 3, 7, 7}), g.random({8, 3, 3, 3})}), 8));
  return g.finish(g.conv(a, 8, 4, 1));
}

double inner_product(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); }

// Algorithm 1, as a loop over pairs.
at::Tensor slow_most_sim_linear(const Net& net, double threshold) {
  const at::Tensor v = at::cat({net.graph.tensor("t0"), net.graph.tensor("t1").unsqueeze(1)}, 1);
  const MergeProblem p = net.problem();
  at::Tensor Z = identity_merge(p);
  for (const int64_t n : p.removed) {
    double best = -2;
    int64_t at = -1;
    for (size_t k = 0; k < p.kept.size(); ++k) {
      const at::Tensor& w = v[p.kept[k]];
      const double cosine = inner_product(v[n], w) / std::sqrt(inner_product(v[n], v[n]) * inner_product(w, w));
      if (cosine > best) best = cosine, at = static_cast<int64_t>(k);
    }
    const at::Tensor& w = v[p.kept[static_cast<size_t>(at)]];
    if (best >= threshold) Z[n][at] = std::sqrt(inner_product(v[n], v[n]) / inner_product(w, w));
  }
  return Z;
}

// The method compares filters in single precision, the oracle in double.
TEST(MostSim, IsAlgorithmOneForLinearLayers) {
  const Net net(linear_graph());
  for (const double threshold : {0.0, 0.3, 0.6}) {
    const Merge merge = most_sim(net.problem(), {.threshold = threshold});
    EXPECT_LE((merge.Z - slow_most_sim_linear(net, threshold)).abs().max().item<double>(), 1e-6);
  }
  EXPECT_FALSE(most_sim(net.problem(), {.threshold = 1}).reason.empty());
}

TEST(MostSim, WeighsCosineAndBiasAfterABatchNorm) {
  Graph graph = conv_graph();
  graph.tensors["t1"] = graph.tensors["t1"] * at::tensor({1., 1., -1., -1., 1., -1., 1., 1.}, at::kDouble);
  const Net net(graph);
  const NormParameters bn = *norm_parameters(graph, 1);
  const at::Tensor w = graph.tensor("t0").flatten(1);
  const MergeProblem p = net.problem();
  const double lambda = 0.6;
  const auto at = [](const at::Tensor& t, int64_t i) { return t[i].item<double>(); };
  at::Tensor expected = identity_merge(p);
  for (const int64_t n : p.removed) {
    std::vector<double> cosines, scales, biases;
    for (const int64_t k : p.kept) {
      const double sign = at(bn.gamma, n) * at(bn.gamma, k) > 0 ? 1 : -1;
      const double s = sign * std::sqrt(inner_product(w[n], w[n]) / inner_product(w[k], w[k]));
      cosines.push_back(sign * inner_product(w[n], w[k]) /
                        std::sqrt(inner_product(w[n], w[n]) * inner_product(w[k], w[k])));
      const double S = s * at(bn.gamma, n) / at(bn.gamma, k) * at(bn.sigma, k) / at(bn.sigma, n);
      const double B =
          at(bn.gamma, n) / at(bn.sigma, n) *
              (s * (at(bn.mean, k) - at(bn.sigma, k) * at(bn.beta, k) / at(bn.gamma, k)) - at(bn.mean, n)) +
          at(bn.beta, n);
      EXPECT_GT(S, 0);
      scales.push_back(S);
      biases.push_back(std::abs(B) / S);
    }
    const auto [low, high] = std::minmax_element(biases.begin(), biases.end());
    size_t best = 0;
    double smallest = 1e300;
    for (size_t k = 0; k < p.kept.size(); ++k) {
      const double score = lambda * (1 - cosines[k]) + (1 - lambda) * (biases[k] - *low) / (*high - *low);
      if (score < smallest) smallest = score, best = k;
    }
    if (cosines[best] >= 0.1) expected[n][static_cast<int64_t>(best)] = scales[best];
  }
  const Merge merge = most_sim(p, {.threshold = 0.1, .lambda = lambda});
  EXPECT_LE((merge.Z - expected).abs().max().item<double>(), 1e-6);
}

// A removed neuron that is a multiple of a kept one is taken over without loss, whatever its sign after the batch
// norm.
TEST(MostSim, TakesOverMultiplesExactly) {
  const at::NoGradGuard no_grad;
  Graph graph = conv_graph();
  at::Tensor w = graph.tensors["t0"].clone();
  at::Tensor gamma = graph.tensors["t1"].clone(), beta = graph.tensors["t2"].clone();
  at::Tensor mean = graph.tensors["t3"].clone(), var = graph.tensors["t4"].clone();
  for (int64_t n = 0; n < 8; n += 2) {  // channel n: −½ times the filter of n + 1, and what follows made proportional
    w[n].copy_(w[n + 1] * -0.5);
    mean[n] = -0.5 * mean[n + 1];
    var[n] = 0.25 * (var[n + 1] + 1e-5) - 1e-5;
    gamma[n] = -3 * gamma[n + 1];
    beta[n] = 3 * beta[n + 1];
  }
  const char* names[] = {"t0", "t1", "t2", "t3", "t4"};
  const at::Tensor values[] = {w, gamma, beta, mean, var};
  for (int i = 0; i < 5; ++i) graph.tensors[names[i]] = values[i];
  const Net net(graph);
  const Compensated slim = compensated(graph, net.map, net.removed, find_compensation("most-sim"));
  const auto inputs = random_inputs(graph, 2, 3);
  const at::Tensor expected = forward(graph, inputs).outputs[0];
  EXPECT_LE((forward(slim.graph, inputs).outputs[0] - expected).abs().max().item<double>(), 1e-9);
  // And a plain removal is far from it.
  const Compensated none = compensated(graph, net.map, net.removed, find_compensation("none"));
  EXPECT_GT((forward(none.graph, inputs).outputs[0] - expected).abs().max().item<double>(), 1e-2);
}

TEST(MatchingPursuit, FindsASparseNonNegativeCombination) {
  at::manual_seed(5);
  const at::Tensor A = at::randn({30, 10}, at::kDouble);
  const at::Tensor y = A.select(1, 3) * 2 + A.select(1, 7) * 0.5;
  const auto z = matching_pursuit(at::mm(A.t(), A), at::mv(A.t(), y), 2);
  EXPECT_NEAR(z[3], 2, 1e-6);
  EXPECT_NEAR(z[7], 0.5, 1e-6);
  // Only the negative of a column is there: nothing fits.
  const auto none = matching_pursuit(at::ones({1, 1}, at::kDouble), -at::ones({1}, at::kDouble), 3);
  EXPECT_EQ(none[0], 0);
}

TEST(Nnls, WithOneTermIsMostSimProjected) {
  const Net net(linear_graph());
  const Merge one = nnls(net.problem(), {.terms = 1});
  const Merge two = nnls(net.problem(), {.terms = 3});
  const at::Tensor v = at::cat({net.graph.tensor("t0"), net.graph.tensor("t1").unsqueeze(1)}, 1);
  const at::Tensor kept = v.index_select(0, at::tensor(net.problem().kept, at::kLong));
  EXPECT_GE(one.Z.min().item<double>(), 0);
  const at::Tensor similar = slow_most_sim_linear(net, 0);
  for (const int64_t n : net.problem().removed) {
    // The multiple of the most similar kept neuron that is nearest: its cosine of the one of equal length.
    const int64_t k = similar[n].argmax().item<int64_t>();
    const double cosine = inner_product(v[n], kept[k]) / (v[n].norm() * kept[k].norm()).item<double>();
    EXPECT_LE((one.Z[n] - similar[n] * cosine).abs().max().item<double>(), 1e-6);
    EXPECT_LE(one.Z[n].count_nonzero().item<int64_t>(), 1);
    const double first = (v[n] - at::mv(kept.t(), one.Z[n])).norm().item<double>();
    const double more = (v[n] - at::mv(kept.t(), two.Z[n])).norm().item<double>();
    EXPECT_LE(more, first + 1e-9);
    EXPECT_LE(first, v[n].norm().item<double>() + 1e-9);
  }
}

TEST(Nmf, NeverRaisesTheError) {
  at::manual_seed(6);
  const at::Tensor W = at::rand({12, 9}, at::kDouble);
  at::Tensor Y = at::rand({12, 4}, at::kDouble), Z = at::rand({4, 9}, at::kDouble);
  double before = 1e300;
  for (int i = 0; i < 20; ++i) {
    factorize_nonnegative(W, Y, Z, {.iterations = 1});
    const double error = (W - at::mm(Y, Z)).norm().item<double>();
    EXPECT_LE(error, before + 1e-12);
    before = error;
  }
  EXPECT_GE(Y.min().item<double>(), 0);
  EXPECT_GE(Z.min().item<double>(), 0);
}

TEST(Nmf, StopsWhereUpdatesNoLongerHelp) {
  at::manual_seed(4);
  const at::Tensor left = at::rand({12, 3}, at::kDouble), right = at::rand({3, 9}, at::kDouble);
  const at::Tensor W = at::mm(left, right);
  at::Tensor Y = at::rand({12, 3}, at::kDouble), Z = at::rand({3, 9}, at::kDouble);
  const double before = (W - at::mm(Y, Z)).square().sum().item<double>();
  const int64_t made = factorize_nonnegative(W, Y, Z, {.iterations = 5000, .tolerance = 1e-6});
  EXPECT_LT(made, 5000);
  EXPECT_GT(made, 10);
  EXPECT_LT((W - at::mm(Y, Z)).square().sum().item<double>(), 1e-3 * before);
  const double then = (W - at::mm(Y, Z)).square().sum().item<double>();
  factorize_nonnegative(W, Y, Z, {.iterations = 10, .tolerance = 0});
  EXPECT_LT(then - (W - at::mm(Y, Z)).square().sum().item<double>(), 1e-5 * before);
}

// The spec's closed form for ReLU: c_0 = mΦ(a) + sφ(a), c_1 = sΦ(a), c_k = sφ(a) He_{k−2}(−a)/√k!, a = m/s.
TEST(Gaussian, MomentsOfReluAreTheClosedForm) {
  const at::Tensor m = at::tensor({0.0, 0.5, -1.0}, at::kDouble);
  const at::Tensor s = at::tensor({1.0, 2.0, 0.7}, at::kDouble);
  at::Tensor r = at::tensor({1.0, 0.6, -0.3, 0.6, 1.0, 0.2, -0.3, 0.2, 1.0}, at::kDouble).reshape({3, 3});
  const GaussianMoments found = activation_moments(
      m, s, r, [](const at::Tensor& x) { return at::relu(x); }, 24);
  const auto coefficient = [&](int64_t i, int k) {
    const double mi = m[i].item<double>(), si = s[i].item<double>(), a = mi / si;
    const double Phi = 0.5 * std::erfc(-a / std::sqrt(2.0)), phi = std::exp(-a * a / 2) / std::sqrt(2 * kPi);
    if (k == 0) return mi * Phi + si * phi;
    if (k == 1) return si * Phi;
    double before = 0, h = 1, factorial = 1;  // He_{-1}, He_0
    for (int j = 0; j < k - 2; ++j) {
      const double next = -a * h - j * before;
      before = h;
      h = next;
    }
    for (int j = 2; j <= k; ++j) factorial *= j;
    return si * phi * h / std::sqrt(factorial);
  };
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(found.mean[i].item<double>(), coefficient(i, 0), 1e-5);
    for (int64_t j = 0; j < 3; ++j) {
      if (i == j) continue;
      double sum = 0;
      for (int k = 1; k <= 24; ++k) sum += coefficient(i, k) * coefficient(j, k) * std::pow(r[i][j].item<double>(), k);
      EXPECT_NEAR(found.covariance[i][j].item<double>(), sum, 1e-4);
    }
  }
  EXPECT_NEAR(found.covariance[0][0].item<double>(), 0.5 - 1 / (2 * kPi), 1e-5);
}

TEST(Gaussian, MomentsAreThoseOfSamples) {
  at::manual_seed(8);
  const at::Tensor m = at::tensor({0.3, -0.4}, at::kDouble), s = at::tensor({1.2, 0.8}, at::kDouble);
  const double rho = 0.7;
  const at::Tensor r = at::tensor({1.0, rho, rho, 1.0}, at::kDouble).reshape({2, 2});
  const auto g = [](const at::Tensor& x) { return at::hardswish(x); };
  const GaussianMoments found = activation_moments(m, s, r, g, 24);
  const at::Tensor z = at::randn({2, 2000000}, at::kDouble);
  const at::Tensor a = g(m[0] + s[0] * z[0]);
  const at::Tensor b = g(m[1] + s[1] * (rho * z[0] + std::sqrt(1 - rho * rho) * z[1]));
  EXPECT_NEAR(found.mean[0].item<double>(), a.mean().item<double>(), 5e-3);
  EXPECT_NEAR(found.covariance[0][1].item<double>(), ((a - a.mean()) * (b - b.mean())).mean().item<double>(), 5e-3);
}

// --- any method

TEST(Compensate, EveryActivationOfTheTable) {
  const at::NoGradGuard no_grad;
  for (const char* activation : {"Relu", "Tanh", "Softsign", "Elu", "Selu", "LeakyRelu", "HardSwish"}) {
    const Net net(linear_graph(activation));
    for (const char* name : {"most-sim", "nnls", "gaussian", "nmf"}) {
      const Compensated slim = compensated(net.graph, net.map, net.removed, find_compensation(name));
      const auto inputs = random_inputs(net.graph, 4, 2);
      EXPECT_TRUE(at::isfinite(forward(slim.graph, inputs).outputs[0]).all().item<bool>()) << activation << name;
    }
  }
}

// Filters of zeros, γ = 0 and variance 0 have no direction or no scale: defined, and nothing that is not finite.
TEST(Compensate, DegenerateLayersStayFinite) {
  const at::NoGradGuard no_grad;
  Graph graph = conv_graph();
  const auto zero = [&](const char* name, int64_t channel) {
    graph.tensors[name] = graph.tensors[name].clone();
    graph.tensors[name][channel].zero_();
  };
  zero("t0", 0), zero("t0", 1);  // filters, removed and kept
  zero("t1", 2), zero("t1", 3);  // gammas
  zero("t4", 4), zero("t4", 5);  // variances
  const Net net(graph);
  const auto inputs = random_inputs(graph, 4, 2);
  for (const auto& method : compensations())
    for (const bool published : {false, true}) {
      CompensateOptions options;
      options.most_sim.as_published = published;
      const Compensated slim = compensated(graph, net.map, net.removed, method, options, inputs);
      EXPECT_TRUE(at::isfinite(forward(slim.graph, inputs).outputs[0]).all().item<bool>()) << method.name;
      for (const auto& [name, tensor] : slim.graph.tensors)
        EXPECT_TRUE(at::isfinite(tensor).all().item<bool>()) << method.name << " " << name;
    }
}

TEST(Compensate, UnknownMethodsAndMissingImages) {
  EXPECT_THROW(find_compensation("merge"), Error);
  const Net net(linear_graph());
  EXPECT_THROW(compensated(net.graph, net.map, net.removed, find_compensation("synthetic")), Error);
}

}  // namespace
}  // namespace pare
