#include "random/random_attention.h"

#include <cmath>

namespace pare {

namespace {

using Ints = RandomNodes::Ints;

struct Heads {
  int64_t n, t, d, queries, keys, size;
};

class Attention {
 public:
  Attention(RandomNodes& nodes, const RandomValue& x) : r_(nodes), x_(x) {
    const int64_t keys = 1 + r_.below(3), serves = 1 + r_.below(2);
    h_ = {x.dims[0], x.dims[1], x.dims[2], keys * serves, keys, 2 * (1 + r_.below(3))};
  }

  RandomValue matmuls() {
    RandomValue q = in_heads(projection(h_.queries), h_.queries), k = in_heads(projection(h_.keys), h_.keys),
                v = in_heads(projection(h_.keys), h_.keys);
    if (r_.below(3) == 0) q = normalized(q), k = normalized(k);
    if (r_.below(3) == 0) {
      cos_ = r_.normal({1, 1, h_.t, h_.size}, 1);
      sin_ = r_.normal({1, 1, h_.t, h_.size}, 1);
      q = turned(q), k = turned(k);
    }
    k = served(k), v = served(v);
    const RandomValue keys =
        r_.node("Transpose", {k.name}, {h_.n, h_.queries, h_.size, h_.t}, {{"perm", Ints{0, 1, 3, 2}}});
    const Ints square = {h_.n, h_.queries, h_.t, h_.t};
    RandomValue scores = r_.node("MatMul", {q.name, keys.name}, square);
    scores = r_.node("Mul",
                     {scores.name, r_.constant(at::full({}, 1 / std::sqrt(static_cast<double>(h_.size)), at::kFloat))},
                     square);
    if (r_.coin()) scores = r_.node("Add", {scores.name, r_.normal({1, h_.queries, h_.t, h_.t}, 0.5)}, square);
    const RandomValue shares = r_.node("Softmax", {scores.name}, square, {{"axis", int64_t{-1}}});
    const RandomValue seen = r_.node("MatMul", {shares.name, v.name}, {h_.n, h_.queries, h_.t, h_.size});
    const RandomValue back =
        r_.node("Transpose", {seen.name}, {h_.n, h_.t, h_.queries, h_.size}, {{"perm", Ints{0, 2, 1, 3}}});
    const int64_t inner = h_.queries * h_.size;
    return joined(r_.node("Reshape", {back.name, r_.integers({0, h_.t, inner})}, {h_.n, h_.t, inner}));
  }

  RandomValue einsums() {
    h_.keys = h_.queries;
    const auto project = [&] {
      return einsum("btd,dhe->bthe", x_, {r_.normal({h_.d, h_.queries, h_.size}, scale(h_.d)), {}},
                    {h_.n, h_.t, h_.queries, h_.size});
    };
    const RandomValue q = project(), k = project(), v = project();
    const Ints square = {h_.n, h_.queries, h_.t, h_.t};
    const RandomValue scores = einsum("bqhe,bkhe->bhqk", q, k, square);
    const RandomValue shares = r_.node("Softmax", {scores.name}, square, {{"axis", int64_t{-1}}});
    const RandomValue seen = einsum("bhqk,bkhe->bqhe", shares, v, {h_.n, h_.t, h_.queries, h_.size});
    const RandomValue y = einsum("bqhe,hed->bqd", seen,
                                 {r_.normal({h_.queries, h_.size, h_.d}, scale(h_.queries * h_.size)), {}}, x_.dims);
    return r_.node("Add", {y.name, x_.name}, x_.dims);
  }

 private:
  static double scale(int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }

  RandomValue einsum(const std::string& equation, const RandomValue& a, const RandomValue& b, const Ints& dims) {
    return r_.node("Einsum", {a.name, b.name}, dims, {{"equation", equation}});
  }

  RandomValue projection(int64_t heads) {
    const int64_t inner = heads * h_.size;
    const Ints dims = {h_.n, h_.t, inner};
    const RandomValue product = r_.node("MatMul", {x_.name, r_.normal({h_.d, inner}, scale(h_.d))}, dims);
    return r_.coin() ? product : r_.node("Add", {product.name, r_.normal({inner}, 0.3)}, dims);
  }

  RandomValue in_heads(const RandomValue& v, int64_t heads) {
    const RandomValue parted =
        r_.node("Reshape", {v.name, r_.integers({0, h_.t, heads, h_.size})}, {h_.n, h_.t, heads, h_.size});
    return r_.node("Transpose", {parted.name}, {h_.n, heads, h_.t, h_.size}, {{"perm", Ints{0, 2, 1, 3}}});
  }

  RandomValue normalized(const RandomValue& v) {
    return r_.node("LayerNormalization", {v.name, r_.positive({h_.size}), r_.normal({h_.size}, 0.3)}, v.dims,
                   {{"axis", int64_t{-1}}, {"epsilon", 1e-2}});
  }

  RandomValue turned(const RandomValue& v) {
    Ints dims = v.dims;
    dims[3] = h_.size / 2;
    const auto part = [&](int64_t from) {
      return r_.node("Slice", {v.name, r_.integers({from}), r_.integers({from + h_.size / 2}), r_.integers({3})}, dims);
    };
    const RandomValue low = part(0), high = part(h_.size / 2);
    const RandomValue minus = r_.node("Neg", {high.name}, dims);
    const RandomValue half = r_.node("Concat", {minus.name, low.name}, v.dims, {{"axis", int64_t{3}}});
    const RandomValue a = r_.node("Mul", {v.name, cos_}, v.dims), b = r_.node("Mul", {half.name, sin_}, v.dims);
    return r_.node("Add", {a.name, b.name}, v.dims);
  }

  // Heads of keys once for each head of queries that they serve.
  RandomValue served(const RandomValue& v) {
    if (h_.keys == h_.queries) return v;
    const int64_t serves = h_.queries / h_.keys;
    const RandomValue apart = r_.node("Unsqueeze", {v.name, r_.integers({2})}, {h_.n, h_.keys, 1, h_.t, h_.size});
    const Ints dims = {h_.n, h_.keys, serves, h_.t, h_.size};
    const RandomValue many = r_.node("Expand", {apart.name, r_.integers({1, 1, serves, 1, 1})}, dims);
    return r_.node("Reshape", {many.name, r_.integers({0, h_.queries, h_.t, h_.size})},
                   {h_.n, h_.queries, h_.t, h_.size});
  }

  RandomValue joined(const RandomValue& y) {
    const RandomValue product = r_.node("MatMul", {y.name, r_.normal({y.dims[2], h_.d}, scale(y.dims[2]))}, x_.dims);
    return r_.node("Add", {product.name, x_.name}, x_.dims);
  }

  RandomNodes& r_;
  RandomValue x_;
  Heads h_{};
  std::string cos_, sin_;
};

}  // namespace

RandomValue random_attention(RandomNodes& nodes, const RandomValue& x) {
  Attention attention(nodes, x);
  return nodes.below(4) == 0 ? attention.einsums() : attention.matmuls();
}

RandomValue random_gated_mlp(RandomNodes& r, const RandomValue& x) {
  const int64_t d = x.dims[2], hidden = 1 + r.below(8);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const Ints dims = {x.dims[0], x.dims[1], hidden};
  RandomValue gate, up;
  if (r.coin()) {
    gate = r.node("MatMul", {x.name, r.normal({d, hidden}, scale)}, dims);
    up = r.node("MatMul", {x.name, r.normal({d, hidden}, scale)}, dims);
  } else {
    const RandomValue both =
        r.node("MatMul", {x.name, r.normal({d, 2 * hidden}, scale)}, {x.dims[0], x.dims[1], 2 * hidden});
    const auto parts = r.nodes("Split", {both.name, r.integers({hidden, hidden})}, {{"axis", int64_t{-1}}}, 2);
    gate = {parts[0], dims}, up = {parts[1], dims};
  }
  const bool silu = r.coin();
  const RandomValue open = r.node(silu ? "Sigmoid" : "Gelu", {gate.name}, dims);
  const RandomValue passed = silu ? r.node("Mul", {gate.name, open.name}, dims) : open;
  const RandomValue inner = r.node("Mul", {passed.name, up.name}, dims);
  const RandomValue y =
      r.node("MatMul", {inner.name, r.normal({hidden, d}, 1 / std::sqrt(static_cast<double>(hidden)))}, x.dims);
  return r.node("Add", {y.name, x.name}, x.dims);
}

}  // namespace pare
