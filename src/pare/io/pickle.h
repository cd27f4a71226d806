// A restricted unpickler: a stack machine that reads pickles of protocols 0 to 5 and builds data only. Nothing is ever
// imported or called; the few globals that PyTorch checkpoints need are interpreted here (see pickle_globals.cpp), and
// any other global is an Error{unsupported} that names it.
//
// Values live in one table and refer to each other by id, so shared values cost nothing, destroying a document never
// recurses, and the nesting is checked once, at the end: a document that is returned has no cycles and is at most
// 200 levels deep. Memory is charged before it is spent, at most the pickle's size + 32 MB.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pare/io/byte_source.h"

namespace pare {

enum class PickleId : uint32_t {};

struct PickleNone {};
struct PickleBytes {
  std::string bytes;
};
struct PickleLong {  // an integer that 64 bits do not hold
  std::string little_endian;
};
struct PickleList {  // a list or a set
  std::vector<PickleId> items;
};
struct PickleTuple {
  std::vector<PickleId> items;
};
struct PickleDict {  // a dict, in the order of its insertions
  std::vector<std::pair<PickleId, PickleId>> items;
};
struct PickleGlobal {  // an allowed global as such: a dtype, a storage class, a rebuild function
  const struct AllowedGlobal* global;
};
struct PickleObject {  // an instance of an allowed class of which only the name is kept
  const struct AllowedGlobal* type;
};
struct PickleNumpyType {
  char kind;  // f, i, u or b
  uint8_t size;
  bool big_endian;
};
struct PickleStorage {
  c10::ScalarType dtype;
  std::string key;
  uint64_t numel;        // of the whole storage, in elements
  uint64_t view_offset;  // a legacy file may name a part of a storage
  uint64_t view_numel;
};
struct PickleTensor {
  std::shared_ptr<const PickleStorage> storage;
  uint64_t offset;  // in elements, within the storage's view
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

using PickleValue = std::variant<PickleNone, bool, int64_t, double, std::string, PickleBytes, PickleLong, PickleList,
                                 PickleTuple, PickleDict, PickleGlobal, PickleObject, PickleNumpyType,
                                 std::shared_ptr<const PickleStorage>, std::shared_ptr<const PickleTensor>>;

struct PickleDocument {
  std::deque<PickleValue> values;
  std::vector<std::shared_ptr<const PickleStorage>> storages;  // one for each persistent id that was read
  PickleId root{};

  const PickleValue& operator[](PickleId id) const { return values[static_cast<uint32_t>(id)]; }
  PickleValue& operator[](PickleId id) { return values[static_cast<uint32_t>(id)]; }

  // Null when the value is of another type.
  template <typename T>
  const T* get(PickleId id) const {
    return std::get_if<T>(&(*this)[id]);
  }
  const PickleDict* dict(PickleId id) const { return get<PickleDict>(id); }
};

// "a dict", "a string", ...: for errors and for lists of what was ignored.
std::string_view kind_of(const PickleValue& value);

// Throws Error{format} when what the root reaches has a cycle or is nested more than 200 deep. Linear.
void check_nesting(const ByteSource& source, const PickleDocument& document);

// Reads one pickle and leaves the reader after its STOP.
PickleDocument unpickle(ByteReader& reader);

}  // namespace pare
