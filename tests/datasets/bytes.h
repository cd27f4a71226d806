// Helpers of the data tests: bytes, idx files and gzip.
#pragma once

#include <zlib.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/temporary.h"  // IWYU pragma: export

namespace pare {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string gzip_of(std::string_view text) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string idx_of(const std::vector<uint32_t>& sizes, std::string_view values) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(size >> shift));
  return out.append(values);
}

}  // namespace pare
