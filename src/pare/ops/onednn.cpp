#include "pare/ops/onednn.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <dnnl.hpp>

#include "pare/error.h"

namespace pare {

namespace {
namespace onednn {

constexpr auto kFloat = dnnl::memory::data_type::f32;

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

// oneDNN remembers primitives it made, so that asking again costs microseconds.
dnnl::inner_product_forward::primitive_desc linear(int64_t rows, int64_t in, int64_t out,
                                                   const dnnl::memory::desc& weight, bool bias) {
  using Tag = dnnl::memory::format_tag;
  const dnnl::memory::desc x({rows, in}, kFloat, Tag::ab);
  const dnnl::memory::desc y({rows, out}, kFloat, Tag::ab);
  const auto kind = dnnl::prop_kind::forward_inference;
  if (!bias) return {{kind, x, weight, y}, engine()};
  return {{kind, x, weight, dnnl::memory::desc({out}, kFloat, Tag::a), y}, engine()};
}

// The layout that suits a batch; it depends on the widths alone, so that packing and running agree.
dnnl::memory::desc packed_layout(int64_t in, int64_t out) {
  constexpr int64_t kTypicalRows = 256;
  const dnnl::memory::desc any({out, in}, kFloat, dnnl::memory::format_tag::any);
  return linear(kTypicalRows, in, out, any, true).weights_desc();
}

}  // namespace onednn
}  // namespace

bool onednn_available() { return true; }

at::Tensor pack_linear_weight(const at::Tensor& weight) {
  const at::Tensor plain = weight.contiguous();
  const auto layout = onednn::packed_layout(weight.size(1), weight.size(0));
  at::Tensor packed = at::zeros({static_cast<int64_t>((layout.get_size() + 3) / 4)}, at::kFloat);
  dnnl::stream stream(onednn::engine());
  dnnl::memory from({{weight.size(0), weight.size(1)}, onednn::kFloat, dnnl::memory::format_tag::ab}, onednn::engine(),
                    plain.data_ptr<float>());
  dnnl::memory to(layout, onednn::engine(), packed.data_ptr<float>());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return packed;
}

at::Tensor run_packed_linear(const at::Tensor& input, const PackedLinear& layer) {
  const at::Tensor x = input.contiguous();
  if (x.dim() != 2 || x.size(1) != layer.in || x.scalar_type() != at::kFloat)
    throw Error(ErrorKind::shape, "Linear", "an input of {} axes does not fit {} columns of floats", x.dim(), layer.in);
  at::Tensor y = at::empty({x.size(0), layer.out}, x.options());
  if (y.numel() == 0) return y;
  const auto layout = onednn::packed_layout(layer.in, layer.out);
  const bool has_bias = layer.bias.defined();
  const auto description = onednn::linear(x.size(0), layer.in, layer.out, layout, has_bias);
  const auto memory = [](const dnnl::memory::desc& d, const at::Tensor& t) {
    return dnnl::memory(d, onednn::engine(), t.data_ptr<float>());
  };
  std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, memory(description.src_desc(), x)},
                                                     {DNNL_ARG_WEIGHTS, memory(layout, layer.weight)},
                                                     {DNNL_ARG_DST, memory(description.dst_desc(), y)}};
  if (has_bias) arguments.emplace(DNNL_ARG_BIAS, memory(description.bias_desc(), layer.bias));
  dnnl::stream stream(onednn::engine());
  dnnl::inner_product_forward(description).execute(stream, arguments);
  stream.wait();
  // Not as oneDNN's own, which makes 0 of what is not a number.
  return layer.relu ? y.relu_() : y;
}

at::Tensor transposed_product(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor a = x.stride(1) == 1 ? x : x.contiguous(), b = y.stride(1) == 1 ? y : y.contiguous();
  const int64_t rows = a.size(0), outer = a.size(1), inner = b.size(1);
  at::Tensor product = at::zeros({outer, inner}, at::kFloat);
  if (product.numel() == 0 || rows == 0) return product;
  // A row's stride means nothing where there is only one, and may be anything.
  const auto step = [&](const at::Tensor& t) { return std::max(t.stride(0), t.size(1)); };
  const auto status = dnnl_sgemm('T', 'N', outer, inner, rows, 1, a.data_ptr<float>(), step(a), b.data_ptr<float>(),
                                 step(b), 0, product.data_ptr<float>(), inner);
  if (status != dnnl_success) return at::mm(x.t(), y);
  return product;
}

}  // namespace pare
