// The reference of all commands, from the same description of options as everything else.
#pragma once

#include <string>

namespace pare::cli {

std::string man_page();            // roff, section 1
std::string markdown_reference();  // docs/reference.md

}  // namespace pare::cli
