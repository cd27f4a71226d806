#include "pare/report/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pare/report/html.h"
#include "pare/report/line_plot.h"

namespace pare {

std::string to_inline_svg(const BarChart& chart) {
  constexpr double left = 220;
  constexpr double width = 380;
  constexpr double whole_width = 720;
  constexpr double line = 20;
  const double height = 6 + line * static_cast<double>(chart.bars.size()) + 8;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" aria-label=\"{2}\">\n<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n",
      whole_width, height, escape_html(chart.title));
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const Bar& bar = chart.bars[i];
    const double part = bar.whole > 0 ? std::clamp(bar.value / bar.whole, 0.0, 1.0) : 0;
    const double y = 6 + line * static_cast<double>(i);
    svg += fmt::format(
        "<text x=\"{0}\" y=\"{1}\" class=\"end\">{2}</text><rect class=\"rest\" x=\"{3}\" y=\"{4}\" width=\"{5}\" "
        "height=\"14\"/><g class=\"s0\"><rect class=\"bar\" x=\"{3}\" y=\"{4}\" width=\"{6:.1f}\" height=\"14\"/></g>"
        "<text x=\"{7}\" y=\"{1}\">{8} of {9}</text>\n",
        left - 8, y + 11, escape_html(bar.name), left, y, width, part * width, left + width + 8,
        short_number(bar.value), short_number(bar.whole));
  }
  return svg + "</svg>\n";
}

}  // namespace pare
