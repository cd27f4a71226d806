// Vision transformers (Dosovitskiy et al. 2021) in the shape of DeiT-tiny (Touvron et al. 2021): patches of 16 pixels,
// 12 blocks, width 192, 3 heads. For small images patches of 4, 6 blocks, width 128, 4 heads and an MLP twice as wide.
// Names are timm's: cls_token, pos_embed, patch_embed.proj, blocks.0.{norm1, attn.qkv, attn.proj, norm2, mlp.fc1,
// mlp.fc2}, norm, head.
#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"
#include "pare/zoo/tokens.h"

namespace pare {
namespace {

constexpr double kEpsilon = 1e-6;

struct VitShape {
  int64_t patch, depth, heads, head_size, mlp_ratio;
};
constexpr VitShape kDeitTiny{.patch = 16, .depth = 12, .heads = 3, .head_size = 64, .mlp_ratio = 4};
constexpr VitShape kSmallImages{.patch = 4, .depth = 6, .heads = 4, .head_size = 32, .mlp_ratio = 2};

// Where places begin: sines and cosines of the row and of the column, a quarter of the width each (Beyer et al. 2022,
// Better plain ViT baselines), which trains faster than noise. Nothing for the class token.
at::Tensor sines_and_cosines(int64_t rows, int64_t columns, int64_t width) {
  const int64_t quarter = width / 4;
  at::Tensor places = at::zeros({rows * columns + 1, width}, at::kFloat);
  const at::Tensor rates =
      at::pow(10000.0, -at::arange(quarter, at::kFloat) / static_cast<double>(std::max<int64_t>(quarter - 1, 1)));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const at::Tensor y = rates * static_cast<double>(row), x = rates * static_cast<double>(column);
      places[1 + row * columns + column].narrow(0, 0, 4 * quarter).copy_(at::cat({x.sin(), x.cos(), y.sin(), y.cos()}));
    }
  return places.unsqueeze(0);
}

// The image as tokens: a class token, then its patches.
BuiltValue tokens_of(GraphBuilder& b, const VitShape& shape, int64_t width) {
  BuiltValue x = b.conv(b.input(), "patch_embed.proj", width, shape.patch, {.stride = shape.patch, .bias = true});
  const int64_t rows = x.shape[1], columns = x.shape[2];
  x = b.append({.name = "patch_embed.flat",
                .op = "Reshape",
                .inputs = {x.name, b.constant("patch_embed.extents", {0, width, rows * columns})}},
               {width, rows * columns});
  x = b.append({.name = "patch_embed.tokens",
                .op = "Transpose",
                .inputs = {x.name},
                .attributes = {{"perm", std::vector<int64_t>{0, 2, 1}}}},
               {rows * columns, width});
  const BuiltValue samples = b.append({.name = "samples",
                                       .op = "Shape",
                                       .inputs = {x.name},
                                       .attributes = {{"start", int64_t{0}}, {"end", int64_t{1}}}},
                                      {});
  const BuiltValue extents = b.append({.name = "cls.extents",
                                       .op = "Concat",
                                       .inputs = {samples.name, b.constant("cls.one", {1, 1})},
                                       .attributes = {{"axis", int64_t{0}}}},
                                      {});
  const BuiltValue token = b.append(
      {.name = "cls", .op = "Expand", .inputs = {b.parameter("cls_token", {1, 1, width}), extents.name}}, {1, width});
  x = b.concat({token, x}, "tokens");
  return b.append({.name = "placed",
                   .op = "Add",
                   .inputs = {x.name, b.constant("pos_embed", sines_and_cosines(rows, columns, width))}},
                  x.shape);
}

// What every head of `part` (0 queries, 1 keys, 2 values) has: [N, heads, length, size].
BuiltValue part_of(GraphBuilder& b, const BuiltValue& qkv, int64_t part, const std::string& name) {
  const std::string index = b.constant(name + ".index", at::full({}, part, at::kLong));
  return b.append({.name = name, .op = "Gather", .inputs = {qkv.name, index}, .attributes = {{"axis", int64_t{0}}}},
                  {qkv.shape.begin() + 1, qkv.shape.end()});
}

BuiltValue block(GraphBuilder& b, const BuiltValue& x, const std::string& name, const VitShape& shape,
                 const ArchOptions& o) {
  const int64_t width = x.shape[1];
  BuiltValue y = token_norm(b, x, name + ".norm1", kEpsilon);
  y = token_linear(b, y, name + ".attn.qkv", 3 * width);
  y = split_and_turn(b, y, name + ".attn.parts", {3, shape.heads}, {2, 0, 3, 1, 4});
  y = attention_of_heads(
      b, part_of(b, {y.name, {3, shape.heads, x.shape[0], width / shape.heads}}, 0, name + ".attn.q"),
      part_of(b, {y.name, {3, shape.heads, x.shape[0], width / shape.heads}}, 1, name + ".attn.k"),
      part_of(b, {y.name, {3, shape.heads, x.shape[0], width / shape.heads}}, 2, name + ".attn.v"), name + ".attn");
  y = token_linear(b, y, name + ".attn.proj", width);
  const BuiltValue middle = b.add(x, b.dropout(y, name + ".attn.drop", o.dropout), name + ".add1");
  y = token_norm(b, middle, name + ".norm2", kEpsilon);
  y = token_linear(b, y, name + ".mlp.fc1", shape.mlp_ratio * width);
  y = b.activation(y, name + ".mlp.act", o.activation);
  y = token_linear(b, y, name + ".mlp.fc2", width);
  return b.add(middle, b.dropout(y, name + ".mlp.drop", o.dropout), name + ".add2");
}

}  // namespace

Graph vit_tiny(const ArchOptions& o) {
  const VitShape shape = imagenet_stem(o) ? kDeitTiny : kSmallImages;
  GraphBuilder b("vit-tiny", o.input);
  BuiltValue x = tokens_of(b, shape, shape.heads * scaled_width(o, shape.head_size));
  for (int64_t i = 0; i < shape.depth; ++i) x = block(b, x, fmt::format("blocks.{}", i), shape, o);
  x = first_token(b, token_norm(b, x, "norm", kEpsilon), "class");
  return std::move(b).finish(b.linear(x, "head", o.classes, o.bias.value_or(true)));
}

}  // namespace pare
