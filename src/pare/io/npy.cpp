#include "pare/io/npy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <ostream>
#include <vector>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/tensor_bytes.h"

namespace pare {

namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr uint64_t longest_npy_header = 65535;

struct NpyHeader {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// The header is a Python dict literal of three known keys: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class NpyHeaderParser {
 public:
  NpyHeaderParser(const ByteSource& source, std::string_view text) : source_(source), text_(text) {}

  NpyHeader parse() {
    NpyHeader header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      field(header, key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size() || !header.descr || !header.fortran_order || !header.shape)
      fail("a dict of descr, fortran_order and shape");
    return header;
  }

 private:
  void field(NpyHeader& header, std::string_view key) {
    if (key == "descr" && !header.descr) {
      skip_space();
      if (at_ < text_.size() && text_[at_] == '[')
        throw Error(ErrorKind::unsupported, source_.name, "holds a structured array, expected plain numbers");
      header.descr = quoted();
    } else if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = boolean();
    } else if (key == "shape" && !header.shape) {
      header.shape = tuple();
    } else {
      fail("each of descr, fortran_order and shape once");
    }
  }
  std::string quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("a quoted string");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("True or False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc{} || value < 0) fail("a dimension from 0 to 2^63 - 1");
      at_ = static_cast<size_t>(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote long integers
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}'", c));
  }
  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(ErrorKind::format, source_.name, "the .npy header: expected {}, found '{}'", expected,
                printable(text_.substr(std::min(at_, text_.size()), 24)));
  }

  const ByteSource& source_;
  std::string_view text_;
  size_t at_ = 0;
};

const TensorDtype& dtype_of_descr(const ByteSource& source, std::string_view descr) {
  const char order = descr.empty() ? '\0' : descr.front();
  const bool has_order = order == '<' || order == '|' || order == '=' || order == '>';
  const std::string_view code = has_order ? descr.substr(1) : descr;
  for (const TensorDtype& dtype : tensor_dtypes()) {
    if (dtype.npy.empty() || dtype.npy != code) continue;
    if (order == '>' && dtype.size > 1) break;
    return dtype;
  }
  throw Error(ErrorKind::unsupported, source.name, "holds the dtype '{}', expected little-endian numbers{}",
              printable(descr), code.substr(0, 1) == "O" ? "; pickled objects are never loaded" : "");
}

}  // namespace

at::Tensor parse_npy(const ByteSource& source) {
  ByteReader reader(source);
  if (!source.text().starts_with(npy_magic))
    throw Error(ErrorKind::format, source.name, "is not a .npy file: expected it to begin with \\x93NUMPY");
  reader.take(npy_magic.size(), "the magic bytes");
  const auto major = reader.number<uint8_t>("the version");
  const auto minor = reader.number<uint8_t>("the version");
  if (major < 1 || major > 3 || minor != 0)
    throw Error(ErrorKind::unsupported, source.name, "is .npy version {}.{}, expected 1.0, 2.0 or 3.0", major, minor);
  const uint64_t length =
      major == 1 ? reader.number<uint16_t>("the header length") : reader.number<uint32_t>("the header length");
  if (length > longest_npy_header)
    throw Error(ErrorKind::format, source.name, "claims a header of {} bytes, expected at most {}", length,
                longest_npy_header);
  const NpyHeader header = NpyHeaderParser(source, reader.text(length, "the header")).parse();
  const TensorDtype& dtype = dtype_of_descr(source, *header.descr);
  std::vector<int64_t> shape = *header.shape;
  if (*header.fortran_order) std::reverse(shape.begin(), shape.end());
  const auto data = source.bytes.subspan(reader.position());
  at::Tensor tensor = tensor_over(source, "array", data, shape, dtype);
  if (!*header.fortran_order) return tensor;
  std::vector<int64_t> reversed(shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return tensor.permute(reversed);
}

at::Tensor read_npy(const std::filesystem::path& path) { return parse_npy(ByteSource::map(path)); }

void write_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  const TensorDtype& dtype = writable_dtype(path.string(), "array", tensor);
  if (dtype.npy.empty())
    throw Error(ErrorKind::unsupported, path.string(), "NumPy has no dtype {}", c10::toString(dtype.type));
  std::string shape;
  for (const int64_t dimension : tensor.sizes()) shape += fmt::format("{}, ", dimension);
  if (tensor.dim() > 1) shape.resize(shape.size() - 2);
  if (tensor.dim() == 1) shape.resize(shape.size() - 1);
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   dtype.size == 1 ? '|' : '<', dtype.npy, shape);
  const size_t before = npy_magic.size() + 4;
  header.resize((before + header.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  header += '\n';
  const at::Tensor plain = tensor.detach().cpu().contiguous();
  write_file_atomically(path, [&](std::ostream& out) {
    const auto length = static_cast<uint16_t>(header.size());
    out << npy_magic << '\x01' << '\0';
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << header;
    out.write(static_cast<const char*>(plain.data_ptr()),
              static_cast<std::streamsize>(static_cast<uint64_t>(plain.numel()) * dtype.size));
  });
}

}  // namespace pare
