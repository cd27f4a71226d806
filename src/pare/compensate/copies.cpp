#include "pare/compensate/copies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace pare {

namespace {

using Kind = ExpressionKind;

constexpr double kRounding = 2e-6;

bool vanishes(const Relation& relation) { return std::abs(relation.offset) <= kRounding * relation.size; }
bool close(double a, double b) { return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b)); }
bool is_identity(const Relation& relation) { return close(relation.scale, 1) && vanishes(relation); }

std::optional<Relation> affine(const Relation& x, double g_r, double h_r, double g_k, double h_k) {
  if (x.scale * g_r == 0) return Relation{0, g_r * x.offset + h_r, std::abs(g_r) * x.size + std::abs(h_r)};
  if (g_k == 0) return {};
  const double scale = x.scale * g_r / g_k;
  Relation y{scale, g_r * x.offset + h_r - scale * h_k, std::abs(g_r) * x.size + std::abs(h_r) + std::abs(scale * h_k)};
  if (vanishes(y)) y.offset = 0;
  return y;
}

// Scale and shift of a channel's own affine step.
std::pair<double, double> steps(const Expression& e) {
  if (e.kind == Kind::affine) return {e.scale, e.shift};
  const auto [gamma, beta, mean, sigma] = e.norm;
  return {gamma / sigma, beta - mean * gamma / sigma};
}

// What a law lets pass of a relation.
bool passes(Law law, const Relation& x) {
  const bool proportional = x.offset == 0;
  switch (law) {
    case Law::average: return true;
    case Law::linear: return proportional;
    case Law::order: return x.scale > 0;
    case Law::homogeneous: return proportional && x.scale > 0;
    case Law::rigid: return proportional && close(x.scale, 1);
  }
  return false;
}

}  // namespace

std::optional<Relation> Copies::relation(ExpressionId r, ExpressionId k) {
  if (r == kUnknown || k == kUnknown) return {};
  const auto found = known_.find({r, k});
  if (found != known_.end()) return found->second;
  auto relation = find(r, k);
  if (relation && (!std::isfinite(relation->scale) || !std::isfinite(relation->offset))) relation.reset();
  return known_[{r, k}] = relation;
}

std::optional<Relation> Copies::find(ExpressionId r, ExpressionId k) {
  if (r == k) return Relation{1, 0, 0};
  const Expression& a = expressions_[r];
  const Expression& b = expressions_[k];
  if (a.kind != b.kind || a.node != b.node || a.operands.size() != b.operands.size()) return {};
  switch (a.kind) {
    case Kind::constant: return a.shift == b.shift ? Relation{1, 0, 0} : Relation{0, a.shift, std::abs(a.shift)};
    case Kind::row: return rows(a, b);
    case Kind::affine:
    case Kind::norm: {
      const auto x = relation(a.operands[0], b.operands[0]);
      const auto [g_r, h_r] = steps(a);
      const auto [g_k, h_k] = steps(b);
      return x ? affine(*x, g_r, h_r, g_k, h_k) : std::nullopt;
    }
    case Kind::function: return function(a, b);
    case Kind::at: return a.place == b.place ? relation(a.operands[0], b.operands[0]) : std::nullopt;
    case Kind::depthwise: return depthwise(a, b);
    case Kind::sum:
    case Kind::product:
    case Kind::extremum: return operands(a, b);
    case Kind::unknown: break;
  }
  return {};
}

std::optional<double> Copies::ratio(const Expression& r, const Expression& k) const {
  const at::Tensor both = weight_rows(graph_, r, {r.place, k.place}).to(at::kDouble);
  const double own = both[0].dot(both[0]).item<double>(), other = both[1].dot(both[1]).item<double>();
  if (own == 0) return 0;
  if (other == 0) return {};
  const double s = both[0].dot(both[1]).item<double>() / other;
  const double rest = (both[0] - s * both[1]).norm().item<double>();
  return rest <= kRounding * std::sqrt(own) ? std::optional(s) : std::nullopt;
}

std::optional<Relation> Copies::rows(const Expression& r, const Expression& k) {
  if (r.part != k.part) return {};
  const auto s = ratio(r, k);
  if (!s) return {};
  if (*s == 0) return Relation{0, r.shift, std::abs(r.shift)};
  const double length = weight_rows(graph_, r, {r.place}).to(at::kDouble).norm().item<double>();
  Relation relation{*s, r.shift - *s * k.shift, length + std::abs(r.shift) + std::abs(*s * k.shift)};
  if (vanishes(relation)) relation.offset = 0;
  return relation;
}

std::optional<Relation> Copies::function(const Expression& r, const Expression& k) {
  auto x = relation(r.operands[0], k.operands[0]);
  if (!x || !passes(r.law, *x)) return {};
  for (size_t i = 1; i < r.operands.size(); ++i) {  // slopes and the like
    const auto other = relation(r.operands[i], k.operands[i]);
    if (!other || !is_identity(*other)) return {};
  }
  return x;
}

std::optional<Relation> Copies::depthwise(const Expression& r, const Expression& k) {
  const auto x = relation(r.operands[0], k.operands[0]);
  const auto rho = ratio(r, k);
  if (!x || !rho || (x->offset != 0 && !r.keeps_constants)) return {};
  const at::Tensor kernel = weight_rows(graph_, r, {r.place}).to(at::kDouble);
  const double taken = kernel.sum().item<double>(), length = kernel.abs().sum().item<double>();
  const double scale = x->scale * *rho;
  Relation y{scale, x->offset * taken + r.shift - scale * k.shift,
             x->size * length + std::abs(r.shift) + std::abs(scale * k.shift)};
  if (vanishes(y)) y.offset = 0;
  return y;
}

std::optional<Relation> Copies::operands(const Expression& r, const Expression& k) {
  std::vector<Relation> x;
  for (size_t i = 0; i < r.operands.size(); ++i) {
    const auto next = relation(r.operands[i], k.operands[i]);
    if (!next) return {};
    x.push_back(*next);
  }
  Relation all = x[0];
  for (size_t i = 1; i < x.size(); ++i) {
    if (r.kind == Kind::product) {
      if (all.offset != 0 || x[i].offset != 0) return {};
      all = {all.scale * x[i].scale, 0, all.size * x[i].size};
      continue;
    }
    if (!close(all.scale, x[i].scale)) return {};
    const double size = all.size + x[i].size;
    if (r.kind == Kind::extremum && !(std::abs(all.offset - x[i].offset) <= kRounding * size)) return {};
    if (r.kind == Kind::sum) all.offset += x[i].offset;
    all.size = size;
  }
  if (r.kind == Kind::extremum && !(all.scale > 0)) return {};
  if (vanishes(all)) all.offset = 0;
  return all;
}

double Copies::angle(ExpressionId id) {
  const Expression* e = &expressions_[id];
  while (!e->operands.empty()) e = &expressions_[e->operands[0]];
  if (e->kind != Kind::row) return std::nan("");
  at::Tensor& all = angles_[{e->node, e->part}];
  if (!all.defined()) {
    const Node& node = graph_.nodes[e->node];
    int64_t count = e->place + 1;
    for (const Expression& other : expressions_.list)
      if (other.kind == Kind::row && other.node == e->node && other.part == e->part)
        count = std::max(count, other.place + 1);
    std::vector<int64_t> places(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) places[static_cast<size_t>(i)] = i;
    const at::Tensor rows = weight_rows(graph_, *e, places).to(at::kFloat);
    const auto generator = at::detail::createCPUGenerator(node.outputs.size());
    const at::Tensor plane = at::mm(rows, at::randn({rows.size(1), 2}, generator, at::TensorOptions(at::kFloat)));
    all = at::atan(plane.select(1, 1) / plane.select(1, 0)).to(at::kDouble).contiguous();
  }
  return all.data_ptr<double>()[e->place];
}

}  // namespace pare
