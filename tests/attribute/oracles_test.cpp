// Slow oracles of LRP, excitation backprop and RAP: whatever is linear as a matrix, rules as loops over it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "attribute/walker.h"
#include "pare/attribute/excitation.h"

namespace pare {
namespace {

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

// The sum of `terms` vectors of `size`, which lie one after the other.
Matrix sum_matrix(size_t size, size_t terms) {
  Matrix m{.w = std::vector<Row>(size, Row(size * terms, 0)), .b = Row(size, 0)};
  for (size_t i = 0; i < size; ++i)
    for (size_t t = 0; t < terms; ++t) m.w[i][t * size + i] = 1;
  return m;
}

// Of averages and sums nothing is true.
struct Place {
  bool layer = false, head = false, first = false;
};
using SlowRule = std::function<Row(const Matrix& m, const Row& x, const Row& R, const Place& place)>;

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

Row slow_z_plus(const Matrix& m, const Row& x, const Row& R, const Place&) { return slow_alpha_beta(m, x, R, 1); }

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

Row slow_excitation(const Matrix& m, const Row& x, const Row& R, const Place&) {
  return slow_share(m, R, [&](size_t i, size_t j) { return plus(x[j]) * plus(m.w[i][j]); });
}

Row slow_opposite(const Matrix& m, const Row& x, const Row& R, const Place& place) {
  Matrix opposite = m;
  for (auto& row : opposite.w)
    for (double& w : row) w = place.head ? -w : w;
  return slow_excitation(opposite, x, R, place);
}

Row slow_rap(const Matrix& m, const Row& x, const Row& R, const Place& place) {
  if (!place.layer) return slow_share(m, R, [&](size_t i, size_t j) { return std::abs(x[j] * m.w[i][j]); });
  if (place.first) return slow_box(m, x, R);
  Row C(x.size(), 0);
  if (place.head) {
    const auto c = static_cast<size_t>(std::find_if(R.begin(), R.end(), [](double r) { return r != 0; }) - R.begin());
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

Row row_of(const at::Tensor& t) {
  const at::Tensor values = t.contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

// The largest of every 2x2 takes all.
Row slow_max_pool(const at::Tensor& x, const Row& R) {
  const Row values = row_of(x);
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
  return below;
}

// Back through plain_net or branching_net for one image, from `start` at class 0: the relevance of every value.
std::map<std::string, Row> slow_walk(const Walker& w, double start, const SlowRule& rule) {
  std::map<std::string, Row> relevance;
  relevance[w.graph.outputs[0].name] = {start, 0, 0, 0, 0};
  const auto give = [&](const std::string& name, Row::const_iterator from) {
    Row& sum = relevance[name];
    sum.resize(static_cast<size_t>(w.values.at(name).numel()), 0);
    for (double& value : sum) value += *from++;
  };
  bool head = true;
  for (auto node = w.graph.nodes.rbegin(); node != w.graph.nodes.rend(); ++node) {
    const Row R = relevance.at(node->outputs[0]);
    const std::string& in = node->inputs[0];
    const at::Tensor x = w.values.at(in);
    const bool layer = node->op == "Conv" || node->op == "Gemm";
    if (layer || node->op.ends_with("AveragePool")) {
      const Place place{.layer = layer, .head = layer && head, .first = layer && in == "x"};
      give(in, rule(matrix_of(*node, w.graph, x), row_of(x), R, place).begin());
      head = head && !layer;
    } else if (node->op == "Add") {
      const Row both = row_of(at::stack({x, w.values.at(node->inputs[1])}));
      const Row shares = rule(sum_matrix(R.size(), 2), both, R, {});
      give(in, shares.begin());
      give(node->inputs[1], shares.begin() + static_cast<std::ptrdiff_t>(R.size()));
    } else if (node->op == "Concat") {  // of channels of one image: one after the other
      give(in, R.begin());
      give(node->inputs[1], R.begin() + x.numel());
    } else {
      give(in, (node->op == "MaxPool" ? slow_max_pool(x, R) : R).begin());
    }
  }
  return relevance;
}

void expect_rows_equal(const at::Tensor& found, const Row& expected, const std::string& what) {
  ASSERT_EQ(found.numel(), static_cast<int64_t>(expected.size())) << what;
  const at::Tensor wanted = at::tensor(expected, at::kDouble);
  EXPECT_LT(largest(found.flatten() - wanted), 1e-11 * std::max(1.0, largest(wanted))) << what;
}

TEST(Oracles, EveryRuleAgreesWithItsFormula) {
  using M = const Matrix&;
  using X = const Row&;
  using P = const Place&;
  const std::map<std::string, SlowRule> rules = {
      {"zero", [](M m, X x, X R, P) { return slow_epsilon(m, x, R, 0, 0); }},
      {"epsilon", [](M m, X x, X R, P) { return slow_epsilon(m, x, R, 1e-6, 0); }},
      {"gamma", [](M m, X x, X R, P) { return slow_epsilon(m, x, R, 1e-6, 0.25); }},
      {"z-plus", slow_z_plus},
      {"alpha2-beta1", [](M m, X x, X R, P) { return slow_alpha_beta(m, x, R, 2); }},
      {"alpha1-beta0",
       [](M m, X x, X R, P place) { return place.first ? slow_box(m, x, R) : slow_alpha_beta(m, x, R, 1); }},
      {"epsilon-plus",
       [](M m, X x, X R, P place) {
         return place.head ? slow_epsilon(m, x, R, 1e-6, 0) : slow_alpha_beta(m, x, R, 1);
       }},
      {"epsilon-alpha2-beta1",
       [](M m, X x, X R, P place) {
         return place.head ? slow_epsilon(m, x, R, 1e-6, 0) : slow_alpha_beta(m, x, R, 2);
       }},
      {"epsilon-gamma-box",
       [](M m, X x, X R, P place) {
         return place.head    ? slow_epsilon(m, x, R, 1e-6, 0)
                : place.first ? slow_box(m, x, R)
                              : slow_epsilon(m, x, R, 1e-6, 0.25);
       }},
  };
  ASSERT_EQ(rules.size(), lrp_presets().size());
  for (const bool bias : {false, true})
    for (const uint64_t seed : {3, 4}) {
      const Walker w(plain_net({.bias = bias, .seed = seed}), images(1, 3, seed));
      const double z = w.score.item<double>();
      for (const auto& [preset, rule] : rules) expect_rows_equal(w.lrp(preset), slow_walk(w, z, rule).at("x"), preset);
      expect_rows_equal(w.from_one(excitation_rule()), slow_walk(w, 1, slow_excitation).at("x"), "ebp");
      expect_rows_equal(w.rap(), slow_walk(w, z, slow_rap).at("x"), "rap");
    }
}

// What averages and sums of values get, and pass on to both branches.
TEST(Oracles, BranchesShareRelevance) {
  for (const uint64_t seed : {2, 5}) {
    const Walker w(branching_net(seed, /*bias=*/true), images(1, 3, seed));
    const double z = w.score.item<double>();
    const auto plus_values = slow_walk(w, z, slow_z_plus), rap_values = slow_walk(w, z, slow_rap);
    const auto probabilities = slow_walk(w, 1, slow_excitation);
    for (const auto& layer : w.layers()) {
      expect_rows_equal(w.lrp("z-plus", layer), plus_values.at(layer), "z-plus at " + layer);
      expect_rows_equal(w.from_one(excitation_rule(), layer), probabilities.at(layer), "ebp at " + layer);
      expect_rows_equal(w.rap(layer), rap_values.at(layer), "rap at " + layer);
    }
  }
}

// After a LeakyReLU inner layers read values of both signs.
TEST(Oracles, SignedInputsOfInnerLayers) {
  for (const uint64_t seed : {3, 4}) {
    const Walker w(plain_net({.bias = true, .leak = 0.3, .seed = seed}), images(1, 3, seed));
    const at::Tensor inner = w.values.at(w.graph.nodes[3].inputs[0]);
    ASSERT_EQ(w.graph.nodes[3].op, "Conv");
    ASSERT_LT(inner.min().item<double>() * inner.max().item<double>(), 0);
    const double z = w.score.item<double>();
    expect_rows_equal(w.lrp("z-plus"), slow_walk(w, z, slow_z_plus).at("x"), "z-plus");
    expect_rows_equal(w.from_one(excitation_rule()), slow_walk(w, 1, slow_excitation).at("x"), "ebp");
    expect_rows_equal(w.rap(), slow_walk(w, z, slow_rap).at("x"), "rap");
  }
}

TEST(Oracles, TheContrastiveMapIsTheClassMinusItsOpposite) {
  for (const Graph& graph : {plain_net({.bias = true}), branching_net()}) {
    const Walker w(graph, images(1));
    const Attributor attributor(graph, {.method = "contrastive-ebp"});
    const at::Tensor map = attributor.explain(w.x, {}, w.classes).maps;
    const Row own = slow_walk(w, 1, slow_excitation).at(attributor.layer());
    const Row opposite = slow_walk(w, 1, slow_opposite).at(attributor.layer());
    Row expected(static_cast<size_t>(map.numel()), 0);
    for (size_t i = 0; i < own.size(); ++i) expected[i % expected.size()] += own[i] - opposite[i];
    for (double& value : expected) value = plus(value);
    ASSERT_GT(largest(map), 0);
    expect_rows_equal(map, expected, "contrastive-ebp at " + attributor.layer());
  }
}

}  // namespace
}  // namespace pare
