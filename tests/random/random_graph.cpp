#include "random/random_graph.h"

#include <ATen/ATen.h>

#include <functional>

#include "random/random_attention.h"
#include "random/random_nodes.h"

namespace pare {

namespace {

class Generator : RandomNodes {
 public:
  using Ints = RandomNodes::Ints;
  using Attributes = RandomNodes::Attributes;

  Generator(uint64_t seed, const RandomGraphOptions& options) : RandomNodes(seed), options_(options) {}

  Graph run() {
    graph_.name = "random";
    const RandomValue x{"x", {options_.batch, 1 + below(4), 5 + below(6), 5 + below(6)}};
    ValueInfo info{.name = x.name, .dtype = at::kFloat};
    info.dims.emplace();
    for (const int64_t size : x.dims) info.dims->push_back({size, ""});
    if (coin()) info.dims->front() = {-1, "N"};
    graph_.inputs = {info};
    RandomValue now = convolution(x);
    const int64_t layers = 2 + below(options_.layers - 1);
    for (int64_t i = 0; i < layers; ++i) {
      if (now.dims.size() == 4 && below(4) == 0) kept_.push_back(now);
      now = now.dims.size() == 4 ? image_layer(now) : now.dims.size() == 3 ? sequence_layer(now) : vector_layer(now);
    }
    graph_.outputs = {{.name = now.name, .dtype = at::kFloat}};
    if (!kept_.empty() && below(3) == 0 && kept_.back().name != now.name && kept_.back().name != "x")
      graph_.outputs.push_back({.name = kept_.back().name, .dtype = at::kFloat});
    graph_ = remove_unused(graph_);
    verify(graph_);
    return graph_;
  }

 private:
  // Images.

  RandomValue convolution(const RandomValue& x) {
    const int64_t kernel = one_of<int64_t>({1, 3, 3, 5}), groups = group_count(x.channels());
    const int64_t out = groups * (1 + below(std::max<int64_t>(1, 12 / groups)));
    const int64_t stride = x.dims[2] > 4 && x.dims[3] > 4 ? 1 + below(2) : 1;
    const int64_t dilation = kernel == 3 && x.dims[2] > 5 && x.dims[3] > 5 ? 1 + below(2) : 1;
    const int64_t reach = dilation * (kernel - 1);
    Ints pads(4);
    for (auto& pad : pads) pad = reach / 2 + (kernel > 1 ? below(2) : 0);
    const double scale = 1 / std::sqrt(static_cast<double>(x.channels() / groups * kernel * kernel));
    std::vector<std::string> inputs = {x.name, normal({out, x.channels() / groups, kernel, kernel}, scale)};
    if (below(3) > 0) inputs.push_back(normal({out}, 0.3));
    const auto extent = [&](size_t axis) {
      return (x.dims[axis] + pads[axis - 2] + pads[axis] - reach - 1) / stride + 1;
    };
    return node("Conv", inputs, {x.dims[0], out, extent(2), extent(3)},
                {{"group", groups},
                 {"pads", pads},
                 {"strides", Ints{stride, stride}},
                 {"dilations", Ints{dilation, dilation}},
                 {"kernel_shape", Ints{kernel, kernel}}});
  }

  int64_t group_count(int64_t channels) {
    if (below(3) > 0) return 1;
    Ints divisors;
    for (int64_t d = 1; d <= channels; ++d)
      if (channels % d == 0) divisors.push_back(d);
    return one_of(divisors);
  }

  RandomValue transposed(const RandomValue& x) {
    if (x.dims[2] > 12 || x.dims[3] > 12) return convolution(x);
    const int64_t kernel = 2 + below(2), stride = 1 + below(2), groups = group_count(x.channels());
    const int64_t out = 1 + below(4), pad = below(2), extra = stride == 2 ? below(2) : 0;
    const auto extent = [&](size_t axis) { return (x.dims[axis] - 1) * stride - 2 * pad + kernel + extra; };
    if (extent(2) < 1 || extent(3) < 1) return convolution(x);
    const double scale = 1 / std::sqrt(static_cast<double>(x.channels() * kernel));
    return node("ConvTranspose",
                {x.name, normal({x.channels(), out, kernel, kernel}, scale), normal({out * groups}, 0.3)},
                {x.dims[0], out * groups, extent(2), extent(3)},
                {{"group", groups},
                 {"strides", Ints{stride, stride}},
                 {"pads", Ints{pad, pad, pad, pad}},
                 {"output_padding", Ints{extra, extra}}});
  }

  RandomValue normalized(const RandomValue& x) {
    const int64_t c = x.channels();
    switch (below(6)) {
      case 2:
      case 3: return group_norm(x);
      case 0:
        if (x.dims[2] * x.dims[3] < 4) break;
        return node("InstanceNormalization", {x.name, positive({c}), normal({c}, 0.3)}, x.dims);
      case 1:
        return node("LRN", {x.name}, x.dims, {{"size", int64_t{1 + 2 * below(3)}}, {"alpha", 0.1}, {"bias", 1.5}});
      default: break;
    }
    return node("BatchNormalization", {x.name, positive({c}), normal({c}, 0.3), normal({c}, 0.3), positive({c})},
                x.dims);
  }

  RandomValue group_norm(const RandomValue& x) {
    const int64_t c = x.channels();
    Ints divisors;
    for (int64_t d = 1; d <= c; ++d)  // a group of one value would be nothing but rounding
      if (c % d == 0 && c / d * x.dims[2] * x.dims[3] > 3) divisors.push_back(d);
    if (divisors.empty()) return activated(x);
    return node("GroupNormalization", {x.name, positive({c}), normal({c}, 0.3)}, x.dims,
                {{"num_groups", one_of(divisors)}, {"epsilon", 1e-3}});
  }

  RandomValue activated(const RandomValue& x) {
    const std::string op =
        one_of<std::string>({"Relu",        "Relu",      "Relu",     "LeakyRelu", "Elu",  "Selu", "Sigmoid", "Tanh",
                             "HardSigmoid", "HardSwish", "Softplus", "Softsign",  "Celu", "Clip", "PRelu",   "Abs",
                             "Neg",         "Erf",       "Identity", "Dropout",   "Gelu", "Mish"});
    if (op == "Clip")
      return node(op, {x.name, constant(at::full({}, -0.5, at::kFloat)), constant(at::full({}, 1.5, at::kFloat))},
                  x.dims);
    if (op == "PRelu") {
      Ints slope = {1};
      if (coin() && x.dims.size() == 4) slope = {x.channels(), 1, 1};
      return node(op, {x.name, positive(slope)}, x.dims);
    }
    if (op == "LeakyRelu" || op == "Elu" || op == "Celu") return node(op, {x.name}, x.dims, {{"alpha", 0.5}});
    return node(op, {x.name}, x.dims);
  }

  RandomValue pooled(const RandomValue& x) {
    if (x.dims[2] < 3 || x.dims[3] < 3) return node("GlobalAveragePool", {x.name}, {x.dims[0], x.channels(), 1, 1});
    if (below(6) == 0)
      return node(coin() ? "GlobalAveragePool" : "GlobalMaxPool", {x.name}, {x.dims[0], x.channels(), 1, 1});
    const int64_t kernel = 2 + below(2), stride = 1 + below(2), pad = below(2);
    const bool ceil = below(3) == 0 && pad == 0;
    Attributes attributes = {
        {"kernel_shape", Ints{kernel, kernel}}, {"strides", Ints{stride, stride}}, {"pads", Ints{pad, pad, pad, pad}}};
    if (ceil) attributes["ceil_mode"] = int64_t{1};
    const bool average = coin();
    if (average) attributes["count_include_pad"] = int64_t{coin() ? 1 : 0};
    const auto extent = [&](size_t axis) {
      const int64_t free = x.dims[axis] + 2 * pad - kernel;
      int64_t out = (free + (ceil ? stride - 1 : 0)) / stride + 1;
      if (ceil && (out - 1) * stride >= x.dims[axis] + pad) --out;
      return out;
    };
    return node(average ? "AveragePool" : "MaxPool", {x.name}, {x.dims[0], x.channels(), extent(2), extent(3)},
                attributes);
  }

  // Meets an earlier value: of the same size by a sum, of another after a convolution, or side by side.
  RandomValue joined(const RandomValue& x) {
    if (kept_.empty()) return branches(x);
    RandomValue other = one_of(kept_);
    // A value less itself is nothing but rounding.
    if (other.name == x.name || other.dims[2] != x.dims[2] || other.dims[3] != x.dims[3]) return branches(x);
    if (coin()) {
      std::vector<std::string> both = {x.name, other.name};
      if (coin()) std::swap(both[0], both[1]);
      return node("Concat", both, {x.dims[0], x.channels() + other.channels(), x.dims[2], x.dims[3]},
                  {{"axis", int64_t{1}}});
    }
    if (other.channels() != x.channels()) other = pointwise(other, x.channels());
    return node(one_of<std::string>({"Add", "Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"}), {x.name, other.name},
                x.dims);
  }

  RandomValue pointwise(const RandomValue& x, int64_t out) {
    const double scale = 1 / std::sqrt(static_cast<double>(x.channels()));
    return node("Conv", {x.name, normal({out, x.channels(), 1, 1}, scale)}, {x.dims[0], out, x.dims[2], x.dims[3]});
  }

  // A residual block, a gate, or halves that go separate ways.
  RandomValue branches(const RandomValue& x) {
    const int64_t c = x.channels();
    switch (below(3)) {
      case 0: {
        const RandomValue inner = activated(pointwise(x, 1 + below(8)));
        return node("Add", {pointwise(inner, c).name, x.name}, x.dims);
      }
      case 1: {
        const RandomValue all = node("GlobalAveragePool", {x.name}, {x.dims[0], c, 1, 1});
        const RandomValue gate =
            node("Sigmoid", {pointwise(activated(pointwise(all, 1 + below(6))), c).name}, all.dims);
        return node("Mul", {x.name, gate.name}, x.dims);
      }
      default: {
        if (c < 2) return activated(x);
        const int64_t first = 1 + below(c - 1);
        const auto halves = nodes("Split", {x.name, integers({first, c - first})}, {{"axis", int64_t{1}}}, 2);
        const RandomValue left = activated({halves[0], {x.dims[0], first, x.dims[2], x.dims[3]}});
        return node("Concat", {halves[1], left.name}, x.dims, {{"axis", int64_t{1}}});
      }
    }
  }

  RandomValue moved(const RandomValue& x) {
    const int64_t n = x.dims[0], c = x.channels(), h = x.dims[2], w = x.dims[3];
    switch (below(9)) {
      case 0: {  // channel shuffle
        const int64_t g = group_count(c);
        const RandomValue parted = node("Reshape", {x.name, integers({0, g, c / g, h, w})}, {n, g, c / g, h, w});
        const RandomValue turned =
            node("Transpose", {parted.name}, {n, c / g, g, h, w}, {{"perm", Ints{0, 2, 1, 3, 4}}});
        return node("Reshape", {turned.name, integers({0, c, h, w})}, x.dims);
      }
      case 1: return node("Transpose", {x.name}, {n, c, w, h}, {{"perm", Ints{0, 1, 3, 2}}});
      case 2: {
        const int64_t first = below(c), count = 1 + below(c - first);
        return node("Slice", {x.name, integers({first}), integers({first + count}), integers({1})}, {n, count, h, w});
      }
      case 3: {
        const int64_t top = below(2), left = below(3);
        const std::string mode = h > 2 && w > 3 ? one_of<std::string>({"constant", "reflect", "edge"}) : "constant";
        return node("Pad", {x.name, integers({0, 0, top, left, 0, 0, 1, 0})}, {n, c, h + top + 1, w + left},
                    {{"mode", mode}});
      }
      case 4: {
        Ints chosen(static_cast<size_t>(1 + below(c + 2)));
        for (auto& index : chosen) index = below(c);
        return node("Gather", {x.name, integers(chosen)}, {n, static_cast<int64_t>(chosen.size()), h, w},
                    {{"axis", int64_t{1}}});
      }
      case 5: {
        if (h > 8 || w > 8) break;
        const std::string scales = constant(at::tensor(std::vector<float>{1, 1, 2, 2}));
        if (coin())
          return node("Resize", {x.name, "", scales}, {n, c, 2 * h, 2 * w},
                      {{"mode", std::string("nearest")},
                       {"coordinate_transformation_mode", std::string("asymmetric")},
                       {"nearest_mode", std::string("floor")}});
        return node("Resize", {x.name, "", scales}, {n, c, 2 * h, 2 * w},
                    {{"mode", std::string("linear")},
                     {"coordinate_transformation_mode",
                      one_of<std::string>({"half_pixel", "align_corners", "pytorch_half_pixel"})}});
      }
      case 6: {
        if (c % 4 == 0 && h < 8)
          return node("DepthToSpace", {x.name}, {n, c / 4, 2 * h, 2 * w},
                      {{"blocksize", int64_t{2}}, {"mode", one_of<std::string>({"DCR", "CRD"})}});
        if (h % 2 == 0 && w % 2 == 0 && c <= 6)
          return node("SpaceToDepth", {x.name}, {n, 4 * c, h / 2, w / 2}, {{"blocksize", int64_t{2}}});
        break;
      }
      case 7: {
        const RandomValue more = node("Unsqueeze", {x.name, integers({2})}, {n, c, 1, h, w});
        return node("Squeeze", {activated(more).name, integers({2})}, x.dims);
      }
      default: break;
    }
    return scaled(x);
  }

  RandomValue scaled(const RandomValue& x) {
    const int64_t c = x.channels();
    const Ints per_channel = {c, 1, 1};
    const std::string op = one_of<std::string>({"Add", "Mul", "Sub", "Div"});
    const std::string other = op == "Div" ? positive(per_channel) : normal(coin() ? per_channel : Ints{1}, 0.7);
    return node(op, {x.name, other}, x.dims);
  }

  RandomValue image_layer(const RandomValue& x) {
    switch (below(13)) {
      case 0:
      case 1:
      case 2: return activated(convolution(x));
      case 3: return activated(normalized(convolution(x)));
      case 4: return normalized(x);
      case 5: return activated(x);
      case 6: return pooled(x);
      case 7:
      case 8: return joined(x);
      case 9: return moved(x);
      case 10: return transposed(x);
      case 11: return scaled(x);
      default: return flattened(x);
    }
  }

  // To vectors, or to a sequence of the pixels.
  RandomValue flattened(const RandomValue& x) {
    const int64_t n = x.dims[0], c = x.channels(), pixels = x.dims[2] * x.dims[3];
    switch (below(3)) {
      case 0: return linear(node("Flatten", {x.name}, {n, c * pixels}));
      case 1: return node("ReduceMean", {x.name, integers({2, 3})}, {n, c}, {{"keepdims", int64_t{0}}});
      default: {
        const RandomValue rows = node("Reshape", {x.name, integers({0, c, -1})}, {n, c, pixels});
        return node("Transpose", {rows.name}, {n, pixels, c}, {{"perm", Ints{0, 2, 1}}});
      }
    }
  }

  // Vectors and sequences.

  RandomValue linear(const RandomValue& x) {
    const int64_t in = x.dims.back(), out = 1 + below(12);
    const double scale = 1 / std::sqrt(static_cast<double>(in));
    Ints dims = x.dims;
    dims.back() = out;
    if (dims.size() == 2 && coin()) {
      const bool turned = coin();
      return node("Gemm", {x.name, normal(turned ? Ints{out, in} : Ints{in, out}, scale), normal({out}, 0.3)}, dims,
                  {{"transB", int64_t{turned}}, {"alpha", coin() ? 1.0 : 0.5}});
    }
    const RandomValue product = node("MatMul", {x.name, normal({in, out}, scale)}, dims);
    return coin() ? product : node("Add", {product.name, normal({out}, 0.3)}, dims);
  }

  RandomValue layer_norm(const RandomValue& x) {
    const int64_t d = x.dims.back();
    return node("LayerNormalization", {x.name, positive({d}), normal({d}, 0.3)}, x.dims,
                {{"axis", int64_t{-1}}, {"epsilon", 1e-3}});
  }

  RandomValue vector_layer(const RandomValue& x) {
    switch (below(7)) {
      case 0:
      case 1: return activated(linear(x));
      case 2: return linear(x);
      case 3: return layer_norm(x);
      case 4: return node("Softmax", {x.name}, x.dims, {{"axis", int64_t{-1}}});
      case 5: {
        const RandomValue same = linear(linear(x));
        Ints dims = x.dims;
        dims.back() += same.dims.back();
        return node("Concat", {x.name, same.name}, dims, {{"axis", int64_t{-1}}});
      }
      default: return node("Reshape", {x.name, integers({0, x.dims[1], 1, 1})}, {x.dims[0], x.dims[1], 1, 1});
    }
  }

  RandomValue sequence_layer(const RandomValue& x) {
    switch (below(10)) {
      case 6:
      case 7: return transformer_block(x);
      case 8: return random_attention(*this, x);
      case 9: return random_gated_mlp(*this, x);
      case 0: return attention(x);
      case 1: return activated(linear(x));
      case 2: return layer_norm(x);
      case 3: return node("ReduceMean", {x.name, integers({1})}, {x.dims[0], x.dims[2]}, {{"keepdims", int64_t{0}}});
      case 4: {
        const RandomValue inner = activated(linear(x));
        const RandomValue back =
            node("MatMul",
                 {inner.name, normal({inner.dims[2], x.dims[2]}, 1 / std::sqrt(static_cast<double>(inner.dims[2])))},
                 x.dims);
        return node("Add", {back.name, x.name}, x.dims);
      }
      default: return linear(x);
    }
  }

  RandomValue attention(const RandomValue& x) {
    const int64_t n = x.dims[0], t = x.dims[1], d = x.dims[2], inner = 1 + below(6);
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const auto project = [&] { return node("MatMul", {x.name, normal({d, inner}, scale)}, {n, t, inner}); };
    const RandomValue q = project(), k = project(), v = project();
    const RandomValue turned = node("Transpose", {k.name}, {n, inner, t}, {{"perm", Ints{0, 2, 1}}});
    const RandomValue scores = node("MatMul", {q.name, turned.name}, {n, t, t});
    const RandomValue weights = node("Softmax", {scores.name}, scores.dims, {{"axis", int64_t{-1}}});
    return node("MatMul", {weights.name, v.name}, {n, t, inner});
  }

  // x + heads(norm(x)), with the norm before or after.
  RandomValue transformer_block(const RandomValue& x) {
    const bool before = coin();
    const RandomValue inner = heads(before ? layer_norm(x) : x);
    const RandomValue sum = node("Add", {inner.name, x.name}, x.dims);
    return before ? sum : layer_norm(sum);
  }

  // Queries, keys and values of one projection each, or of one for all: split, or apart along an axis of their own.
  RandomValue heads(const RandomValue& x) {
    const int64_t n = x.dims[0], t = x.dims[1], d = x.dims[2], h = 1 + below(3), e = 1 + below(4), inner = h * e;
    const auto project = [&](const RandomValue& from, int64_t width) {
      const RandomValue product =
          node("MatMul", {from.name, normal({from.dims[2], width}, 1 / std::sqrt(static_cast<double>(from.dims[2])))},
               {n, t, width});
      return coin() ? product : node("Add", {product.name, normal({width}, 0.3)}, product.dims);
    };
    const auto in_heads = [&](const RandomValue& v) {
      const RandomValue parted = node("Reshape", {v.name, integers({0, t, h, e})}, {n, t, h, e});
      return node("Transpose", {parted.name}, {n, h, t, e}, {{"perm", Ints{0, 2, 1, 3}}});
    };
    std::vector<RandomValue> qkv;
    switch (below(3)) {
      case 0:
        for (int i = 0; i < 3; ++i) qkv.push_back(in_heads(project(x, inner)));
        break;
      case 1: {
        const auto parts =
            nodes("Split", {project(x, 3 * inner).name, integers({inner, inner, inner})}, {{"axis", int64_t{-1}}}, 3);
        for (const std::string& part : parts) qkv.push_back(in_heads({part, {n, t, inner}}));
        break;
      }
      default: {
        const RandomValue parted =
            node("Reshape", {project(x, 3 * inner).name, integers({0, t, 3, h, e})}, {n, t, 3, h, e});
        const RandomValue turned = node("Transpose", {parted.name}, {3, n, h, t, e}, {{"perm", Ints{2, 0, 3, 1, 4}}});
        for (int64_t i = 0; i < 3; ++i)
          qkv.push_back(node("Gather", {turned.name, constant(at::full({}, i, at::kLong))}, {n, h, t, e},
                             {{"axis", int64_t{0}}}));
      }
    }
    const RandomValue turned = node("Transpose", {qkv[1].name}, {n, h, e, t}, {{"perm", Ints{0, 1, 3, 2}}});
    const RandomValue scores = node("MatMul", {qkv[0].name, turned.name}, {n, h, t, t});
    const RandomValue scaled = node(
        "Mul", {scores.name, constant(at::full({}, 1 / std::sqrt(static_cast<double>(e)), at::kFloat))}, scores.dims);
    const RandomValue weights = node("Softmax", {scaled.name}, scores.dims, {{"axis", int64_t{-1}}});
    const RandomValue mixed = node("MatMul", {weights.name, qkv[2].name}, {n, h, t, e});
    const RandomValue back = node("Transpose", {mixed.name}, {n, t, h, e}, {{"perm", Ints{0, 2, 1, 3}}});
    return project(node("Reshape", {back.name, integers({0, t, inner})}, {n, t, inner}), d);
  }

  const RandomGraphOptions options_;
  std::vector<RandomValue> kept_;  // images that a later layer may meet
};

}  // namespace

Graph random_graph(uint64_t seed, const RandomGraphOptions& options) { return Generator(seed, options).run(); }

}  // namespace pare
