#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "pare/core/memory.h"
#include "pare/ops/attention.h"

namespace pare {

namespace {

using at::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Which keys each query may see by its place: [batch or 1, 1, queries, keys]; undefined where all.
Tensor visible(const Tensor& offset, int64_t queries, int64_t keys, const AttentionForm& form) {
  if (!form.causal && form.left < 0 && form.right < 0) return {};
  const Tensor start =
      offset.defined() ? offset.to(at::kLong).reshape({-1, 1, 1, 1}) : at::zeros({1, 1, 1, 1}, at::kLong);
  const Tensor place = start + at::arange(queries, at::kLong).reshape({1, 1, -1, 1});
  const Tensor key = at::arange(keys, at::kLong).reshape({1, 1, 1, -1});
  Tensor seen = at::ones({1, 1, 1, 1}, at::kBool);
  if (form.causal) seen = seen & (key <= place);
  if (form.left >= 0) seen = seen & (key >= place - form.left);
  if (form.right >= 0) seen = seen & (key <= place + form.right);
  return seen;
}

Tensor served(const Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

}  // namespace

AttentionResult attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& offset,
                       const AttentionForm& form) {
  AttentionResult result;
  const int64_t heads = q.size(1);
  const double root = std::sqrt(std::abs(form.scale));
  result.products = at::matmul(q * (form.scale < 0 ? -root : root), (served(k, heads) * root).transpose(2, 3));
  result.capped = form.softcap > 0 ? at::tanh(result.products / form.softcap) * form.softcap : result.products;
  Tensor all = bias;
  if (const Tensor seen = visible(offset, q.size(2), k.size(2), form); seen.defined()) {
    const Tensor hidden = at::zeros(seen.sizes(), q.options()).masked_fill(at::logical_not(seen), kNever);
    all = all.defined() ? all + hidden : hidden;
  }
  result.biased = all.defined() ? result.capped + all : result.capped;
  Tensor scores = result.biased;
  if (form.softmax_type) scores = scores.to(*form.softmax_type);
  const bool half = scores.scalar_type() == at::kHalf || scores.scalar_type() == at::kBFloat16;
  Tensor shares = at::softmax(half ? scores.to(at::kFloat) : scores, -1).to(scores.scalar_type());
  if (all.defined() && k.size(2) > 0) {
    const Tensor blind = at::amax(all, {-1}, /*keepdim=*/true) == kNever;
    shares = at::where(blind, at::zeros({}, shares.options()), shares);
  }
  result.shares = shares.to(q.scalar_type());
  result.output = at::matmul(result.shares, served(v, heads).to(q.scalar_type()));
  return result;
}

Tensor split_heads(const Tensor& x, int64_t heads, const Node& node) {
  if (x.dim() != 3 || heads < 1 || x.size(2) % heads != 0)
    throw Error(ErrorKind::shape, describe(node), "{} does not hold {} heads", to_string(x.sizes()), heads);
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Tensor join_heads(const Tensor& x) { return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)}); }

void check_heads(std::span<const int64_t> q, std::span<const int64_t> k, std::span<const int64_t> v, const Node& node) {
  const bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] && k[0] == v[0] && k[1] == v[1] &&
                    k[1] > 0 && q[1] % k[1] == 0 && q[3] == k[3] && k[2] == v[2];
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "queries {}, keys {} and values {} do not go together", to_string(q),
                to_string(k), to_string(v));
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, const RotaryForm& form, const Node& node) {
  const int64_t size = x.size(3);
  const int64_t rotated = form.rotated == 0 ? size : form.rotated;
  const bool fits = rotated >= 0 && rotated <= size && rotated % 2 == 0 && cos.dim() == 3 &&
                    cos.sizes() == sin.sizes() && cos.size(2) == rotated / 2 && cos.size(1) == x.size(2) &&
                    (cos.size(0) == 1 || cos.size(0) == x.size(0));
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "cosines {} and sines {} do not turn {} entries of {}",
                to_string(cos.sizes()), to_string(sin.sizes()), rotated, to_string(x.sizes()));
  const Tensor turning = x.narrow(3, 0, rotated);
  const Tensor pairs = form.interleaved
                           ? turning.reshape({x.size(0), x.size(1), x.size(2), rotated / 2, 2})
                           : turning.reshape({x.size(0), x.size(1), x.size(2), 2, rotated / 2}).transpose(3, 4);
  const Tensor a = pairs.select(4, 0), b = pairs.select(4, 1);
  const Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  const Tensor real = c * a - s * b, imaginary = s * a + c * b;
  const Tensor turned =
      form.interleaved ? at::stack({real, imaginary}, 4).reshape(turning.sizes()) : at::cat({real, imaginary}, 3);
  return rotated == size ? turned : at::cat({turned, x.narrow(3, rotated, size - rotated)}, 3);
}

Tensor rows_at(const Node& node, const Tensor& table, const Tensor& positions) {
  if (table.dim() != 2 || positions.dim() != 2)
    throw Error(ErrorKind::shape, describe(node), "takes positions {} of a table {}", to_string(positions.sizes()),
                to_string(table.sizes()));
  const Tensor rows = positions.to(at::kLong).flatten();
  if (rows.numel() > 0 && (rows.min().item<int64_t>() < 0 || rows.max().item<int64_t>() >= table.size(0)))
    throw Error(ErrorKind::format, describe(node), "has a position outside the {} of its table", table.size(0));
  return table.index_select(0, rows).reshape({positions.size(0), positions.size(1), table.size(1)});
}

namespace {

// Ids of the channels of each head, [heads][channels], of a value of three axes or four.
std::vector<std::vector<int64_t>> ids_by_head(LabelContext& context, size_t input, int64_t heads) {
  const TensorType& type = context.inputs[input];
  std::vector<std::vector<int64_t>> result(static_cast<size_t>(heads));
  const bool packed = type.rank() == 3;
  const Tensor ids = context.ids(input).defined() ? context.expanded(input) : Tensor();
  const int64_t size = packed ? type.dims[2] / heads : type.dims[3];
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t d = 0; d < size; ++d) {
      if (!ids.defined())
        result[static_cast<size_t>(h)].push_back(kUnlabelled);
      else if (packed)
        result[static_cast<size_t>(h)].push_back(ids[0][0][h * size + d].item<int64_t>());
      else
        result[static_cast<size_t>(h)].push_back(ids[0][h][0][d].item<int64_t>());
    }
  return result;
}

constexpr int64_t kMostHeads = 1 << 16;  // whose channels are followed

// Do the ids of an input vary along batch or length?
bool varies_elsewhere(const LabelContext& context, size_t input) {
  const Tensor& ids = context.ids(input);
  return ids.defined() && (ids.size(0) > 1 || ids.size(ids.dim() == 3 ? 1 : 2) > 1);
}

// The ids at each place of a head, which are united over all heads.
std::vector<int64_t> united_over_heads(LabelContext& context, const std::vector<std::vector<int64_t>>& heads,
                                       const std::string& reason) {
  for (const auto& head : heads) context.unite(heads.front(), head, reason);
  return heads.front();
}

// Dimensions of queries go with those of keys; those of values go on, of every head.
void label_dimensions(LabelContext& context, int64_t q_heads, int64_t kv_heads, const std::string& reason) {
  const auto q = united_over_heads(context, ids_by_head(context, 0, q_heads), reason);
  const auto k = united_over_heads(context, ids_by_head(context, 1, kv_heads), reason);
  const auto v = united_over_heads(context, ids_by_head(context, 2, kv_heads), reason);
  context.unite(q, k, reason);
  if (context.outputs[0].rank() == 4) return context.set(0, v, 3);
  std::vector<int64_t> out;
  for (int64_t h = 0; h < q_heads; ++h) out.insert(out.end(), v.begin(), v.end());
  context.set(0, out, 2);
}

}  // namespace

void label_heads(LabelContext& context, int64_t q_heads, int64_t kv_heads) {
  if (q_heads > kMostHeads) return context.freeze_inputs(fmt::format("{} has too many heads", describe(context.node)));
  for (size_t i = 0; i < 3; ++i)
    if (varies_elsewhere(context, i))
      return context.freeze_inputs(fmt::format("{} mixes all channels", describe(context.node)));
  const std::string reason = fmt::format("{} has a head with a part without channels", describe(context.node));
  if (context.by_dimension()) return label_dimensions(context, q_heads, kv_heads, reason);
  const auto q = ids_by_head(context, 0, q_heads);
  const auto k = ids_by_head(context, 1, kv_heads);
  const auto v = ids_by_head(context, 2, kv_heads);
  const int64_t serves = q_heads / kv_heads;
  std::vector<int64_t> heads;  // one id for each head of keys
  for (int64_t h = 0; h < kv_heads; ++h) {
    std::vector<int64_t> all = k[static_cast<size_t>(h)];
    all.insert(all.end(), v[static_cast<size_t>(h)].begin(), v[static_cast<size_t>(h)].end());
    for (int64_t g = h * serves; g < (h + 1) * serves; ++g)
      all.insert(all.end(), q[static_cast<size_t>(g)].begin(), q[static_cast<size_t>(g)].end());
    for (const int64_t id : all) context.unite(std::span(&all.front(), 1), std::span(&id, 1), reason);
    heads.push_back(all.empty() ? kUnlabelled : all.front());
  }
  const TensorType& y = context.outputs[0];
  const int64_t size = y.rank() == 3 ? y.dims[2] / q_heads : 1;
  std::vector<int64_t> out;
  for (int64_t h = 0; h < q_heads; ++h)
    out.insert(out.end(), static_cast<size_t>(size), heads[static_cast<size_t>(h / serves)]);
  context.set(0, out, y.rank() == 3 ? 2 : 1);
}

namespace {

// Of an input of three axes: in how many of its heads is there anything left?
int64_t heads_left(const RewriteContext& context, size_t input, int64_t heads) {
  const int64_t size = context.inputs[input].dims[2] / heads;
  std::set<int64_t> left;
  for (const int64_t place : context.kept_in(input, 2)) left.insert(place / size);
  return static_cast<int64_t>(left.size());
}

}  // namespace

void rewrite_heads(RewriteContext& context, size_t input, const std::string& attribute) {
  const Shape& dims = context.inputs[input].dims;
  const int64_t heads = context.node.integer(attribute, 0);
  if (dims.size() != 3 || heads < 1 || !context.input_keep[input].defined()) return;
  context.node.attributes[attribute] = heads_left(context, input, heads);
}

void rewrite_scale(RewriteContext& context, const std::string& attribute) {
  const Shape& dims = context.inputs[0].dims;
  if (!context.input_keep[0].defined() || context.node.real("scale", 0) != 0) return;
  const int64_t heads = dims.size() == 3 ? context.node.integer(attribute, 0) : 1;
  if (heads < 1) return;
  const int64_t size = dims.back() / heads, axis = static_cast<int64_t>(dims.size()) - 1;
  const int64_t left = dims.size() == 3 ? heads_left(context, 0, heads) : 1;
  if (static_cast<int64_t>(context.kept_in(0, axis).size()) == left * size) return;
  context.node.attributes["scale"] = 1 / std::sqrt(static_cast<double>(size));
}

namespace {

// [heads][places] of what turns: ids of each head.
void unite_pairs(LabelContext& context, const std::vector<int64_t>& ids, const RotaryForm& form,
                 const std::vector<size_t>& tables) {
  const int64_t turning = form.rotated == 0 ? std::ssize(ids) : form.rotated, half = turning / 2;
  const std::string reason = fmt::format("{} turns it with a part without channels", describe(context.node));
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < half; ++i) {
    first.push_back(ids[static_cast<size_t>(form.interleaved ? 2 * i : i)]);
    second.push_back(ids[static_cast<size_t>(form.interleaved ? 2 * i + 1 : half + i)]);
  }
  context.unite(first, second, reason);
  for (const size_t table : tables) context.slot(table, context.inputs[table].rank() - 1, first, SlotRole::pass);
}

}  // namespace

void label_rotation(LabelContext& context, int64_t heads, const RotaryForm& form, const std::vector<size_t>& tables) {
  const Tensor& ids = context.ids(0);
  if (!ids.defined()) return;
  const int64_t rank = ids.dim();
  const std::string turns = fmt::format("{} turns its channels in pairs", describe(context.node));
  if (context.for_exchange() || varies_elsewhere(context, 0) || heads < 1) return context.freeze_inputs(turns);
  const std::string reason = fmt::format("{} turns it with a part without channels", describe(context.node));
  const auto by_head = ids_by_head(context, 0, heads);
  if (!context.by_dimension() || ids.size(rank - 1) == 1) {
    for (const auto& head : by_head)
      for (const int64_t id : head) context.unite(std::span(&head.front(), 1), std::span(&id, 1), reason);
    return context.set(0, ids);
  }
  for (const size_t table : tables)
    if (!context.is_parameter(table)) return context.freeze_inputs(turns + " by angles that are computed");
  const auto one = united_over_heads(context, by_head, reason);
  unite_pairs(context, one, form, tables);
  context.set(0, ids);
}

void rewrite_rotation(RewriteContext& context) {
  const int64_t rotated = context.node.integer("rotary_embedding_dim", 0);
  const at::Tensor& keep = context.input_keep[0];
  const Shape& dims = context.inputs[0].dims;
  const int64_t heads = dims.size() == 3 ? context.node.integer("num_heads", 0) : 1;
  if (rotated > 0 && keep.defined() && heads > 0 && keep.size(keep.dim() - 1) > 1) {
    // Of the first head that is left.
    const auto kept = context.kept_in(0, static_cast<int64_t>(dims.size()) - 1);
    const int64_t size = dims.back() / heads, head = kept.empty() ? 0 : kept.front() / size;
    context.node.attributes["rotary_embedding_dim"] =
        static_cast<int64_t>(std::count_if(kept.begin(), kept.end(), [&](int64_t place) {
          return place >= head * size && place < head * size + rotated;
        }));
  }
  rewrite_heads(context, 0, "num_heads");
}

Cost cost_of_attention(const Shape& q, int64_t keys, int64_t v_size) {
  const int64_t macs = q[0] * q[1] * q[2] * keys * (q[3] + v_size);
  return {.macs = macs, .flops = 2 * macs};
}

}  // namespace pare
