// Two graphs side by side as one HTML page, under the rules of page.h.
#pragma once

#include <string>
#include <vector>

#include "pare/compare.h"
#include "pare/graph.h"
#include "pare/report/html.h"

namespace pare {

struct OutputDiff {
  std::string name;
  double largest = 0;   // difference
  double relative = 0;  // to the largest value
  std::string problem;  // why there are no figures; empty where there are
};

struct DiffPage {
  std::string title;
  std::string a;  // names of the models
  std::string b;
  HtmlTable totals;
  std::vector<OutputDiff> outputs;
  std::string problem;  // why no output was compared; empty where they were, or were not to be
};

std::string html_page(const DiffPage& page, const Graph& a, const Graph& b, const GraphDiff& diff);

}  // namespace pare
