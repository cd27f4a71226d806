// The globals that a pickle may name and what each of them means as data. Used by the unpickler only.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "pare/error.h"
#include "pare/io/pickle.h"

namespace pare {

enum class GlobalMeaning {
  constant,        // stands for itself: a dtype, a type given as an argument
  storage,         // a storage class, the second part of a persistent id
  rebuild_tensor,  // (storage, offset, sizes, strides, ...) -> tensor
  first_argument,  // the call returns its first argument: Parameter(tensor), Size(tuple), set(list)
  dict,            // an empty dict, or the dict of a list of pairs
  device,          // ("cuda", 0) -> "cuda:0"
  object,          // an instance whose state is dropped
  encode_latin1,   // how Python 3 writes bytes in protocol 2
  numpy_dtype,     // ("f8", ...) -> dtype
  numpy_scalar,    // (dtype, bytes) -> number
};

struct AllowedGlobal {
  std::string_view module;
  std::string_view name;
  GlobalMeaning meaning;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

// The document under construction and the memory it may still take.
struct PickleBuilder {
  const ByteSource& source;
  uint64_t budget;
  uint64_t position = 0;  // of the opcode that is being executed
  PickleDocument document;

  void charge(uint64_t bytes);
  PickleId add(PickleValue value, uint64_t extra_bytes = 0);

  // "the pickle at byte N: expected ..."
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::format, source.name, "the pickle at byte {}: {}", position,
                fmt::format(format, std::forward<Args>(args)...));
  }
};

// Throws Error{unsupported} naming the global when it is not on the list.
const AllowedGlobal& find_global(const PickleBuilder& builder, std::string_view module, std::string_view name);

PickleId call_global(PickleBuilder& builder, PickleId callable, PickleId arguments);
void set_state(PickleBuilder& builder, PickleId object, PickleId state);
PickleId load_persistent(PickleBuilder& builder, PickleId id);

}  // namespace pare
