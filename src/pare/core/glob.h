// Names with wildcards, as a shell has them.
#pragma once

#include <string>

namespace pare {

// `*` any characters, `?` one, `[…]` a set: as file names are matched.
bool glob_matches(const std::string& pattern, const std::string& name);

}  // namespace pare
