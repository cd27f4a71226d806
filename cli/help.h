// What --help shows: options by what they are for, those that most people need; --help-all shows them all.
#pragma once

#include <string>

#include "command.h"

namespace pare::cli {

// Lines of at most `width` columns.
std::string command_help(Command& command, bool all, size_t width);
std::string program_help(size_t width);

// The columns of the terminal that stdout is, within what is good to read; a hundred elsewhere.
size_t help_width();

}  // namespace pare::cli
