// What a fuzzer of a reader asks for: that it reads, or refuses with an Error of the kind format.
#pragma once

#include <cstdlib>

#include "pare/error.h"

template <typename Call>
void read_or_refuse(Call call) {
  try {
    call();
  } catch (const pare::Error& error) {
    if (error.kind() != pare::ErrorKind::format) std::abort();
  }
}
