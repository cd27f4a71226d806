// Two graphs side by side as one HTML page, under the rules of page.h.
#pragma once

#include <string>

#include "pare/analysis/graph_diff.h"
#include "pare/core/graph.h"
#include "pare/report/html.h"

namespace pare {

struct DiffPage {
  std::string title;
  std::string a;  // names of the models
  std::string b;
  HtmlTable totals;
  HtmlTable outputs;
};

std::string html_page(const DiffPage& page, const Graph& a, const Graph& b, const GraphDiff& diff);

}  // namespace pare
