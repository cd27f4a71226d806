// Pages in the reader's browser. Programs are started by name, without a shell.
#pragma once

#include <filesystem>

namespace pare::cli {

// Opens the page as the desktop would, and does not wait for it. False where nothing is installed that could.
bool open_page(const std::filesystem::path& page);

// Prints the page by a headless Chromium or Chrome. Error{failed} where none is installed, or it gives no file.
void print_page(const std::filesystem::path& page, const std::filesystem::path& pdf);

}  // namespace pare::cli
