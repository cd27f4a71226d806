#include "pare/io/weights.h"

#include "pare/error.h"
#include "pare/io/checkpoint.h"
#include "pare/io/safetensors.h"

namespace pare {

namespace {

// A header length of at most 2^32 and the brace that opens the header.
bool looks_like_safetensors(const ByteSource& source) {
  return source.text().size() > 8 && source.text()[8] == '{' &&
         source.text().substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

}  // namespace

NamedTensors parse_weights(const ByteSource& source) {
  if (looks_like_safetensors(source)) return parse_safetensors(source);
  if (looks_like_checkpoint(source)) return parse_checkpoint(source);
  throw Error(
      ErrorKind::format, source.name,
      "is not a file of weights: expected safetensors, or a PyTorch checkpoint (a zip archive, or a pickle with "
      "PyTorch's magic number); found {} bytes that begin with '{}'",
      source.bytes.size(), printable(source.text().substr(0, 8)));
}

NamedTensors read_weights(const std::filesystem::path& path) { return parse_weights(ByteSource::map(path)); }

bool looks_like_weights(const std::filesystem::path& path) {
  const ByteSource source = ByteSource::map(path);
  return looks_like_safetensors(source) || looks_like_checkpoint(source);
}

}  // namespace pare
