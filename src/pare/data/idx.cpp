#include "pare/data/idx.h"

#include <ATen/ATen.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "pare/core/file.h"
#include "pare/data/image_rows.h"
#include "pare/error.h"

namespace pare {

namespace {

// The bytes of an idx file in order, inflated on demand when they are gzip.
class IdxBytes {
 public:
  IdxBytes(std::span<const std::byte> bytes, std::string_view where)
      : where_(where), rest_(bytes), size_(bytes.size()) {
    zipped_ = bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
    if (zipped_ && inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK)
      throw Error(ErrorKind::failed, where_, "zlib cannot start");
  }
  ~IdxBytes() {
    if (zipped_) inflateEnd(&stream_);
  }
  IdxBytes(const IdxBytes&) = delete;
  IdxBytes& operator=(const IdxBytes&) = delete;

  // The most bytes the file can hold.
  uint64_t capacity() const { return zipped_ ? size_ * max_expansion : size_; }

  // Exactly `count` bytes.
  void read(uint8_t* out, size_t count) {
    const size_t got = read_some(out, count);
    if (got != count) throw Error(ErrorKind::format, where_, "ends {} bytes early", count - got);
  }

  // Also checks gzip's own checksum, which comes after the last byte.
  void expect_end() {
    uint8_t byte;
    if (read_some(&byte, 1) != 0) throw Error(ErrorKind::format, where_, "holds more bytes than its header says");
    if (zipped_ && !ended_) throw Error(ErrorKind::format, where_, "the gzip stream ends early");
  }

 private:
  size_t read_some(uint8_t* out, size_t count) {
    if (zipped_) return inflate_some(out, count);
    const size_t n = std::min(count, rest_.size());
    if (n > 0) std::memcpy(out, rest_.data(), n);
    rest_ = rest_.subspan(n);
    return n;
  }

  size_t inflate_some(uint8_t* out, size_t count) {
    constexpr size_t most = std::numeric_limits<uInt>::max();
    size_t done = 0;
    while (done < count) {
      if (ended_) {  // another gzip member may follow
        if (rest_.empty()) break;
        if (inflateReset(&stream_) != Z_OK) throw Error(ErrorKind::failed, where_, "zlib cannot restart");
        ended_ = false;
      }
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(std::min(most, rest_.size()));
      stream_.next_out = out + done;
      stream_.avail_out = static_cast<uInt>(std::min(most, count - done));
      const uInt in = stream_.avail_in, space = stream_.avail_out;
      const int state = inflate(&stream_, Z_NO_FLUSH);
      rest_ = rest_.subspan(in - stream_.avail_in);
      done += space - stream_.avail_out;
      ended_ = state == Z_STREAM_END;
      if (state == Z_BUF_ERROR) break;  // no input left
      if (state != Z_OK && state != Z_STREAM_END)
        throw Error(ErrorKind::format, where_, "broken gzip data: {}",
                    stream_.msg != nullptr ? stream_.msg : "no reason");
    }
    return done;
  }

  std::string where_;
  std::span<const std::byte> rest_;
  size_t size_;
  z_stream stream_ = {};
  bool zipped_ = false;
  bool ended_ = false;
};

}  // namespace

at::Tensor decode_idx(std::span<const std::byte> bytes, std::string_view where) {
  IdxBytes source(bytes, where);
  uint8_t magic[4];
  source.read(magic, 4);
  if (magic[0] != 0 || magic[1] != 0 || magic[3] < 1 || magic[3] > 4)
    throw Error(ErrorKind::format, std::string(where), "not an idx file: starts with {:02x} {:02x} {:02x} {:02x}",
                magic[0], magic[1], magic[2], magic[3]);
  if (magic[2] != 0x08)
    throw Error(ErrorKind::format, std::string(where), "idx elements of type 0x{:02x}, expected 0x08, unsigned bytes",
                magic[2]);
  std::vector<int64_t> sizes;
  uint64_t count = 1, extent = 1;  // extent takes a size of 0 as 1: ATen multiplies the sizes of empty tensors too
  constexpr uint64_t most = uint64_t{1} << 62;
  for (int i = 0; i < magic[3]; ++i) {
    uint8_t b[4];
    source.read(b, 4);
    const uint64_t size = uint64_t{b[0]} << 24 | uint64_t{b[1]} << 16 | uint64_t{b[2]} << 8 | b[3];
    sizes.push_back(static_cast<int64_t>(size));
    const uint64_t at_least_one = std::max<uint64_t>(size, 1);
    if (extent > most / at_least_one)
      throw Error(ErrorKind::format, std::string(where), "the header declares {} bytes", fmt::join(sizes, "x"));
    extent *= at_least_one;
    count *= size;
  }
  if (count > source.capacity())
    throw Error(ErrorKind::format, std::string(where), "the header declares {} bytes, the file of {} cannot hold them",
                fmt::join(sizes, "x"), bytes.size());
  auto values = at::empty(sizes, at::kByte);
  source.read(values.data_ptr<uint8_t>(), count);
  source.expect_end();
  return values;
}

at::Tensor read_idx(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return decode_idx(file->bytes(), path.string());
}

}  // namespace pare
