// An encoder of text in the shape of BERT-tiny (Devlin et al. 2019; Turc et al. 2019): 2 layers, width 128, 2 heads, a
// vocabulary of 30,522; token ids in, scores of classes out. Every token counts (no mask), all belong to one sentence.
// Names are Hugging Face's: embeddings.word_embeddings, encoder.layer.0.attention.self.query, …, pooler.dense,
// classifier; a checkpoint's prefix `bert.` is left out.
#include <ATen/ATen.h>

#include <utility>

#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"
#include "pare/zoo/tokens.h"

namespace pare {
namespace {

constexpr double kEpsilon = 1e-12;
constexpr int64_t kVocabulary = 30522, kLongest = 512, kKinds = 2, kLayers = 2, kHeads = 2, kHeadSize = 64;

// Rows of a table, by ids (a value or a constant).
BuiltValue rows_of(GraphBuilder& b, const std::string& table, const std::vector<int64_t>& extents,
                   const std::string& ids, std::vector<int64_t> shape) {
  return b.append({.name = table,
                   .op = "Gather",
                   .inputs = {b.parameter(table + ".weight", extents), ids},
                   .attributes = {{"axis", int64_t{0}}}},
                  std::move(shape));
}

BuiltValue embeddings(GraphBuilder& b, int64_t length, int64_t width) {
  const BuiltValue words =
      rows_of(b, "embeddings.word_embeddings", {kVocabulary, width}, b.input().name, {length, width});
  const BuiltValue kinds = rows_of(b, "embeddings.token_type_embeddings", {kKinds, width},
                                   b.constant("embeddings.kind", {0}), {length, width});
  const BuiltValue places = rows_of(b, "embeddings.position_embeddings", {kLongest, width},
                                    b.constant("embeddings.places", at::arange(length, at::kLong)), {length, width});
  const BuiltValue x = b.add(b.add(words, kinds, "embeddings.words"), places, "embeddings.sum");
  return token_norm(b, x, "embeddings.LayerNorm", kEpsilon);
}

BuiltValue layer(GraphBuilder& b, const BuiltValue& x, const std::string& name, const ArchOptions& o) {
  const int64_t width = x.shape[1];
  const auto heads = [&](const char* part) {
    const std::string path = fmt::format("{}.attention.self.{}", name, part);
    return split_and_turn(b, token_linear(b, x, path, width), path + ".heads", {kHeads}, {0, 2, 1, 3});
  };
  const BuiltValue q = heads("query"), k = heads("key"), v = heads("value");
  BuiltValue y = attention_of_heads(b, q, k, v, name + ".attention.self");
  y = b.dropout(token_linear(b, y, name + ".attention.output.dense", width), name + ".attention.output.dropout",
                o.dropout);
  const BuiltValue seen =
      token_norm(b, b.add(y, x, name + ".attention.output.sum"), name + ".attention.output.LayerNorm", kEpsilon);
  y = token_linear(b, seen, name + ".intermediate.dense", 4 * width);
  y = b.activation(y, name + ".intermediate.act", o.activation);
  y = b.dropout(token_linear(b, y, name + ".output.dense", width), name + ".output.dropout", o.dropout);
  return token_norm(b, b.add(y, seen, name + ".output.sum"), name + ".output.LayerNorm", kEpsilon);
}

}  // namespace

Graph bert_tiny(const ArchOptions& o) {
  const int64_t length = o.input.at(0);
  if (length > kLongest)
    throw Error(ErrorKind::shape, "bert-tiny", "has places for {} tokens, found {}", kLongest, length);
  GraphBuilder b("bert-tiny", o.input, at::kLong);
  BuiltValue x = embeddings(b, length, kHeads * scaled_width(o, kHeadSize));
  for (int64_t i = 0; i < kLayers; ++i) x = layer(b, x, fmt::format("encoder.layer.{}", i), o);
  x = b.linear(first_token(b, x, "first"), "pooler.dense", x.shape[1]);
  x = b.activation(x, "pooler.act", "tanh");
  return std::move(b).finish(b.linear(x, "classifier", o.classes, o.bias.value_or(true)));
}

}  // namespace pare
