#include "pare/io/onnx/tensor.h"

#include <ATen/ATen.h>

#include <charconv>
#include <cstring>
#include <limits>

#include "pare/error.h"
#include "pare/io/onnx/carried.h"
#include "pare/io/onnx/dtype.h"
#include "pare/ops/dtype.h"

namespace pare {

namespace {

constexpr int64_t kSmallTensor = 256;  // bytes up to which a copy is cheaper than keeping the original
constexpr int64_t kMaxRank = 64;
constexpr int64_t kMaxDense = 64 << 20;  // bytes a sparse tensor may become

struct TensorLayout {
  at::ScalarType dtype;
  std::vector<int64_t> dims;
  int64_t count = 1;
  int64_t bytes = 0;
  int32_t carried = 0;  // the file's type, where `dtype` only carries it
};

template <typename Dims>
TensorLayout layout_of(int32_t data_type, const Dims& dims, const std::string& where) {
  const auto dtype = scalar_type_of_onnx(data_type);
  if (!dtype) {
    const auto kind = data_type == 0 ? ErrorKind::format : ErrorKind::unsupported;
    throw Error(kind, where, "has element type {}, which pare does not read", onnx_type_name(data_type));
  }
  TensorLayout layout{.dtype = *dtype, .dims = {dims.begin(), dims.end()}};
  if (dims.size() > kMaxRank) throw Error(ErrorKind::format, where, "has {} dimensions", dims.size());
  // The strides of a tensor multiply all its extents, an empty one's too.
  int64_t span = static_cast<int64_t>(c10::elementSize(*dtype));
  for (const int64_t dim : layout.dims) {
    if (dim < 0) throw Error(ErrorKind::format, where, "has the extent {}", dim);
    if (__builtin_mul_overflow(span, std::max<int64_t>(dim, 1), &span))
      throw Error(ErrorKind::format, where, "has dims [{}], more than can be addressed", fmt::join(layout.dims, ", "));
    layout.count *= dim;
  }
  layout.bytes = layout.count * static_cast<int64_t>(c10::elementSize(*dtype));
  if (!carried_type(data_type)) return layout;
  layout.carried = data_type;
  layout.bytes = stored_bytes(data_type, layout.count);
  return layout;
}

at::Tensor copy_bytes(const void* data, const TensorLayout& layout) {
  at::Tensor tensor = at::empty(layout.dims, layout.dtype);
  if (layout.bytes > 0) std::memcpy(tensor.data_ptr(), data, layout.bytes);
  return tensor;
}

// A byte that is neither 0 nor 1 is no bool in C++.
void make_bools(void* data, int64_t count) {
  auto* bytes = static_cast<uint8_t*>(data);
  for (int64_t i = 0; i < count; ++i)
    if (bytes[i] > 1) bytes[i] = 1;
}

at::Tensor take_raw(onnx::TensorProto& proto, const TensorLayout& layout, const std::string& where) {
  if (static_cast<int64_t>(proto.raw_data().size()) != layout.bytes)
    throw Error(ErrorKind::format, where, "has dims [{}] and so {} bytes, but its data has {}",
                fmt::join(layout.dims, ", "), layout.bytes, proto.raw_data().size());
  if (layout.carried != 0)
    return expand_stored(std::as_bytes(std::span(proto.raw_data())), layout.carried, layout.dims, where);
  if (layout.dtype == at::kBool) make_bools(proto.mutable_raw_data()->data(), layout.bytes);
  if (layout.bytes <= kSmallTensor) return copy_bytes(proto.raw_data().data(), layout);
  const std::shared_ptr<std::string> owner(proto.release_raw_data());
  return at::from_blob(
      owner->data(), layout.dims, [owner](void*) {}, layout.dtype);
}

// Typed fields: the narrow types travel in int32_data, the 16-bit floats as their bit patterns.
template <typename To, typename Field>
at::Tensor copy_field(const Field& field, const TensorLayout& layout, const std::string& where) {
  if (field.size() != layout.count)
    throw Error(ErrorKind::format, where, "has dims [{}] and so {} elements, but its data has {}",
                fmt::join(layout.dims, ", "), layout.count, field.size());
  at::Tensor tensor = at::empty(layout.dims, layout.dtype);
  To* to = static_cast<To*>(tensor.data_ptr());
  for (const auto value : field) {
    if constexpr (!std::is_same_v<To, bool> && std::is_integral_v<To>)
      if (static_cast<int64_t>(static_cast<To>(value)) != static_cast<int64_t>(value))
        throw Error(ErrorKind::format, where, "has the element {}, too large for its type", value);
    *to++ = static_cast<To>(value);
  }
  return tensor;
}

at::Tensor take_typed(const onnx::TensorProto& proto, const TensorLayout& layout, const std::string& where) {
  if (layout.carried != 0) {
    const std::string bytes = stored_in_fields(proto, layout.carried, layout.count, where);
    return expand_stored(std::as_bytes(std::span(bytes)), layout.carried, layout.dims, where);
  }
  switch (layout.dtype) {
    case at::kFloat: return copy_field<float>(proto.float_data(), layout, where);
    case at::kDouble: return copy_field<double>(proto.double_data(), layout, where);
    case at::kLong: return copy_field<int64_t>(proto.int64_data(), layout, where);
    case at::kInt: return copy_field<int32_t>(proto.int32_data(), layout, where);
    case at::kShort: return copy_field<int16_t>(proto.int32_data(), layout, where);
    case at::kChar: return copy_field<int8_t>(proto.int32_data(), layout, where);
    case at::kByte: return copy_field<uint8_t>(proto.int32_data(), layout, where);
    case at::kBool: return copy_field<bool>(proto.int32_data(), layout, where);
    default: return copy_field<uint16_t>(proto.int32_data(), layout, where);  // float16, bfloat16
  }
}

uint64_t parse_size(const std::string& text, const std::string& key, const std::string& where) {
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value > std::numeric_limits<int64_t>::max())
    throw Error(ErrorKind::format, where, "external data has the {} '{}', not a number", key, text);
  return value;
}

at::Tensor take_external(const onnx::TensorProto& proto, const TensorLayout& layout, ExternalFiles& files,
                         const std::string& where) {
  std::string location;
  uint64_t offset = 0;
  uint64_t length = layout.bytes;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_size(entry.value(), "offset", where);
    if (entry.key() == "length") length = parse_size(entry.value(), "length", where);
  }
  if (length != static_cast<uint64_t>(layout.bytes))
    throw Error(ErrorKind::format, where, "has dims [{}] and so {} bytes, but its external data has {}",
                fmt::join(layout.dims, ", "), layout.bytes, length);
  const auto data = files.bytes(location, offset, length, where);
  if (layout.carried != 0) {
    files.count_copy(layout.count * static_cast<int64_t>(c10::elementSize(layout.dtype)), where);
    const auto* bytes = static_cast<const std::byte*>(static_cast<const void*>(data.get()));
    return expand_stored({bytes, static_cast<size_t>(layout.bytes)}, layout.carried, layout.dims, where);
  }
  const bool aligned = reinterpret_cast<uintptr_t>(data.get()) % c10::elementSize(layout.dtype) == 0;
  if (aligned && layout.dtype != at::kBool && layout.bytes > 0)
    return at::from_blob(
        data.get(), layout.dims, [data](void*) {}, layout.dtype);
  files.count_copy(layout.bytes, where);
  at::Tensor tensor = copy_bytes(data.get(), layout);
  if (layout.dtype == at::kBool) make_bools(tensor.data_ptr(), layout.count);
  return tensor;
}

int typed_elements(const onnx::TensorProto& proto) {
  return proto.float_data_size() + proto.int32_data_size() + proto.int64_data_size() + proto.double_data_size() +
         proto.uint64_data_size() + proto.string_data_size();
}

}  // namespace

at::Tensor take_tensor(onnx::TensorProto& proto, ExternalFiles& files, const std::string& where) {
  const TensorLayout layout = layout_of(proto.data_type(), proto.dims(), where);
  if (proto.has_segment()) throw Error(ErrorKind::unsupported, where, "is stored in segments");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) return take_external(proto, layout, files, where);
  const bool typed = typed_elements(proto) > 0;
  if (typed && !proto.raw_data().empty()) throw Error(ErrorKind::format, where, "has its data in two fields");
  return typed ? take_typed(proto, layout, where) : take_raw(proto, layout, where);
}

at::Tensor take_sparse_tensor(onnx::SparseTensorProto& proto, ExternalFiles& files, const std::string& where) {
  const TensorLayout layout = layout_of(proto.values().data_type(), proto.dims(), where);
  if (layout.bytes > kMaxDense)
    throw Error(ErrorKind::unsupported, where, "is sparse with {} dense bytes, which pare does not keep", layout.bytes);
  const at::Tensor values = take_tensor(*proto.mutable_values(), files, where + " values");
  const at::Tensor indices = take_tensor(*proto.mutable_indices(), files, where + " indices");
  const auto rank = static_cast<int64_t>(layout.dims.size());
  const bool linear = indices.dim() == 1;
  if (values.dim() != 1 || indices.scalar_type() != at::kLong || indices.size(0) != values.size(0) ||
      (!linear && (indices.dim() != 2 || indices.size(1) != rank)))
    throw Error(ErrorKind::format, where, "is sparse, but its indices do not fit its values");
  at::Tensor places = indices;
  if (!linear) {
    places = at::zeros({values.size(0)}, at::kLong);
    for (int64_t axis = 0; axis < rank; ++axis) {
      const at::Tensor along = indices.select(1, axis);
      if (along.numel() > 0 && (along.min().item<int64_t>() < 0 || along.max().item<int64_t>() >= layout.dims[axis]))
        throw Error(ErrorKind::format, where, "is sparse with an index outside its dims");
      places = places * layout.dims[axis] + along;
    }
  }
  if (places.numel() > 0 && (places.min().item<int64_t>() < 0 || places.max().item<int64_t>() >= layout.count))
    throw Error(ErrorKind::format, where, "is sparse with an index outside its dims");
  at::Tensor dense = at::zeros({layout.count}, layout.dtype);
  if (places.numel() > 0) dense.index_copy_(0, places, values);
  return dense.view(layout.dims);
}

onnx::TensorProto tensor_header_to_proto(const at::Tensor& tensor, int32_t carried) {
  onnx::TensorProto proto;
  proto.set_data_type(carried != 0 ? carried : onnx_type_of(tensor.scalar_type()));
  for (const int64_t dim : tensor.sizes()) proto.add_dims(dim);
  return proto;
}

onnx::TensorProto tensor_to_proto(const at::Tensor& tensor, int32_t carried) {
  onnx::TensorProto proto = tensor_header_to_proto(tensor, carried);
  if (carried != 0) {
    proto.set_raw_data(pack_stored(tensor, carried));
    return proto;
  }
  const at::Tensor dense = tensor.detach().cpu().contiguous();
  proto.set_raw_data(dense.data_ptr(), dense.nbytes());
  return proto;
}

}  // namespace pare
