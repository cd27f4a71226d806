// Widths of groups as a file that people can edit: one line for each group, its name and how many channels stay.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pare/prune.h"

namespace pare::cli {

// Error{file} when it cannot be read, Error{usage} when it is no such file, with the line.
std::map<std::string, int64_t> read_plan(const std::string& path);

// Groups that were cut, with what they had in a comment.
void write_plan(const std::string& path, const std::vector<PrunedGroup>& groups);

// Widths and losses over the depth of a network, as a picture.
std::string plan_svg(const std::string& title, const std::vector<PrunedGroup>& groups);

}  // namespace pare::cli
