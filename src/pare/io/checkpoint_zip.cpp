// The zip format: <root>/data.pkl is the object, <root>/data/<key> are the storages, <root>/byteorder their byte order.
#include <algorithm>

#include "pare/error.h"
#include "pare/io/checkpoint.h"
#include "pare/io/torch_tensors.h"
#include "pare/io/zip.h"

namespace pare {

namespace {

// The directory that holds data.pkl, with its slash.
std::string archive_root(const ByteSource& source, const ZipArchive& archive) {
  constexpr std::string_view object = "data.pkl";
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : archive.entries()) {
    const size_t slash = entry.name.find('/');
    if (slash == std::string_view::npos || entry.name.substr(slash + 1) != object) continue;
    if (found != nullptr) throw Error(ErrorKind::format, source.name, "holds more than one data.pkl");
    found = &entry;
  }
  if (found == nullptr)
    throw Error(ErrorKind::format, source.name, "is a zip archive without a data.pkl, expected one of torch.save");
  return std::string(found->name.substr(0, found->name.size() - object.size()));
}

void refuse_torchscript(const ByteSource& source, const ZipArchive& archive, const std::string& root) {
  const auto is_code = [&](const ZipEntry& entry) { return entry.name.starts_with(root + "code/"); };
  if (archive.find(root + "constants.pkl") != nullptr ||
      std::any_of(archive.entries().begin(), archive.entries().end(), is_code))
    throw Error(ErrorKind::unsupported, source.name,
                "is a TorchScript archive; save its weights with torch.save(torch.jit.load(path).state_dict(), out)");
}

void check_byte_order(const ByteSource& source, const ZipArchive& archive, const std::string& root) {
  const ZipEntry* entry = archive.find(root + "byteorder");
  if (entry == nullptr) return;
  const auto bytes = archive.bytes(*entry);
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order != "little")
    throw Error(ErrorKind::unsupported, source.name, "is in byte order '{}', expected 'little'", printable(order));
}

}  // namespace

NamedTensors parse_zip_checkpoint(const ByteSource& source) {
  const ZipArchive archive(source);
  const std::string root = archive_root(source, archive);
  refuse_torchscript(source, archive, root);
  check_byte_order(source, archive, root);
  const ZipEntry& object = *archive.find(root + "data.pkl");
  archive.bytes(object);  // checked before it is parsed
  ByteReader reader(source, object.offset, object.offset + object.size);
  const PickleDocument document = unpickle(reader);
  TorchTensors tensors(source, [&](const PickleStorage& storage) {
    const ZipEntry* entry = archive.find(root + "data/" + storage.key);
    if (entry == nullptr)
      throw Error(ErrorKind::format, source.name, "has no bytes for storage '{}'", printable(storage.key));
    return archive.bytes(*entry);
  });
  return extract_state_dict(source, document, tensors);
}

}  // namespace pare
