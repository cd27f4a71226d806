// Gated and fused forms: SwiGLU, and what ONNX Runtime's optimiser writes in com.microsoft's domain (BiasGelu,
// FastGelu, FusedMatMul, MatMulNBits). Its attention, norms and convolution are in the files of those.
#include <ATen/ATen.h>

#include "pare/ops/common.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace contrib {

using at::Tensor;
using Tensors = std::vector<Tensor>;

Tensor plain_gelu(const Tensor& x) { return at::gelu(x, "none"); }
Tensor fast_gelu(const Tensor& x) { return at::gelu(x, "tanh"); }

// The function of x, with a bias added before where there is one.
template <Tensor (*function)(const Tensor&)>
Tensors biased(const EvalContext& context) {
  const Tensor& x = context.in(0);
  return {function(context.has(1) ? x + context.in(1) : x)};
}

Tensors quick_gelu(const EvalContext& context) {
  const Tensor& x = context.in(0);
  return {x * at::sigmoid(x * context.node.real("alpha", 1.702))};
}

// Y = A · sigmoid(alpha A) · B, without broadcasting.
Tensors swiglu(const EvalContext& context) {
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(1);
  if (a.sizes() != b.sizes())
    throw Error(ErrorKind::shape, describe(context.node), "{} gates {}", to_string(a.sizes()), to_string(b.sizes()));
  return {a * at::sigmoid(a * context.node.real("alpha", 1)) * b};
}

// --- FusedMatMul: alpha · op(A) · op(B)

Shape turned(Shape dims, bool matrix, bool batch) {
  const size_t rank = dims.size();
  if (batch && rank > 2) std::rotate(dims.begin(), dims.begin() + 1, dims.end() - 1);
  if (matrix && rank > 1) std::swap(dims[rank - 1], dims[rank - 2]);
  return dims;
}

// `batch`: the first axis goes before the last one.
Tensor turned(const Tensor& x, bool matrix, bool batch) {
  Tensor y = batch && x.dim() > 2 ? x.movedim(0, -2) : x;
  return matrix && y.dim() > 1 ? y.transpose(-1, -2) : y;
}

bool flag(const Node& node, const char* name) { return node.integer(name, 0) != 0; }

Tensors fused_matmul(const EvalContext& context) {
  const Node& node = context.node;
  const Tensor y = at::matmul(turned(context.in(0), flag(node, "transA"), flag(node, "transBatchA")),
                              turned(context.in(1), flag(node, "transB"), flag(node, "transBatchB")));
  const double alpha = node.real("alpha", 1);
  return {alpha == 1 ? y : y * alpha};
}

std::vector<TensorType> infer_fused_matmul(const InferContext& context) {
  const Node& node = context.node;
  const Shape a = turned(context.in(0).dims, flag(node, "transA"), flag(node, "transBatchA"));
  const Shape b = turned(context.in(1).dims, flag(node, "transB"), flag(node, "transBatchB"));
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2])
    throw Error(ErrorKind::shape, describe(node), "{} meets {}", to_string(a), to_string(b));
  Shape y = broadcast_dims({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2}, node);
  y.push_back(a[a.size() - 2]);
  y.push_back(b.back());
  return {{context.in(0).dtype, y}};
}

Cost cost_fused_matmul(const CostContext& context) {
  const Shape a = turned(context.inputs[0].dims, flag(context.node, "transA"), flag(context.node, "transBatchA"));
  const int64_t macs = context.outputs[0].count() * (a.empty() ? 1 : a.back());
  return {.macs = macs, .flops = 2 * macs};
}

// x · W with a constant W of two axes; all else stays.
void labels_fused_matmul(LabelContext& context) {
  const Node& node = context.node;
  const int64_t last = context.inputs[0].rank() - 1;
  const Tensor& ids = context.ids(0);
  const bool plain = context.is_parameter(1) && context.inputs[1].rank() == 2 && !flag(node, "transA") &&
                     !flag(node, "transBatchA") && (!ids.defined() || ids.size(last) == ids.numel());
  if (!plain) return context.freeze_inputs(fmt::format("{} multiplies two computed values", describe(node)));
  const bool across = flag(node, "transB");
  context.slot(1, across ? 1 : 0, context.along(0, last), SlotRole::consumer);
  const auto out = context.make(context.outputs[0].dims.back());
  context.slot(1, across ? 0 : 1, out, SlotRole::producer);
  context.set(0, out, context.outputs[0].rank() - 1);
}

// --- MatMulNBits: A, B [N, blocks, bytes], scales, zero points, order of groups, bias. Y = A Wᵀ.

struct Packing {
  int64_t rows, columns, bits, block, blocks;
};

Packing packing_of(const Node& node) {
  Packing p{.rows = node.integer("N", 0),
            .columns = node.integer("K", 0),
            .bits = node.integer("bits", 4),
            .block = node.integer("block_size", 32)};
  const bool known = (p.bits == 2 || p.bits == 4 || p.bits == 8) && p.block >= 16 && p.block <= (1 << 20);
  if (!known || p.rows < 1 || p.columns < 1 || p.rows > (int64_t{1} << 31) || p.columns > (int64_t{1} << 31))
    throw Error(ErrorKind::unsupported, describe(node), "has a weight of {} x {} in {} bits and blocks of {}", p.rows,
                p.columns, p.bits, p.block);
  p.blocks = (p.columns + p.block - 1) / p.block;
  return p;
}

// The numbers in each byte, the lowest bits first: one axis more.
Tensor unpacked(const Tensor& bytes, int64_t bits) {
  Tensors parts;
  const Tensor wide = bytes.to(at::kInt);
  for (int64_t from = 0; from < 8; from += bits)
    parts.push_back(at::bitwise_and(at::bitwise_right_shift(wide, from), (1 << bits) - 1));
  return at::stack(parts, -1);
}

// One number for each block of each row: [rows, blocks].
Tensor zero_points(const EvalContext& context, const Packing& p, at::ScalarType dtype) {
  if (!context.has(3)) return at::full({1, 1}, 1 << (p.bits - 1), dtype);
  const Tensor& zero = context.in(3);
  if (zero.scalar_type() != at::kByte) return zero.reshape({p.rows, p.blocks}).to(dtype);
  return unpacked(zero.reshape({p.rows, -1}), p.bits).reshape({p.rows, -1}).narrow(1, 0, p.blocks).to(dtype);
}

Tensors matmul_n_bits(const EvalContext& context) {
  const Packing p = packing_of(context.node);
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(1);
  if (context.has(4)) throw Error(ErrorKind::unsupported, describe(context.node), "has its columns in another order");
  const int64_t bytes = p.block * p.bits / 8;
  int64_t all = 0;
  const bool countable = !__builtin_mul_overflow(p.rows, p.blocks * bytes, &all);
  if (!countable || b.scalar_type() != at::kByte || b.numel() != all || a.dim() < 1 || a.size(-1) != p.columns)
    throw Error(ErrorKind::shape, describe(context.node), "has a weight of {} for {} x {} in {} bits, and {} before it",
                to_string(b.sizes()), p.rows, p.columns, p.bits, to_string(a.sizes()));
  check_size({at::kFloat, {p.rows, p.blocks * p.block}}, describe(context.node));
  const Tensor numbers = unpacked(b.reshape({p.rows, p.blocks, bytes}), p.bits).reshape({p.rows, p.blocks, p.block});
  const Tensor scale = context.in(2).reshape({p.rows, p.blocks, 1}).to(a.scalar_type());
  const Tensor zero = zero_points(context, p, a.scalar_type()).unsqueeze(-1);
  const Tensor weight = ((numbers.to(a.scalar_type()) - zero) * scale).reshape({p.rows, -1}).narrow(1, 0, p.columns);
  const Tensor y = at::matmul(a, weight.t());
  return {context.has(5) ? y + context.in(5) : y};
}

std::vector<TensorType> infer_n_bits(const InferContext& context) {
  TensorType y = context.in(0);
  if (y.rank() < 1) throw Error(ErrorKind::shape, describe(context.node), "multiplies a single number");
  y.dims.back() = packing_of(context.node).rows;
  return {y};
}

Cost cost_n_bits(const CostContext& context) {
  const int64_t macs = context.outputs[0].count() * context.node.integer("K", 1);
  return {.macs = macs, .flops = 2 * macs};
}

void labels_n_bits(LabelContext& context) {
  context.freeze_inputs(fmt::format("the weight of {} is packed in blocks", describe(context.node)));
}

constexpr OpDef activation(std::string_view type, EvaluateFunction evaluate, size_t least, size_t most) {
  return {.type = type,
          .min_inputs = least,
          .max_inputs = most,
          .evaluate = evaluate,
          .infer = infer_same,
          .cost = cost_elementwise,
          .labels = most == 1 ? labels_same : labels_broadcast,
          .traits = {.kind = OpKind::activation, .law = Law::rigid}};
}

constexpr OpTraits kAdding = {.learned = {1}};

constexpr OpDef kOps[] = {
    activation("com.microsoft.Gelu", biased<plain_gelu>, 1, 1),
    activation("com.microsoft.QuickGelu", quick_gelu, 1, 1).taking("alpha"),
    activation("com.microsoft.BiasGelu", biased<plain_gelu>, 2, 2).being(kAdding),
    activation("com.microsoft.FastGelu", biased<fast_gelu>, 1, 2).being(kAdding),
    activation("SwiGLU", swiglu, 2, 2).taking("alpha").being({.kind = OpKind::product}),
    {.type = "com.microsoft.FusedMatMul",
     .attributes = "alpha transA transB transBatchA transBatchB",
     .min_inputs = 2,
     .max_inputs = 2,
     .evaluate = fused_matmul,
     .infer = infer_fused_matmul,
     .cost = cost_fused_matmul,
     .labels = labels_fused_matmul,
     .traits = {.learned = {1}}},
    {.type = "com.microsoft.MatMulNBits",
     .attributes = "K N accuracy_level bits block_size",
     .min_inputs = 3,
     .max_inputs = 6,
     .evaluate = matmul_n_bits,
     .infer = infer_n_bits,
     .cost = cost_n_bits,
     .labels = labels_n_bits},
};

}  // namespace contrib
}  // namespace

std::span<const OpDef> contrib_ops() { return contrib::kOps; }

}  // namespace pare
