// Recipes: the part of TOML that an option table needs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pare {

// `key = value` on lines of their own, with comments; a value is a text, a number, true, false, or a list of these,
// which may span several lines. What to_toml (core/options.h) wrote reads back as it was. Error{usage} names `source`
// and the line; tables, dates and texts of several lines are among what it refuses.
nlohmann::json from_toml(std::string_view text, const std::string& source);

}  // namespace pare
