// Identities of LRP, excitation backprop and RAP in double precision, and slow oracles of their rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attribute/nets.h"
#include "pare/attribute/excitation.h"
#include "pare/attribute/gradients.h"
#include "pare/attribute/lrp.h"
#include "pare/attribute/rap.h"
#include "pare/core/error.h"

namespace pare {
namespace {

// Walks of a graph from the classes 0, 1, … of the images in turn.
struct Walker {
  Walker(Graph of, at::Tensor images) : graph(std::move(of)), x(std::move(images)), values(values_of(graph, x)) {
    scores = values.at(graph.outputs[0].name);
    classes = at::arange(x.size(0), at::kLong).remainder(scores.size(1));
    score = class_scores(scores, classes);
  }
  at::Tensor lrp(const std::string& preset, const std::string& to = "x") const {
    return walk_back(graph, values, one_hot(scores, classes) * score.unsqueeze(1), to, lrp_rule(lrp_preset(preset)));
  }
  at::Tensor from_one(const LinearRule& rule, const std::string& to = "x") const {
    return walk_back(graph, values, one_hot(scores, classes), to, rule);
  }
  std::vector<std::string> layers() const {
    std::vector<std::string> names = {"x"};
    for (const auto& node : graph.nodes)
      if (node.outputs[0] != graph.outputs[0].name) names.push_back(node.outputs[0]);
    return names;
  }

  Graph graph;
  at::Tensor x;
  TensorMap values;
  at::Tensor scores, classes, score;
};

TEST(Lrp, ZeroIsInputTimesGradientAndSumsToTheScore) {
  for (const Graph& graph : {plain_net(), branching_net()}) {
    const Walker w(graph, images(6));
    const at::Tensor R = w.lrp("zero");
    EXPECT_LT(largest(sums(R) - w.score), 1e-13);
    const at::Tensor product = input_x_gradient(Program(w.graph), w.x, w.classes);
    EXPECT_LT(largest(R - product), 1e-13);
    EXPECT_LT(largest(sums(product) - w.score), 1e-13);
  }
}

TEST(Lrp, AlphaBetaConservesAtEveryLayer) {
  const Walker w(plain_net(), images(6));
  for (const auto& layer : w.layers())
    for (const char* preset : {"z-plus", "alpha1-beta0", "alpha2-beta1"})
      EXPECT_LT(largest(sums(w.lrp(preset, layer)) - w.score), 1e-12) << preset << " at " << layer;
  const Walker branching(branching_net(), images(6));
  for (const char* preset : {"z-plus", "alpha1-beta0"})
    EXPECT_LT(largest(sums(branching.lrp(preset)) - branching.score), 1e-12) << preset;
}

// Dividing the products of x+ and of x- by denominators of their own hands out everything twice.
TEST(Lrp, SignedInputsShareOneDenominator) {
  const Walker w(plain_net(), images(4));
  const auto separate = [](const LinearStep& l, const at::Tensor& R) {
    return share(l, {{l.x.clamp_min(0), l.weight.clamp_min(0)}}, R) +
           share(l, {{l.x.clamp_max(0), l.weight.clamp_max(0)}}, R);
  };
  const at::Tensor start = one_hot(w.scores, w.classes) * w.score.unsqueeze(1);
  const at::Tensor twice = walk_back(w.graph, w.values, start, "x", separate);
  EXPECT_LT(largest(sums(twice) / w.score - 2), 1e-12);
  EXPECT_LT(largest(sums(w.lrp("z-plus")) / w.score - 1), 1e-12);
}

TEST(Lrp, GoldenEpsilon) {
  TestGraph g;
  const std::string x = g.input("x", {-1, 3});
  const std::string hidden = g.relu(g.node("Gemm", {x, g.tensor(at::full({3, 3}, 2.0, at::kDouble))}));
  const Graph graph = g.finish(g.node("Gemm", {hidden, g.tensor(at::full({3, 1}, 3.0, at::kDouble))}));
  const Walker w(graph, at::tensor({1.0, 2.0, 3.0}, at::kDouble).view({1, 3}));
  EXPECT_EQ(w.score.item<double>(), 108);
  EXPECT_LT(largest(w.lrp("epsilon") - at::tensor({18.0, 36.0, 54.0}, at::kDouble)), 1e-5);
  EXPECT_LT(largest(w.lrp("zero") - at::tensor({18.0, 36.0, 54.0}, at::kDouble)), 1e-12);
}

TEST(Lrp, BiasesKeepTheirShareOfEpsilonAndNoneOfZPlus) {
  const Walker w(plain_net({.bias = true}), images(4));
  EXPECT_LT(largest(sums(w.lrp("z-plus")) - w.score), 1e-12);
  EXPECT_GT(largest(sums(w.lrp("zero")) - w.score), 1e-3);
}

TEST(Lrp, PresetsAndTheirErrors) {
  const Walker w(plain_net({.bias = true}), images(2));
  for (const auto& preset : lrp_presets()) EXPECT_TRUE(w.lrp(preset).isfinite().all().item<bool>()) << preset;
  EXPECT_THROW(lrp_preset("alpha3"), Error);
  EXPECT_THROW(lrp_rule({.dense = {.alpha = 2, .beta = 0.5}}), Error);
  // Bounds that hold for every pixel conserve as well as an image's own.
  LrpOptions bounded = lrp_preset("alpha1-beta0");
  bounded.low = {-9, -8, -7};
  bounded.high = {9, 8, 7};
  const at::Tensor start = one_hot(w.scores, w.classes) * w.score.unsqueeze(1);
  EXPECT_LT(largest(sums(walk_back(w.graph, w.values, start, "x", lrp_rule(bounded))) - w.score), 1e-12);
}

TEST(Excitation, IsAProbabilityAtEveryLayer) {
  for (const Graph& graph : {plain_net({.bias = true}), branching_net()}) {
    const Walker w(graph, images(6).abs());
    for (const auto& layer : w.layers()) {
      if (layer.starts_with("Conv") || layer.starts_with("Gemm")) continue;  // not an activation
      const at::Tensor P = w.from_one(excitation_rule(), layer);
      EXPECT_GE(P.min().item<double>(), 0) << layer;
      const bool passed_by = graph.nodes.size() != plain_net().nodes.size();
      EXPECT_TRUE(passed_by || largest(sums(P) - 1) < 1e-12) << layer;
    }
    EXPECT_LT(largest(sums(w.from_one(excitation_rule())) - 1), 1e-12);
  }
}

TEST(Excitation, IsZPlusOverTheScoreAtHiddenLayers) {
  const Walker w(plain_net(), images(6));
  for (const auto& layer : w.layers()) {
    if (layer == "x") continue;
    const at::Tensor P = w.from_one(excitation_rule(), layer);
    const auto score = w.score.view(P.dim() == 4 ? std::vector<int64_t>{-1, 1, 1, 1} : std::vector<int64_t>{-1, 1});
    EXPECT_LT(largest(w.lrp("alpha1-beta0", layer) - score * P), 1e-13) << layer;
  }
}

TEST(Excitation, TheOppositeNegatesTheHeadAlone) {
  const Walker w(plain_net(), images(3));
  Graph negated = w.graph;
  const auto& head = negated.nodes.back().inputs[1];
  negated.tensors[head] = -negated.tensors.at(head);
  const Walker other(negated, w.x);
  const std::string layer = w.graph.nodes[3].outputs[0];
  EXPECT_LT(largest(w.from_one(excitation_rule(true), layer) - other.from_one(excitation_rule(), layer)), 1e-15);
}

TEST(Rap, SumsToTheScoreWhateverItsSign) {
  Walker w(plain_net({.bias = true}), images(10));
  w.classes.slice(0, 0, 5).copy_(w.scores.slice(0, 0, 5).argmin(1));
  w.score = class_scores(w.scores, w.classes);
  ASSERT_LT(w.score.min().item<double>(), 0);
  ASSERT_GT(w.score.max().item<double>(), 0);
  EXPECT_LT(largest(sums(w.from_one(rap_rule())) - w.score), 1e-12);
  const std::string flat = w.graph.nodes.back().inputs[0];
  EXPECT_TRUE((w.from_one(rap_rule(), flat) * w.score.unsqueeze(1)).ge(0).all().item<bool>());
  const Walker branching(branching_net(), images(4));
  EXPECT_LT(largest(sums(branching.from_one(rap_rule())) - branching.score), 1e-11);
}

// --- slow oracles: a layer as a matrix, rules as loops

using Row = std::vector<double>;
struct Matrix {
  std::vector<Row> w;  // w[i][j]
  Row b;
};

// The matrix of a node, column by column.
Matrix matrix_of(const Node& node, const Graph& graph, const at::Tensor& x) {
  Matrix m;
  Graph one{.inputs = {{.name = "x", .dtype = at::kDouble}}, .outputs = {{.name = "y", .dtype = at::kDouble}}};
  one.nodes = {node};
  one.nodes[0].inputs[0] = "x";
  one.nodes[0].outputs = {"y"};
  for (size_t i = 1; i < node.inputs.size(); ++i) one.tensors[node.inputs[i]] = graph.tensor(node.inputs[i]);
  const Program program(one);
  const auto apply = [&](const at::Tensor& input) {
    const at::Tensor y = program.run({&input, 1}).outputs[0].contiguous();
    return Row(y.data_ptr<double>(), y.data_ptr<double>() + y.numel());
  };
  m.b = apply(at::zeros_like(x));
  m.w.assign(m.b.size(), Row(static_cast<size_t>(x.numel())));
  for (int64_t j = 0; j < x.numel(); ++j) {
    at::Tensor unit = at::zeros_like(x);
    unit.view(-1)[j] = 1.0;
    const Row column = apply(unit);
    for (size_t i = 0; i < column.size(); ++i) m.w[i][static_cast<size_t>(j)] = column[i] - m.b[i];
  }
  return m;
}

using SlowRule = std::function<Row(const Matrix& m, const Row& x, const Row& R, bool head, bool first)>;

double plus(double v) { return v > 0 ? v : 0; }
double minus(double v) { return v < 0 ? v : 0; }

// R_j = sum_i term(i, j) R_i / sum_j term(i, j)
Row slow_share(const Matrix& m, const Row& R, const std::function<double(size_t i, size_t j)>& term) {
  Row out(m.w[0].size(), 0);
  for (size_t i = 0; i < m.w.size(); ++i) {
    double z = 0;
    for (size_t j = 0; j < out.size(); ++j) z += term(i, j);
    for (size_t j = 0; z != 0 && j < out.size(); ++j) out[j] += term(i, j) * R[i] / z;
  }
  return out;
}

Row slow_alpha_beta(const Matrix& m, const Row& x, const Row& R, double alpha) {
  const Row up = slow_share(m, R, [&](size_t i, size_t j) { return plus(x[j] * m.w[i][j]); });
  const Row down = slow_share(m, R, [&](size_t i, size_t j) { return minus(x[j] * m.w[i][j]); });
  Row out = up;
  for (size_t j = 0; j < out.size(); ++j) out[j] = alpha * up[j] - (alpha - 1) * down[j];
  return out;
}

Row slow_box(const Matrix& m, const Row& x, const Row& R) {
  const double l = *std::min_element(x.begin(), x.end()), h = *std::max_element(x.begin(), x.end());
  return slow_share(m, R,
                    [&](size_t i, size_t j) { return m.w[i][j] * x[j] - plus(m.w[i][j]) * l - minus(m.w[i][j]) * h; });
}

Row slow_epsilon(const Matrix& m, const Row& x, const Row& R, double epsilon, double gamma) {
  const auto favoured = [&](double v) { return v + gamma * plus(v); };
  Row out(x.size(), 0);
  for (size_t i = 0; i < m.w.size(); ++i) {
    double z = favoured(m.b[i]);
    for (size_t j = 0; j < x.size(); ++j) z += x[j] * favoured(m.w[i][j]);
    z += z < 0 ? -epsilon : epsilon;
    for (size_t j = 0; j < x.size(); ++j) out[j] += x[j] * favoured(m.w[i][j]) * R[i] / z;
  }
  return out;
}

Row slow_rap(const Matrix& m, const Row& x, const Row& R, bool head, bool first) {
  if (first) return slow_box(m, x, R);
  Row C(x.size(), 0);
  if (head) {
    const size_t c = static_cast<size_t>(std::find(R.begin(), R.end(), 1.0) - R.begin());
    double pos = 0, neg = 0;
    for (size_t j = 0; j < x.size(); ++j) pos += plus(x[j] * m.w[c][j]), neg += minus(x[j] * m.w[c][j]);
    double sum = 0, size = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      C[j] = x[j] * m.w[c][j];
      if (C[j] > 0)
        C[j] += m.b[c] * pos / (pos + neg) * C[j] / pos;
      else if (C[j] < 0)
        C[j] += m.b[c] * neg / (pos + neg) * C[j] / neg;
      sum += C[j];
      size += std::abs(C[j]);
    }
    for (double& value : C) value = std::abs(value) / size * sum;
    return C;
  }
  for (size_t i = 0; i < m.w.size(); ++i) {
    double zp = 0, zn = 0;
    for (size_t j = 0; j < x.size(); ++j) zp += plus(x[j] * m.w[i][j]), zn -= minus(x[j] * m.w[i][j]);
    for (size_t j = 0; j < x.size(); ++j) {
      const double up = plus(x[j] * m.w[i][j]), down = -minus(x[j] * m.w[i][j]);
      if (zp > 0) C[j] += up * plus(R[i]) / zp;
      if (zn > 0) C[j] += down * minus(R[i]) / zn;
      if (zp + zn > 0) C[j] += down * R[i] / (zp + zn);
    }
  }
  double excess = 0, there = 0;
  for (const double value : C) excess += value, there += value != 0;
  for (const double value : R) excess -= value;
  for (double& value : C) value -= value != 0 ? excess / there : 0;
  return C;
}

// Back through plain_net for one image: matrices by loops, ReLU unchanged, pools to the winner.
Row slow_walk(const Walker& w, const Row& start, const SlowRule& rule) {
  Row R = start;
  bool head = true;
  for (auto node = w.graph.nodes.rbegin(); node != w.graph.nodes.rend(); ++node) {
    const at::Tensor x = w.values.at(node->inputs[0]).contiguous();
    const Row values(x.data_ptr<double>(), x.data_ptr<double>() + x.numel());
    if (node->op == "Conv" || node->op == "Gemm") {
      R = rule(matrix_of(*node, w.graph, x), values, R, head, node->inputs[0] == "x");
      head = false;
    } else if (node->op == "MaxPool") {
      Row below(values.size(), 0);
      const int64_t height = x.size(2), width = x.size(3);
      size_t place = 0;
      for (int64_t c = 0; c < x.size(1); ++c)
        for (int64_t y = 0; y < height; y += 2)
          for (int64_t k = 0; k < width; k += 2) {
            size_t best = static_cast<size_t>((c * height + y) * width + k);
            for (const int64_t step : {int64_t{1}, width, width + 1}) {
              const auto other = static_cast<size_t>((c * height + y) * width + k + step);
              if (values[other] > values[best]) best = other;
            }
            below[best] += R[place++];
          }
      R = below;
    }
  }
  return R;
}

void expect_rows_equal(const at::Tensor& found, const Row& expected, const std::string& what) {
  ASSERT_EQ(found.numel(), static_cast<int64_t>(expected.size())) << what;
  const at::Tensor wanted = at::tensor(expected, at::kDouble);
  EXPECT_LT(largest(found.flatten() - wanted), 1e-11 * std::max(1.0, largest(wanted))) << what;
}

TEST(Oracles, EveryRuleAgreesWithItsFormula) {
  for (const bool bias : {false, true})
    for (const uint64_t seed : {3, 4}) {
      const Walker w(plain_net({.bias = bias, .seed = seed}), images(1, 3, seed));
      const double z = w.score.item<double>();
      const auto from = [](double start) { return Row{start, 0, 0, 0, 0}; };
      const auto lrp = [&](const std::string& preset, const SlowRule& rule) {
        expect_rows_equal(w.lrp(preset), slow_walk(w, from(z), rule), preset);
      };
      using M = const Matrix&;
      using X = const Row&;
      lrp("zero", [](M m, X x, X R, bool, bool) { return slow_epsilon(m, x, R, 0, 0); });
      lrp("epsilon", [](M m, X x, X R, bool, bool) { return slow_epsilon(m, x, R, 1e-6, 0); });
      lrp("gamma", [](M m, X x, X R, bool, bool) { return slow_epsilon(m, x, R, 1e-6, 0.25); });
      lrp("z-plus", [](M m, X x, X R, bool, bool) { return slow_alpha_beta(m, x, R, 1); });
      lrp("alpha2-beta1", [](M m, X x, X R, bool, bool) { return slow_alpha_beta(m, x, R, 2); });
      lrp("alpha1-beta0",
          [](M m, X x, X R, bool, bool first) { return first ? slow_box(m, x, R) : slow_alpha_beta(m, x, R, 1); });
      lrp("epsilon-plus", [](M m, X x, X R, bool head, bool) {
        return head ? slow_epsilon(m, x, R, 1e-6, 0) : slow_alpha_beta(m, x, R, 1);
      });
      lrp("epsilon-alpha2-beta1", [](M m, X x, X R, bool head, bool) {
        return head ? slow_epsilon(m, x, R, 1e-6, 0) : slow_alpha_beta(m, x, R, 2);
      });
      lrp("epsilon-gamma-box", [](M m, X x, X R, bool head, bool first) {
        return head ? slow_epsilon(m, x, R, 1e-6, 0) : first ? slow_box(m, x, R) : slow_epsilon(m, x, R, 1e-6, 0.25);
      });
      expect_rows_equal(w.from_one(excitation_rule()),
                        slow_walk(w, from(1),
                                  [](M m, X x, X R, bool, bool) {
                                    return slow_share(m, R,
                                                      [&](size_t i, size_t j) { return plus(x[j]) * plus(m.w[i][j]); });
                                  }),
                        "ebp");
      expect_rows_equal(w.from_one(rap_rule()), slow_walk(w, from(1), slow_rap), "rap");
    }
}

// --- operators

// LRP-0 of a net without biases is input times gradient whatever it is built of.
TEST(Walk, PassesThroughEveryLinearOperator) {
  TestGraph g(5);
  using Ints = std::vector<int64_t>;
  const Ints pads = {1, 1, 1, 1};
  const auto conv = [&](const std::string& x, int64_t in, int64_t out, int64_t groups = 1) {
    return g.relu(g.node("Conv", {x, g.random({out, in / groups, 3, 3})}, {{"pads", pads}, {"group", groups}}));
  };
  std::string x = conv(g.input("x", {-1, 3, 8, 8}), 3, 6);
  x = conv(x, 6, 6, 3);  // groups
  const auto halves = g.node("Split", {x, g.integers({2, 4})}, {{"axis", int64_t{1}}}, 2);
  const std::string cut = g.node("Slice", {halves[1], g.integers({1}), g.integers({3}), g.integers({1})});
  std::string y = g.node("Sub", {halves[0], cut});
  y = g.relu(g.node("Mean", {y, halves[0], cut}));
  y = g.node("Concat", {y, halves[1]}, {{"axis", int64_t{1}}});
  y = g.node("LeakyRelu", {g.node("Mul", {y, g.positive({1, 6, 1, 1})})}, {{"alpha", 0.0}});
  y = g.node("ConvTranspose", {y, g.random({6, 4, 2, 2})}, {{"strides", Ints{2, 2}}});
  y = g.node("AveragePool", {g.relu(y)}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", pads}});
  y = g.node("Transpose", {y}, {{"perm", Ints{0, 2, 3, 1}}});
  y = g.node("ReduceMean", {y, g.integers({1, 2})}, {{"keepdims", int64_t{0}}});
  const Graph graph = g.finish(g.node("MatMul", {g.relu(y), g.random({4, 5})}));
  const Walker w(graph, images(5));
  ASSERT_GT(largest(w.score), 0);
  const at::Tensor product = input_x_gradient(Program(w.graph), w.x, w.classes);
  EXPECT_LT(largest(w.lrp("zero") - product), 1e-12 * largest(product));
  EXPECT_LT(largest(sums(w.lrp("zero")) - w.score), 1e-12);
}

TEST(Walk, AnOperatorWithoutARuleIsNamed) {
  TestGraph g;
  const std::string x = g.input("x", {-1, 3, 8, 8});
  const std::string flat = g.node("Flatten", {g.node("LRN", {g.conv(x, 3, 4)}, {{"size", int64_t{3}}})});
  const Graph graph = g.finish(g.linear(flat, 256, 5));
  const Walker w(graph, images(1));
  try {
    w.lrp("zero");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("LRN"));
  }
}

TEST(Walk, GatesPassEverythingToTheirSignal) {
  TestGraph g;
  const std::string x = g.relu(g.conv(g.input("x", {-1, 3, 8, 8}), 3, 4));
  const std::string gate = g.node("Sigmoid", {g.conv(g.node("GlobalAveragePool", {x}), 4, 4, 1)});
  const std::string gated = g.node("Mul", {gate, x});
  const Graph graph = g.finish(g.linear(g.node("Flatten", {gated}), 256, 5));
  const Walker w(graph, images(2));
  EXPECT_LT(largest(w.lrp("z-plus", gated) - w.lrp("z-plus", x)), 1e-15);
  TestGraph bad;
  const std::string y = bad.relu(bad.conv(bad.input("x", {-1, 3, 8, 8}), 3, 4));
  const Graph product = bad.finish(bad.linear(bad.node("Flatten", {bad.node("Mul", {y, bad.relu(y)})}), 256, 5));
  EXPECT_THROW(Walker(product, images(1)).lrp("zero"), Error);
}

TEST(Walk, AMatrixProductAndItsBiasAreALinearLayer) {
  TestGraph one, two;
  const at::Tensor weight = at::randn({6, 5}, at::kDouble), bias = at::randn({5}, at::kDouble);
  const Graph gemm = one.finish(one.node("Gemm", {one.input("x", {-1, 6}), one.tensor(weight), one.tensor(bias)}));
  const Graph matmul = two.finish(
      two.node("Add", {two.node("MatMul", {two.input("x", {-1, 6}), two.tensor(weight)}), two.tensor(bias)}));
  at::manual_seed(3);
  const at::Tensor x = at::randn({4, 6}, at::kDouble);
  for (const char* preset : {"zero", "z-plus"})
    EXPECT_LT(largest(Walker(gemm, x).lrp(preset) - Walker(matmul, x).lrp(preset)), 1e-12) << preset;
}

}  // namespace
}  // namespace pare
