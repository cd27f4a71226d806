#include "pare/io/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <unordered_set>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/tensor_bytes.h"

namespace pare {

namespace {

constexpr uint64_t longest_header = 16ull << 20;  // of 32768 tensors, each with 512 bytes of JSON
constexpr size_t longest_name = 65535;
constexpr std::string_view metadata_key = "__metadata__";

struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Builds the entries while the header is parsed. No value of a correct header is nested more than three deep, so a
// deeper one is refused as it opens and nothing recursive is ever built.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(const ByteSource& source) : source_(source) {}

  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { fail("null"); }
  bool boolean(bool) override { fail("a boolean"); }
  bool number_float(double, const std::string& text) override { fail("the number " + printable(text)); }
  bool binary(binary_t&) override { fail("binary data"); }
  bool number_integer(int64_t value) override { fail(fmt::format("the number {}", value)); }
  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::array || value > uint64_t{std::numeric_limits<int64_t>::max()})
      fail(fmt::format("the number {}", value));
    if (array_->size() >= kMostDimensions) fail(fmt::format("more than {} numbers", kMostDimensions));
    array_->push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      metadata[key_] = value;
    } else if (place_ == Place::tensor && key_ == "dtype") {
      entries.back().dtype = value;
    } else {
      fail("a string");
    }
    return true;
  }
  bool start_object(size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header && key_ == metadata_key) {
      place_ = Place::metadata;
    } else if (place_ == Place::header) {
      if (entries.size() >= kMostTensors) fail(fmt::format("more than {} tensors", kMostTensors));
      entries.emplace_back().name = key_;
      place_ = Place::tensor;
    } else {
      fail("an object");
    }
    return true;
  }
  bool key(std::string& name) override {
    if (name.size() > longest_name)
      throw Error(ErrorKind::format, source_.name, "header: expected names of at most {} bytes, found {}", longest_name,
                  name.size());
    key_ = name;
    if (place_ == Place::header && !names_.insert(name).second)
      throw Error(ErrorKind::format, source_.name, "names the tensor '{}' twice", printable(name));
    if (place_ == Place::metadata) {
      if (metadata.size() >= kMostTensors) fail("too many entries");
      if (!metadata.try_emplace(name).second) fail("the key twice");
    }
    if (place_ == Place::tensor) begin_field();
    return true;
  }
  bool end_object() override {
    if (place_ == Place::tensor &&
        !(entries.back().has_dtype && entries.back().has_shape && entries.back().has_offsets))
      throw Error(ErrorKind::format, source_.name, "tensor '{}': expected dtype, shape and data_offsets",
                  printable(entries.back().name));
    place_ = place_ == Place::header ? Place::outside : Place::header;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ != Place::tensor || array_ == nullptr) fail("an array");
    place_ = Place::array;
    return true;
  }
  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw Error(ErrorKind::format, source_.name, "the header is not JSON at its byte {}", position);
  }

 private:
  enum class Place { outside, header, metadata, tensor, array };

  void begin_field() {
    TensorEntry& entry = entries.back();
    bool* seen = key_ == "dtype"          ? &entry.has_dtype
                 : key_ == "shape"        ? &entry.has_shape
                 : key_ == "data_offsets" ? &entry.has_offsets
                                          : nullptr;
    if (seen == nullptr) fail("an unknown key");
    if (*seen) fail("the key twice");
    *seen = true;
    array_ = key_ == "shape" ? &entry.shape : key_ == "data_offsets" ? &entry.offsets : nullptr;
  }

  [[noreturn]] void fail(std::string_view found) const {
    constexpr std::string_view expected[] = {"an object", "an object for each tensor", "a string for each key",
                                             "a dtype string, a shape and two data_offsets",
                                             "whole numbers from 0 to 2^63 - 1"};
    const std::string tensor =
        place_ == Place::tensor || place_ == Place::array ? "tensor '" + printable(entries.back().name) + "', " : "";
    throw Error(ErrorKind::format, source_.name, "header, {}key '{}': expected {}, found {}", tensor, printable(key_),
                expected[static_cast<size_t>(place_)], found);
  }

  const ByteSource& source_;
  Place place_ = Place::outside;
  std::string key_;
  std::vector<int64_t>* array_ = nullptr;
  std::unordered_set<std::string> names_;
};

const TensorDtype& dtype_of_entry(const ByteSource& source, const TensorEntry& entry) {
  for (const TensorDtype& dtype : tensor_dtypes())
    if (dtype.safetensors == entry.dtype) return dtype;
  throw Error(ErrorKind::unsupported, source.name, "tensor '{}' has the dtype '{}', which pare cannot hold",
              printable(entry.name), printable(entry.dtype));
}

// Every byte after the header belongs to exactly one tensor.
void check_offsets(const ByteSource& source, const std::vector<TensorEntry>& entries, uint64_t data_size) {
  std::vector<const TensorEntry*> sorted;
  for (const TensorEntry& entry : entries) {
    if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1] ||
        static_cast<uint64_t>(entry.offsets[1]) > data_size)
      throw Error(ErrorKind::format, source.name,
                  "tensor '{}': expected data_offsets [begin, end] with begin <= end <= {}, found [{}]",
                  printable(entry.name), data_size, fmt::join(entry.offsets, ", "));
    sorted.push_back(&entry);
  }
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->offsets < b->offsets; });
  int64_t end = 0;
  for (const TensorEntry* entry : sorted) {
    if (entry->offsets[0] != end)
      throw Error(ErrorKind::format, source.name, "tensor '{}': expected its bytes to begin at {}, found {} ({})",
                  printable(entry->name), end, entry->offsets[0], entry->offsets[0] < end ? "an overlap" : "a gap");
    end = entry->offsets[1];
  }
  if (static_cast<uint64_t>(end) != data_size)
    throw Error(ErrorKind::format, source.name, "the tensors take {} bytes, found {} after the header", end, data_size);
}

struct PlannedTensor {
  const std::string* name;
  at::Tensor tensor;
  const TensorDtype* dtype;
  uint64_t begin = 0, end = 0;
};

std::vector<PlannedTensor> plan_layout(const std::string& where, const NamedTensors& weights) {
  std::vector<PlannedTensor> planned;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, tensor] : weights.tensors) {
    if (name == metadata_key || !names.insert(name).second)
      throw Error(ErrorKind::failed, where, "cannot name {} tensor '{}'", name == metadata_key ? "a" : "another", name);
    planned.push_back({&name, tensor, &writable_dtype(where, name, tensor)});
  }
  uint64_t end = 0;
  for (const uint64_t size : {8, 4, 2, 1})
    for (PlannedTensor& entry : planned)
      if (entry.dtype->size == size) {
        entry.begin = end;
        entry.end = end += static_cast<uint64_t>(entry.tensor.numel()) * size;
      }
  return planned;
}

std::string header_text(const std::string& where, const NamedTensors& weights,
                        const std::vector<PlannedTensor>& planned) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  // Built as a vector of pairs would be: ordered_json searches linearly on every insertion by key.
  auto& members = header.get_ref<nlohmann::ordered_json::object_t&>();
  if (!weights.metadata.empty()) members.emplace_back(std::string(metadata_key), weights.metadata);
  for (const PlannedTensor& entry : planned)
    members.emplace_back(*entry.name, nlohmann::ordered_json{{"dtype", entry.dtype->safetensors},
                                                             {"shape", entry.tensor.sizes().vec()},
                                                             {"data_offsets", {entry.begin, entry.end}}});
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::failed, where, "a name or a metadata text is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > longest_header || planned.size() > kMostTensors)
    throw Error(ErrorKind::unsupported, where, "{} tensors make a header of {} bytes, expected at most {}",
                planned.size(), text.size(), longest_header);
  return text;
}

}  // namespace

NamedTensors parse_safetensors(const ByteSource& source) {
  ByteReader reader(source);
  const auto length = reader.number<uint64_t>("the header length");
  if (length > reader.remaining() || length > longest_header)
    throw Error(ErrorKind::format, source.name, "claims a header of {} bytes, expected at most {}", length,
                std::min(reader.remaining(), longest_header));
  const std::string_view header = reader.text(length, "the header");
  HeaderHandler handler(source);
  nlohmann::json::sax_parse(header.begin(), header.end(), &handler);
  const std::span<const std::byte> data = source.bytes.subspan(reader.position());
  NamedTensors weights;
  weights.metadata = std::move(handler.metadata);
  for (const TensorEntry& entry : handler.entries) {
    const TensorDtype& dtype = dtype_of_entry(source, entry);
    checked_byte_count(source, entry.name, entry.shape, dtype);
  }
  check_offsets(source, handler.entries, data.size());
  for (TensorEntry& entry : handler.entries) {
    const auto begin = static_cast<uint64_t>(entry.offsets[0]), end = static_cast<uint64_t>(entry.offsets[1]);
    at::Tensor tensor =
        tensor_over(source, entry.name, data.subspan(begin, end - begin), entry.shape, dtype_of_entry(source, entry));
    weights.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return weights;
}

NamedTensors read_safetensors(const std::filesystem::path& path) { return parse_safetensors(ByteSource::map(path)); }

void write_safetensors(const std::filesystem::path& path, const NamedTensors& weights) {
  std::vector<PlannedTensor> planned = plan_layout(path.string(), weights);
  const std::string header = header_text(path.string(), weights, planned);
  std::stable_sort(planned.begin(), planned.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  write_file_atomically(path, [&](std::ostream& out) {
    const uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const PlannedTensor& entry : planned) {
      const at::Tensor plain = entry.tensor.detach().cpu().contiguous();
      out.write(static_cast<const char*>(plain.data_ptr()), static_cast<std::streamsize>(entry.end - entry.begin));
    }
  });
}

}  // namespace pare
