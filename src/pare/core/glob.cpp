#include "pare/core/glob.h"

#include <fnmatch.h>

namespace pare {

bool glob_matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace pare
