// Horizontal bars as SVG: how much of each layer is left. Same rules as line_plot.h.
#pragma once

#include <string>
#include <vector>

namespace pare {

struct Bar {
  std::string name;
  double value = 0;
  double whole = 0;
  bool operator==(const Bar&) const = default;
};

struct BarChart {
  std::string title;  // for those who do not see the picture
  std::vector<Bar> bars;
};

// For a page that has plot_css() in its style.
std::string to_inline_svg(const BarChart& chart);

}  // namespace pare
