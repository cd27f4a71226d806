// The legacy format: pickles of the magic number, the protocol version, facts about the system, the object and the list
// of storage keys; then, for each key, its number of elements (8 bytes) and its elements.
#include <unordered_map>

#include "pare/error.h"
#include "pare/io/checkpoint.h"
#include "pare/io/tensor_bytes.h"
#include "pare/io/torch_tensors.h"

namespace pare {

namespace {

constexpr std::string_view legacy_magic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t legacy_version = 1001;

void read_preamble(ByteReader& reader) {
  const std::string& name = reader.source().name;
  const PickleDocument magic = unpickle(reader);
  const auto* number = magic.get<PickleLong>(magic.root);
  if (number == nullptr || number->little_endian != legacy_magic)
    throw Error(ErrorKind::format, name, "does not begin with PyTorch's magic number");
  const PickleDocument version = unpickle(reader);
  const auto* found = version.get<int64_t>(version.root);
  if (found == nullptr || *found != legacy_version)
    throw Error(ErrorKind::unsupported, name, "is of PyTorch's format {}, expected {}", found == nullptr ? -1 : *found,
                legacy_version);
  const PickleDocument system = unpickle(reader);
  if (system.dict(system.root) == nullptr)
    throw Error(ErrorKind::format, name, "expected a dict of facts about the system, found {}",
                kind_of(system[system.root]));
  for (const auto& [key, value] : system.dict(system.root)->items) {
    const auto* fact = system.get<std::string>(key);
    const auto* little = system.get<bool>(value);
    if (fact != nullptr && *fact == "little_endian" && little != nullptr && !*little)
      throw Error(ErrorKind::unsupported, name, "was saved on a big-endian machine");
  }
}

using StorageMap = std::unordered_map<std::string, std::span<const std::byte>>;

// The sizes of the raw storages follow from the classes that the object's persistent ids gave them.
StorageMap read_raw_storages(ByteReader& reader, const PickleDocument& object) {
  const std::string& name = reader.source().name;
  std::unordered_map<std::string_view, const PickleStorage*> known;
  for (const auto& storage : object.storages) known.emplace(storage->key, storage.get());
  const PickleDocument keys = unpickle(reader);
  const auto* list = keys.get<PickleList>(keys.root);
  if (list == nullptr)
    throw Error(ErrorKind::format, name, "expected the list of storage keys, found {}", kind_of(keys[keys.root]));
  StorageMap raw;
  for (const PickleId id : list->items) {
    const auto* key = keys.get<std::string>(id);
    const auto storage = key == nullptr ? known.end() : known.find(*key);
    if (storage == known.end())
      throw Error(ErrorKind::format, name, "lists a storage '{}' that no tensor uses",
                  key == nullptr ? kind_of(keys[id]) : printable(*key));
    const auto numel = reader.number<uint64_t>("a storage's size");
    const auto bytes = checked_multiply(numel, find_dtype(storage->second->dtype)->size);
    if (numel != storage->second->numel || !bytes)
      throw Error(ErrorKind::format, name, "storage '{}': expected {} elements, found {}", printable(*key),
                  storage->second->numel, numel);
    if (!raw.emplace(*key, reader.take(*bytes, "a storage")).second)
      throw Error(ErrorKind::format, name, "lists the storage '{}' twice", printable(*key));
  }
  return raw;
}

}  // namespace

bool looks_like_legacy_checkpoint(const ByteSource& source) {
  return source.text().starts_with('\x80') && source.text().substr(0, 40).find(legacy_magic) != std::string_view::npos;
}

NamedTensors parse_legacy_checkpoint(const ByteSource& source) {
  ByteReader reader(source);
  read_preamble(reader);
  const PickleDocument object = unpickle(reader);
  const StorageMap raw = read_raw_storages(reader, object);
  TorchTensors tensors(source, [&](const PickleStorage& storage) {
    const auto found = raw.find(storage.key);
    if (found == raw.end())
      throw Error(ErrorKind::format, source.name, "has no bytes for storage '{}'", printable(storage.key));
    return found->second;
  });
  NamedTensors weights = extract_state_dict(source, object, tensors);
  if (reader.remaining() > 0)
    weights.ignored.push_back(fmt::format("{} bytes after the last storage", reader.remaining()));
  return weights;
}

}  // namespace pare
