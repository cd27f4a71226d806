#include "pare/io/torch_tensors.h"

#include <ATen/ATen.h>

#include <array>
#include <unordered_set>

#include "pare/error.h"
#include "pare/io/pickle_globals.h"
#include "pare/io/tensor_bytes.h"

namespace pare {

namespace {

constexpr size_t most_notes = 1024, longest_note = 4096;  // of metadata and of the ignored
constexpr std::array<std::string_view, 4> state_dict_keys = {"state_dict", "model_state_dict", "model", "net"};

// 1 + the largest index that the view touches; null when it overflows.
std::optional<uint64_t> extent_of(const PickleTensor& tensor) {
  std::optional<uint64_t> extent = checked_add(tensor.offset, 1);
  for (size_t i = 0; i < tensor.sizes.size() && extent; ++i) {
    const auto steps = static_cast<uint64_t>(tensor.sizes[i] - 1);
    const auto reach = checked_multiply(steps, static_cast<uint64_t>(tensor.strides[i]));
    extent = reach ? checked_add(*extent, *reach) : std::nullopt;
  }
  return extent;
}

std::optional<std::string> name_of_key(const PickleValue& key) {
  if (const auto* text = std::get_if<std::string>(&key)) return *text;
  if (const auto* number = std::get_if<int64_t>(&key)) return fmt::format("{}", *number);
  return std::nullopt;
}

std::optional<std::string> text_of_scalar(const PickleValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&value); text != nullptr && text->size() <= longest_note)
    return *text;
  return std::nullopt;
}

std::string kind_in_words(const PickleValue& value) {
  if (const auto* object = std::get_if<PickleObject>(&value))
    return fmt::format("{}.{}", object->type->module, object->type->name);
  if (const auto* dict = std::get_if<PickleDict>(&value)) return fmt::format("a dict of {}", dict->items.size());
  if (const auto* list = std::get_if<PickleList>(&value)) return fmt::format("a list of {}", list->items.size());
  return std::string(kind_of(value));
}

bool holds_tensors(const PickleDocument& document, const PickleDict& dict) {
  for (const auto& [key, value] : dict.items)
    if (document.get<std::shared_ptr<const PickleTensor>>(value) != nullptr) return true;
  return false;
}

const PickleDict* nested_state_dict(const PickleDocument& document, const PickleDict& dict) {
  for (const std::string_view wanted : state_dict_keys)
    for (const auto& [key, value] : dict.items) {
      const auto* name = document.get<std::string>(key);
      if (name != nullptr && *name == wanted && document.dict(value) != nullptr) return document.dict(value);
    }
  return nullptr;
}

// Walks one dict after another, from the top level to the state dict, and sorts what it meets.
class StateDictReader {
 public:
  StateDictReader(const ByteSource& source, const PickleDocument& document, TorchTensors& tensors)
      : source_(source), document_(document), tensors_(tensors) {}

  NamedTensors read() {
    const PickleDict* dict = document_.dict(document_.root);
    if (dict == nullptr)
      throw Error(ErrorKind::unsupported, source_.name, "holds {}, expected a dict of tensors (a state_dict)",
                  kind_in_words(document_[document_.root]));
    while (true) {
      const PickleDict* inner = holds_tensors(document_, *dict) ? nullptr : nested_state_dict(document_, *dict);
      sort_entries(*dict, inner);
      if (inner == nullptr) break;
      dict = inner;  // the pickle has no cycles, so this ends
    }
    if (weights_.tensors.empty()) throw_empty(*dict);
    strip_module_prefix();
    if (left_out_ > 0) weights_.ignored.push_back(fmt::format("and {} more", left_out_));
    return std::move(weights_);
  }

 private:
  void sort_entries(const PickleDict& dict, const PickleDict* inner) {
    std::unordered_set<std::string_view> seen;
    for (const auto& [key, value] : dict.items) {
      if (const auto* text = document_.get<std::string>(key); text != nullptr && !seen.insert(*text).second)
        throw Error(ErrorKind::format, source_.name, "holds the name '{}' twice", printable(*text));
      if (document_.dict(value) != nullptr && document_.dict(value) == inner) continue;
      const std::optional<std::string> name = name_of_key(document_[key]);
      if (!name) {
        ignore(fmt::format("an entry whose key is {}", kind_of(document_[key])));
      } else if (const auto* tensor = document_.get<std::shared_ptr<const PickleTensor>>(value)) {
        add_tensor(*name, **tensor);
      } else {
        add_note(*name, document_[value]);
      }
    }
  }
  void add_tensor(const std::string& name, const PickleTensor& tensor) {
    if (weights_.tensors.size() >= kMostTensors)
      throw Error(ErrorKind::format, source_.name, "holds more than {} tensors", kMostTensors);
    weights_.tensors.emplace_back(name, tensors_.build(name, tensor));
  }
  void add_note(const std::string& name, const PickleValue& value) {
    std::optional<std::string> text = weights_.metadata.size() < most_notes ? text_of_scalar(value) : std::nullopt;
    if (!text || !weights_.metadata.emplace(name, std::move(*text)).second)
      ignore(fmt::format("'{}': {}", printable(name), kind_in_words(value)));
  }
  void ignore(std::string what) {
    if (weights_.ignored.size() < most_notes) {
      weights_.ignored.push_back(std::move(what));
    } else {
      ++left_out_;
    }
  }
  void strip_module_prefix() {
    constexpr std::string_view prefix = "module.";
    const auto prefixed = [&](const auto& entry) {
      return entry.first.size() > prefix.size() && entry.first.starts_with(prefix);
    };
    while (std::all_of(weights_.tensors.begin(), weights_.tensors.end(), prefixed))
      for (auto& entry : weights_.tensors) entry.first.erase(0, prefix.size());
  }
  [[noreturn]] void throw_empty(const PickleDict& dict) const {
    std::string keys;
    for (size_t i = 0; i < dict.items.size() && i < 8; ++i)
      keys += (i > 0 ? ", " : "") + printable(name_of_key(document_[dict.items[i].first]).value_or("?"));
    throw Error(ErrorKind::unsupported, source_.name,
                "holds no state dict: expected tensors by name, on top or under {}; found the keys [{}]",
                fmt::join(state_dict_keys, ", "), keys);
  }

  const ByteSource& source_;
  const PickleDocument& document_;
  TorchTensors& tensors_;
  NamedTensors weights_;
  size_t left_out_ = 0;
};

}  // namespace

const at::Tensor& TorchTensors::storage(std::string_view name, const PickleStorage& wanted) {
  const TensorDtype& dtype = *find_dtype(wanted.dtype);
  const auto found = storages_.find(wanted.key);
  if (found != storages_.end()) {
    const at::Tensor& held = found->second;
    if (held.scalar_type() != wanted.dtype || static_cast<uint64_t>(held.numel()) != wanted.numel)
      throw Error(ErrorKind::format, source_.name, "tensor '{}' takes storage {} for {} of {}, another for {} of {}",
                  printable(name), printable(wanted.key), wanted.numel, c10::toString(wanted.dtype), held.numel(),
                  c10::toString(held.scalar_type()));
    return held;
  }
  const int64_t shape[] = {static_cast<int64_t>(wanted.numel)};
  return storages_.emplace(wanted.key, tensor_over(source_, name, bytes_(wanted), shape, dtype)).first->second;
}

at::Tensor TorchTensors::build(std::string_view name, const PickleTensor& tensor) {
  const PickleStorage& wanted = *tensor.storage;
  const TensorDtype& dtype = *find_dtype(wanted.dtype);
  const uint64_t bytes = checked_byte_count(source_, name, tensor.sizes, dtype);
  if (bytes > source_.bytes.size() + kReaderSlack)
    throw Error(ErrorKind::format, source_.name, "tensor '{}' would take {} bytes, more than the file can hold",
                printable(name), bytes);
  const at::Tensor& whole = storage(name, wanted);
  if (bytes == 0) return at::empty(tensor.sizes, whole.options());
  const std::optional<uint64_t> extent = extent_of(tensor);
  if (!extent || *extent > wanted.view_numel)
    throw Error(ErrorKind::format, source_.name, "tensor '{}' of shape [{}] leaves its storage of {} elements",
                printable(name), fmt::join(tensor.sizes, ", "), wanted.view_numel);
  return whole.as_strided(tensor.sizes, tensor.strides, static_cast<int64_t>(wanted.view_offset + tensor.offset));
}

NamedTensors extract_state_dict(const ByteSource& source, const PickleDocument& document, TorchTensors& tensors) {
  return StateDictReader(source, document, tensors).read();
}

}  // namespace pare
