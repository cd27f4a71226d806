#include "pare/io/pickle_globals.h"

#include <charconv>
#include <cstring>
#include <limits>

#include "pare/io/pickle_text.h"
#include "pare/io/tensor_bytes.h"

namespace pare {

namespace {

namespace pickle_list {

using enum GlobalMeaning;
using c10::ScalarType;

// Everything a checkpoint may name. Adding a line here must never let a file choose what code runs.
constexpr AllowedGlobal allowed_globals[] = {
    {"torch._utils", "_rebuild_tensor", rebuild_tensor},
    {"torch._utils", "_rebuild_tensor_v2", rebuild_tensor},
    {"torch._utils", "_rebuild_parameter", first_argument},
    {"torch._utils", "_rebuild_parameter_with_state", first_argument},
    {"torch", "Size", first_argument},
    {"torch", "device", device},
    {"torch", "DoubleStorage", storage, ScalarType::Double},
    {"torch", "FloatStorage", storage, ScalarType::Float},
    {"torch", "HalfStorage", storage, ScalarType::Half},
    {"torch", "BFloat16Storage", storage, ScalarType::BFloat16},
    {"torch", "LongStorage", storage, ScalarType::Long},
    {"torch", "IntStorage", storage, ScalarType::Int},
    {"torch", "ShortStorage", storage, ScalarType::Short},
    {"torch", "CharStorage", storage, ScalarType::Char},
    {"torch", "ByteStorage", storage, ScalarType::Byte},
    {"torch", "BoolStorage", storage, ScalarType::Bool},
    {"torch.cuda", "DoubleStorage", storage, ScalarType::Double},
    {"torch.cuda", "FloatStorage", storage, ScalarType::Float},
    {"torch.cuda", "HalfStorage", storage, ScalarType::Half},
    {"torch.cuda", "LongStorage", storage, ScalarType::Long},
    {"torch.cuda", "IntStorage", storage, ScalarType::Int},
    {"torch.cuda", "ShortStorage", storage, ScalarType::Short},
    {"torch.cuda", "CharStorage", storage, ScalarType::Char},
    {"torch.cuda", "ByteStorage", storage, ScalarType::Byte},
    {"torch", "float64", constant},
    {"torch", "float32", constant},
    {"torch", "float16", constant},
    {"torch", "bfloat16", constant},
    {"torch", "int64", constant},
    {"torch", "int32", constant},
    {"torch", "int16", constant},
    {"torch", "int8", constant},
    {"torch", "uint8", constant},
    {"torch", "bool", constant},
    {"torch", "strided", constant},
    {"collections", "OrderedDict", dict},
    {"collections", "defaultdict", dict},
    {"collections", "Counter", dict},
    {"builtins", "dict", dict},
    {"__builtin__", "dict", dict},
    {"builtins", "list", constant},  // as the default of a defaultdict
    {"__builtin__", "list", constant},
    {"builtins", "set", first_argument},
    {"__builtin__", "set", first_argument},
    {"argparse", "Namespace", object},
    {"_codecs", "encode", encode_latin1},
    {"numpy", "dtype", numpy_dtype},
    {"numpy.core.multiarray", "scalar", numpy_scalar},
    {"numpy._core.multiarray", "scalar", numpy_scalar},
};

}  // namespace pickle_list

// What users meet most often, and what to do about it.
std::string_view advice_for(std::string_view module, std::string_view name) {
  if (name.find("sparse") != std::string_view::npos) return "sparse tensors are not supported; ";
  if (name == "_rebuild_qtensor" || (module == "torch" && name.starts_with("Q")))
    return "quantized tensors are not supported; ";
  if (name.starts_with("Complex")) return "complex tensors are not supported; ";
  if (module.starts_with("torch.nn") || module == "__main__" || module.starts_with("torchvision"))
    return "the file holds a whole module, save its state_dict() instead; ";
  return "";
}

const std::vector<PickleId>& tuple_items(const PickleBuilder& builder, PickleId id, std::string_view what) {
  const auto* tuple = builder.document.get<PickleTuple>(id);
  if (tuple == nullptr) builder.fail("expected a tuple for {}, found {}", what, kind_of(builder.document[id]));
  return tuple->items;
}

uint64_t whole_number(const PickleBuilder& builder, PickleId id, std::string_view what) {
  const auto* number = builder.document.get<int64_t>(id);
  if (number == nullptr) builder.fail("expected an integer for {}, found {}", what, kind_of(builder.document[id]));
  if (*number < 0) builder.fail("expected {} from 0 on, found {}", what, *number);
  return static_cast<uint64_t>(*number);
}

std::vector<int64_t> dimensions(const PickleBuilder& builder, PickleId id, std::string_view what) {
  const auto& items = tuple_items(builder, id, what);
  if (items.size() > kMostDimensions)
    builder.fail("expected at most {} dimensions for {}, found {}", kMostDimensions, what, items.size());
  std::vector<int64_t> values;
  for (const PickleId item : items) values.push_back(static_cast<int64_t>(whole_number(builder, item, what)));
  return values;
}

PickleId make_tensor(PickleBuilder& builder, const std::vector<PickleId>& arguments) {
  if (arguments.size() < 4) builder.fail("expected at least 4 arguments of a tensor, found {}", arguments.size());
  const auto* held = builder.document.get<std::shared_ptr<const PickleStorage>>(arguments[0]);
  if (held == nullptr) builder.fail("expected a storage, found {}", kind_of(builder.document[arguments[0]]));
  PickleTensor tensor{*held, whole_number(builder, arguments[1], "the storage offset"),
                      dimensions(builder, arguments[2], "the tensor's shape"),
                      dimensions(builder, arguments[3], "the tensor's strides")};
  builder.charge(sizeof(PickleTensor) + 160 + 16 * (tensor.sizes.size() + tensor.strides.size()));
  if (tensor.sizes.size() != tensor.strides.size())
    builder.fail("expected {} strides, found {}", tensor.sizes.size(), tensor.strides.size());
  return builder.add(std::make_shared<const PickleTensor>(std::move(tensor)));
}

PickleId make_dict(PickleBuilder& builder, const AllowedGlobal& type, const std::vector<PickleId>& arguments) {
  if (arguments.empty() || type.name == "defaultdict") return builder.add(PickleDict{});
  if (builder.document.dict(arguments[0]) != nullptr) return arguments[0];
  const auto* pairs = builder.document.get<PickleList>(arguments[0]);
  if (pairs == nullptr) builder.fail("expected pairs for a dict, found {}", kind_of(builder.document[arguments[0]]));
  builder.charge(pairs->items.size() * sizeof(std::pair<PickleId, PickleId>));
  PickleDict dict;
  dict.items.reserve(pairs->items.size());
  for (const PickleId item : pairs->items) {
    const auto* list = builder.document.get<PickleList>(item);
    const auto& pair = list != nullptr ? list->items : tuple_items(builder, item, "a key and its value");
    if (pair.size() != 2) builder.fail("expected a key and its value, found {} items", pair.size());
    dict.items.emplace_back(pair[0], pair[1]);
  }
  return builder.add(std::move(dict));
}

PickleId make_device(PickleBuilder& builder, const std::vector<PickleId>& arguments) {
  const auto* type = arguments.empty() ? nullptr : builder.document.get<std::string>(arguments[0]);
  if (type == nullptr) builder.fail("expected the name of a device");
  const auto* index = arguments.size() > 1 ? builder.document.get<int64_t>(arguments[1]) : nullptr;
  std::string name = index != nullptr ? fmt::format("{}:{}", *type, *index) : *type;
  const size_t length = name.size();
  return builder.add(std::move(name), length);
}

PickleId make_bytes(PickleBuilder& builder, const std::vector<PickleId>& arguments) {
  const auto* text = arguments.size() == 2 ? builder.document.get<std::string>(arguments[0]) : nullptr;
  const auto* encoding = arguments.size() == 2 ? builder.document.get<std::string>(arguments[1]) : nullptr;
  if (text == nullptr || encoding == nullptr || *encoding != "latin1")
    builder.fail("expected a text and 'latin1' for _codecs.encode");
  builder.charge(text->size());
  std::optional<std::string> bytes = encode_as_latin1(*text);
  if (!bytes) builder.fail("the text of _codecs.encode is not latin1");
  return builder.add(PickleBytes{std::move(*bytes)});
}

PickleId make_numpy_type(PickleBuilder& builder, const std::vector<PickleId>& arguments) {
  const auto* code = arguments.empty() ? nullptr : builder.document.get<std::string>(arguments[0]);
  constexpr std::string_view known[] = {"f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1"};
  for (const std::string_view type : known)
    if (code != nullptr && *code == type)
      return builder.add(PickleNumpyType{type[0], static_cast<uint8_t>(type[1] - '0'), false});
  throw Error(ErrorKind::unsupported, builder.source.name, "the numpy dtype '{}' is not supported",
              code != nullptr ? printable(*code) : "?");
}

template <typename T>
T number_from(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

PickleId make_numpy_scalar(PickleBuilder& builder, const std::vector<PickleId>& arguments) {
  const auto* type = arguments.size() == 2 ? builder.document.get<PickleNumpyType>(arguments[0]) : nullptr;
  std::string_view bytes;
  if (arguments.size() == 2) {
    if (const auto* held = builder.document.get<PickleBytes>(arguments[1])) bytes = held->bytes;
    if (const auto* held = builder.document.get<std::string>(arguments[1])) bytes = *held;  // as Python 2 wrote it
  }
  if (type == nullptr || bytes.size() != type->size) builder.fail("expected a numpy dtype and the bytes of one number");
  if (type->big_endian && type->size > 1)
    throw Error(ErrorKind::unsupported, builder.source.name, "holds a big-endian numpy scalar");
  if (type->kind == 'f')
    return builder.add(type->size == 8 ? number_from<double>(bytes) : double{number_from<float>(bytes)});
  if (type->kind == 'b') return builder.add(bytes[0] != 0);
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  const int unused = 64 - 8 * type->size;
  if (type->kind == 'i') return builder.add(static_cast<int64_t>(value << unused) >> unused);
  if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return builder.add(static_cast<double>(value));
  return builder.add(static_cast<int64_t>(value));
}

}  // namespace

void PickleBuilder::charge(uint64_t bytes) {
  if (bytes > budget) fail("the values need more memory than a pickle of this size may take");
  budget -= bytes;
}

PickleId PickleBuilder::add(PickleValue value, uint64_t extra_bytes) {
  charge(sizeof(PickleValue) + 8 + extra_bytes);
  document.values.push_back(std::move(value));
  return PickleId(document.values.size() - 1);
}

const AllowedGlobal& find_global(const PickleBuilder& builder, std::string_view module, std::string_view name) {
  for (const AllowedGlobal& global : pickle_list::allowed_globals)
    if (global.module == module && global.name == name) return global;
  throw Error(ErrorKind::unsupported, builder.source.name,
              "the pickle names {}.{}, which is not on the list of data types: {}pickle code is never run",
              printable(module), printable(name), advice_for(module, name));
}

PickleId call_global(PickleBuilder& builder, PickleId callable, PickleId arguments) {
  const auto* held = builder.document.get<PickleGlobal>(callable);
  if (held == nullptr) builder.fail("expected a global to call, found {}", kind_of(builder.document[callable]));
  const AllowedGlobal& global = *held->global;
  const auto& items = tuple_items(builder, arguments, "the arguments of a call");
  using enum GlobalMeaning;
  switch (global.meaning) {
    case rebuild_tensor: return make_tensor(builder, items);
    case dict: return make_dict(builder, global, items);
    case device: return make_device(builder, items);
    case object: return builder.add(PickleObject{&global});
    case encode_latin1: return make_bytes(builder, items);
    case numpy_dtype: return make_numpy_type(builder, items);
    case numpy_scalar: return make_numpy_scalar(builder, items);
    case first_argument:
      if (items.empty()) return builder.add(PickleList{});
      return items[0];
    case constant:
    case storage: break;
  }
  builder.fail("{}.{} is not called in a checkpoint", global.module, global.name);
}

void set_state(PickleBuilder& builder, PickleId object, PickleId state) {
  PickleValue& value = builder.document[object];
  if (auto* type = std::get_if<PickleNumpyType>(&value)) {  // (version, byte order, ...)
    const auto& items = tuple_items(builder, state, "the state of a numpy dtype");
    const auto* order = items.size() > 1 ? builder.document.get<std::string>(items[1]) : nullptr;
    if (order == nullptr) builder.fail("expected the byte order of a numpy dtype");
    type->big_endian = *order == ">";
    return;
  }
  // Attributes of an ordered dict (_metadata), of a Namespace or of a tensor carry no weights.
  const bool has_attributes = std::holds_alternative<PickleDict>(value) ||
                              std::holds_alternative<PickleObject>(value) ||
                              std::holds_alternative<std::shared_ptr<const PickleTensor>>(value);
  if (!has_attributes) builder.fail("{} cannot be given a state", kind_of(value));
}

// ('storage', class, key, location, numel[, (view key, offset, numel)]); the location is dropped: all is loaded to the
// CPU.
PickleId load_persistent(PickleBuilder& builder, PickleId id) {
  const auto& items = tuple_items(builder, id, "a persistent id");
  const auto* tag = items.empty() ? nullptr : builder.document.get<std::string>(items[0]);
  if (tag != nullptr && *tag == "module")
    throw Error(ErrorKind::unsupported, builder.source.name, "holds a whole module; save its state_dict() instead");
  if (tag == nullptr || *tag != "storage" || items.size() < 5 || items.size() > 6)
    builder.fail("expected a persistent id ('storage', class, key, location, size)");
  const auto* type = builder.document.get<PickleGlobal>(items[1]);
  const auto* key = builder.document.get<std::string>(items[2]);
  if (type == nullptr || type->global->meaning != GlobalMeaning::storage)
    builder.fail("expected a storage class in a persistent id");
  if (key == nullptr) builder.fail("expected a string for a storage's key");
  const uint64_t numel = whole_number(builder, items[4], "a storage's size");
  PickleStorage held{type->global->dtype, *key, numel, 0, numel};
  if (items.size() == 6 && builder.document.get<PickleNone>(items[5]) == nullptr) {
    const auto& view = tuple_items(builder, items[5], "a storage's view");
    if (view.size() != 3) builder.fail("expected (key, offset, size) for a storage's view");
    held.view_offset = whole_number(builder, view[1], "a view's offset");
    held.view_numel = whole_number(builder, view[2], "a view's size");
    if (held.view_offset > numel || held.view_numel > numel - held.view_offset)
      builder.fail("a view of {} elements from {} leaves its storage of {}", held.view_numel, held.view_offset, numel);
  }
  builder.charge(sizeof(PickleStorage) + 64 + key->size());
  builder.document.storages.push_back(std::make_shared<const PickleStorage>(std::move(held)));
  return builder.add(builder.document.storages.back());
}

}  // namespace pare
