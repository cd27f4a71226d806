// Which known names did somebody mean?
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pare {

// Levenshtein distance: insertions, deletions and substitutions of one character each.
size_t edit_distance(std::string_view a, std::string_view b);

// At most `count` of the candidates, nearest first; of equally near ones the earlier first.
std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates, size_t count);

}  // namespace pare
