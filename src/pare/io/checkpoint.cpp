#include "pare/io/checkpoint.h"

#include "pare/error.h"

namespace pare {

namespace {

bool looks_like_tar(const ByteSource& source) {
  return source.text().size() > 262 && source.text().substr(257, 5) == "ustar";
}

}  // namespace

bool looks_like_zip(const ByteSource& source) { return source.text().starts_with(std::string_view("PK\3\4", 4)); }

bool looks_like_checkpoint(const ByteSource& source) {
  return looks_like_zip(source) || looks_like_legacy_checkpoint(source) || looks_like_tar(source);
}

NamedTensors parse_checkpoint(const ByteSource& source) {
  if (looks_like_zip(source)) return parse_zip_checkpoint(source);
  if (looks_like_legacy_checkpoint(source)) return parse_legacy_checkpoint(source);
  if (looks_like_tar(source))
    throw Error(ErrorKind::unsupported, source.name,
                "is a tar archive, as PyTorch wrote before 0.1.10; load and save it again with a newer PyTorch");
  throw Error(ErrorKind::format, source.name,
              "is not a PyTorch checkpoint: expected a zip archive (PK) or a pickle with PyTorch's magic number, found "
              "the bytes '{}'",
              printable(source.text().substr(0, 8)));
}

NamedTensors read_checkpoint(const std::filesystem::path& path) { return parse_checkpoint(ByteSource::map(path)); }

}  // namespace pare
