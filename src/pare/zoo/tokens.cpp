#include "pare/zoo/tokens.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

namespace pare {

BuiltValue token_linear(GraphBuilder& b, const BuiltValue& x, const std::string& name, int64_t out, bool bias) {
  auto shape = x.shape;
  shape.back() = out;
  Node product{.name = bias ? name + ".matmul" : name, .op = "MatMul"};
  product.inputs = {x.name, b.parameter(name + ".weight", {x.shape.back(), out})};
  const BuiltValue y = b.append(std::move(product), shape);
  if (!bias) return y;
  return b.append({.name = name, .op = "Add", .inputs = {y.name, b.parameter(name + ".bias", {out})}}, shape);
}

BuiltValue token_norm(GraphBuilder& b, const BuiltValue& x, const std::string& name, double epsilon) {
  Node node{.name = name, .op = "LayerNormalization"};
  node.inputs = {x.name, b.parameter(name + ".weight", {x.shape.back()}),
                 b.parameter(name + ".bias", {x.shape.back()})};
  node.attributes = {{"axis", int64_t{-1}}, {"epsilon", epsilon}};
  return b.append(std::move(node), x.shape);
}

BuiltValue split_and_turn(GraphBuilder& b, const BuiltValue& x, const std::string& name, std::vector<int64_t> split,
                          const std::vector<int64_t>& order) {
  std::vector<int64_t> extents = {0, x.shape.at(0)};  // 0: as many samples as there are
  int64_t rest = x.shape.at(1);
  for (const int64_t parts : split) {
    extents.push_back(parts);
    rest /= parts;
  }
  extents.push_back(rest);
  const BuiltValue parts =
      b.append({.name = name + ".split", .op = "Reshape", .inputs = {x.name, b.constant(name + ".extents", extents)}},
               {extents.begin() + 1, extents.end()});
  std::vector<int64_t> shape;
  for (const int64_t axis : order)
    if (axis != 0) shape.push_back(extents[static_cast<size_t>(axis)]);
  return b.append({.name = name, .op = "Transpose", .inputs = {parts.name}, .attributes = {{"perm", order}}}, shape);
}

BuiltValue attention_of_heads(GraphBuilder& b, const BuiltValue& q, const BuiltValue& k, const BuiltValue& v,
                              const std::string& name) {
  const int64_t heads = q.shape.at(0), queries = q.shape.at(1), size = q.shape.at(2), keys = k.shape.at(1);
  const std::string scale =
      b.constant(name + ".scale", at::full({}, 1 / std::sqrt(static_cast<double>(size)), at::kFloat));
  const BuiltValue scaled = b.append({.name = name + ".scaled", .op = "Mul", .inputs = {q.name, scale}}, q.shape);
  const BuiltValue turned = b.append({.name = name + ".keys",
                                      .op = "Transpose",
                                      .inputs = {k.name},
                                      .attributes = {{"perm", std::vector<int64_t>{0, 1, 3, 2}}}},
                                     {heads, size, keys});
  const BuiltValue scores = b.append({.name = name + ".scores", .op = "MatMul", .inputs = {scaled.name, turned.name}},
                                     {heads, queries, keys});
  const BuiltValue shares = b.append(
      {.name = name + ".shares", .op = "Softmax", .inputs = {scores.name}, .attributes = {{"axis", int64_t{-1}}}},
      scores.shape);
  const BuiltValue seen = b.append({.name = name + ".seen", .op = "MatMul", .inputs = {shares.name, v.name}},
                                   {heads, queries, v.shape.at(2)});
  const BuiltValue beside = b.append({.name = name + ".beside",
                                      .op = "Transpose",
                                      .inputs = {seen.name},
                                      .attributes = {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}},
                                     {queries, heads, v.shape.at(2)});
  const int64_t width = heads * v.shape.at(2);
  return b.append({.name = name + ".joined",
                   .op = "Reshape",
                   .inputs = {beside.name, b.constant(name + ".joined.extents", {0, queries, width})}},
                  {queries, width});
}

BuiltValue first_token(GraphBuilder& b, const BuiltValue& x, const std::string& name) {
  const std::string zero = b.constant(name + ".index", at::zeros({}, at::kLong));
  return b.append({.name = name, .op = "Gather", .inputs = {x.name, zero}, .attributes = {{"axis", int64_t{1}}}},
                  {x.shape.at(1)});
}

}  // namespace pare
