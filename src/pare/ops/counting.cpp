// What is there, and how often: Unique and TfIdfVectorizer.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "pare/ops/common.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace counting {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// The first place of each of `count` kinds.
Tensor first_places(const Tensor& kind, int64_t count) {
  const Tensor kinds = kind.contiguous();
  Tensor first = at::full({count}, -1, at::kLong);
  for (int64_t i = kinds.numel(); i-- > 0;) first.data_ptr<int64_t>()[kinds.data_ptr<int64_t>()[i]] = i;
  return first;
}

// Values (slices along an axis) once each, the place where each is first, which one each entry is, and their counts.
Tensors unique(const EvalContext& context) {
  const Node& node = context.node;
  const bool flat = !node.has("axis");
  const Tensor x = flat ? context.in(0).flatten() : context.in(0);
  const int64_t axis = flat ? 0 : normalized_axis(node.integer("axis", 0), x.dim(), node);
  if (x.numel() == 0) throw Error(ErrorKind::shape, describe(node), "looks for values in nothing");
  auto [values, kind, counts] =
      at::unique_dim(x, axis, /*sorted=*/true, /*return_inverse=*/true, /*return_counts=*/true);
  Tensor first = first_places(kind, counts.size(0));
  if (node.integer("sorted", 1) == 0) {
    const Tensor order = at::argsort(first);
    const Tensor place = at::empty_like(order).scatter_(0, order, at::arange(order.size(0), at::kLong));
    values = values.index_select(axis, order);
    counts = counts.index_select(0, order);
    first = first.index_select(0, order);
    kind = place.index_select(0, kind.flatten());
  }
  return {values, first, kind.flatten(), counts};
}

std::vector<TensorType> infer_unknown(const InferContext& /*context*/) { throw UnknownValue{}; }

// --- TfIdfVectorizer: how often the n-grams of a pool occur, tokens skipped between theirs or not

struct Pool {
  std::map<std::vector<int64_t>, int64_t> coordinate, weight;  // by n-gram; the weight's place in the list
  int64_t width = 0;                                           // of the result
};

Pool pool_of(const Node& node) {
  if (node.has("pool_strings")) throw Error(ErrorKind::unsupported, describe(node), "counts strings");
  const auto tokens = node.integers("pool_int64s"), starts = node.integers("ngram_counts"),
             places = node.integers("ngram_indexes");
  Pool pool;
  size_t gram = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    const int64_t end = n < starts.size() ? starts[n] : std::ssize(tokens);
    if (starts[n - 1] < 0 || end > std::ssize(tokens) || starts[n - 1] > end)
      throw Error(ErrorKind::format, describe(node), "has {}-grams from {} to {} of {}", n, starts[n - 1], end,
                  tokens.size());
    for (int64_t at = starts[n - 1]; at + static_cast<int64_t>(n) <= end; at += static_cast<int64_t>(n), ++gram) {
      if (gram >= places.size() || places[gram] < 0 || places[gram] > (1 << 24))
        throw Error(ErrorKind::format, describe(node), "has no place for one of its n-grams");
      const std::vector<int64_t> key(tokens.begin() + at, tokens.begin() + at + static_cast<int64_t>(n));
      pool.coordinate[key] = places[gram];
      pool.weight[key] = static_cast<int64_t>(gram);
    }
  }
  for (const int64_t place : places) pool.width = std::max(pool.width, place + 1);
  return pool;
}

struct Grams {
  int64_t shortest, longest, skips;
};

Grams grams_of(const Node& node) {
  const Grams grams{node.integer("min_gram_length", 1), node.integer("max_gram_length", 1),
                    node.integer("max_skip_count", 0)};
  if (grams.shortest < 1 || grams.longest < grams.shortest || grams.longest > 1024 || grams.skips < 0)
    throw Error(ErrorKind::format, describe(node), "counts {}- to {}-grams with {} skipped", grams.shortest,
                grams.longest, grams.skips);
  return grams;
}

void count_row(const int64_t* row, int64_t length, const Grams& grams, const Pool& pool, std::vector<double>& counts) {
  for (int64_t n = grams.shortest; n <= grams.longest; ++n)
    for (int64_t skip = 0; skip <= std::min(n == 1 ? 0 : grams.skips, length); ++skip)
      for (int64_t start = 0; start + (n - 1) * (skip + 1) < length; ++start) {
        std::vector<int64_t> key;
        for (int64_t k = 0; k < n; ++k) key.push_back(row[start + k * (skip + 1)]);
        if (const auto found = pool.weight.find(key); found != pool.weight.end())
          ++counts[static_cast<size_t>(found->second)];
      }
}

Tensors tf_idf(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor x = context.in(0).to(at::kLong).contiguous();
  if (x.dim() != 1 && x.dim() != 2) throw Error(ErrorKind::shape, describe(node), "counts in {}", to_string(x.sizes()));
  const Pool pool = pool_of(node);
  const Grams grams = grams_of(node);
  const auto weights = node.reals("weights");
  const std::string mode = node.text("mode", "TF");
  const int64_t rows = x.dim() == 1 ? 1 : x.size(0), length = x.size(-1);
  check_size({at::kFloat, {rows, pool.width}}, describe(node));
  Tensor y = at::zeros({rows, pool.width}, at::kFloat);
  if (x.numel() == 0) return {x.dim() == 1 ? y[0] : y};
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> counts(pool.weight.size() + node.integers("ngram_indexes").size(), 0);
    count_row(x.data_ptr<int64_t>() + r * length, length, grams, pool, counts);
    for (const auto& [key, gram] : pool.weight) {
      double value = counts[static_cast<size_t>(gram)];
      if (mode == "IDF") value = std::min(value, 1.0);
      if (mode != "TF" && gram < std::ssize(weights)) value *= weights[static_cast<size_t>(gram)];
      y[r][pool.coordinate.at(key)] += value;
    }
  }
  return {x.dim() == 1 ? y[0] : y};
}

std::vector<TensorType> infer_tf_idf(const InferContext& context) {
  const int64_t width = pool_of(context.node).width;
  const TensorType& x = context.in(0);
  if (x.rank() != 1 && x.rank() != 2)
    throw Error(ErrorKind::shape, describe(context.node), "counts in {}", to_string(x.dims));
  return {{at::kFloat, x.rank() == 1 ? Shape{width} : Shape{x.dims.at(0), width}}};
}

constexpr OpDef kOps[] = {
    {.type = "Unique",
     .attributes = "axis sorted",
     .since = 11,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = unique,
     .infer = infer_unknown,
     .cost = cost_none,
     .labels = labels_frozen},
    {.type = "TfIdfVectorizer",
     .attributes = "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s "
                   "pool_strings weights",
     .since = 9,
     .min_inputs = 1,
     .max_inputs = 1,
     .evaluate = tf_idf,
     .infer = infer_tf_idf,
     .cost = cost_none,
     .labels = labels_frozen},
};

}  // namespace counting
}  // namespace

std::span<const OpDef> counting_ops() { return counting::kOps; }

}  // namespace pare
