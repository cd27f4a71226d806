// Records as one HTML page that needs nothing beside it and no network; light and dark, narrow and printed. Its one
// script (report/page_script.h) may be left out.
#pragma once

#include <string>
#include <vector>

#include "pare/report/record.h"

namespace pare {

struct PageOptions {
  std::string title = "pare report";
  size_t image_bytes = 1'300'000;  // for pictures, at most; fewer beside much else, so that a page stays below 2 MB
};

// The document around a body, with the style of every page here and `style` after it. Only the title is escaped.
std::string html_document(const std::string& title, const std::string& style, const std::string& body);

std::string html_page(const std::vector<Record>& records, const PageOptions& options = {});

}  // namespace pare
