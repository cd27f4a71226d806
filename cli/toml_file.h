// A file of keys and values that a user writes: a recipe, or the widths of groups.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace pare::cli {

// A file or a pipe; `what` it should be stands in errors. Error{file} when it cannot be read, Error{usage} when it is
// something else.
nlohmann::json read_toml_file(const std::string& path, const std::string& what);

}  // namespace pare::cli
