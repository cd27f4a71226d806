#include "pare/workflow/line_plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace pare {

namespace {

constexpr double kLeft = 60;
constexpr double kTop = 40;
constexpr double kWidth = 560;
constexpr double kHeight = 340;
constexpr double kLegend = 18;  // a line of it

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

struct Range {
  double low = 0;
  double high = 1;
  double part(double value) const { return (value - low) / (high - low); }
};

Range range_of(const LinePlot& plot, std::vector<double> LineSeries::*member) {
  Range range{1e300, -1e300};
  for (const auto& series : plot.series)
    for (const double value : series.*member) {
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  if (!(range.low < range.high))
    return {range.low < 1e300 ? range.low - 0.5 : 0, range.low < 1e300 ? range.low + 0.5 : 1};
  return range;
}

}  // namespace

std::string to_svg(const LinePlot& plot) {
  const Range x = range_of(plot, &LineSeries::x);
  const Range y = range_of(plot, &LineSeries::y);
  const double height = std::max(kTop + kHeight + 60, kTop + kLegend * static_cast<double>(plot.series.size() + 1));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"920\" height=\"{0:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"920\" height=\"{0:.0f}\" fill=\"white\"/>\n"
      "<text x=\"{1}\" y=\"22\" font-size=\"15\">{2}</text>\n",
      height, kLeft, escaped(plot.title));
  for (int i = 0; i <= 5; ++i) {
    const double part = i / 5.0;
    const double px = kLeft + part * kWidth;
    const double py = kTop + (1 - part) * kHeight;
    svg += fmt::format(
        "<path d=\"M{0} {1:.1f}H{2}M{3:.1f} {4}V{5}\" stroke=\"#ddd\" fill=\"none\"/>\n"
        "<text x=\"{6}\" y=\"{7:.1f}\" text-anchor=\"end\">{8:.2f}</text>\n"
        "<text x=\"{3:.1f}\" y=\"{9}\" text-anchor=\"middle\">{10:.2f}</text>\n",
        kLeft, py, kLeft + kWidth, px, kTop, kTop + kHeight, kLeft - 6, py + 4, y.low + part * (y.high - y.low),
        kTop + kHeight + 16, x.low + part * (x.high - x.low));
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", kLeft + kWidth / 2,
                     kTop + kHeight + 36, escaped(plot.x));
  svg += fmt::format("<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     kTop + kHeight / 2, escaped(plot.y));
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const LineSeries& series = plot.series[s];
    // Hues a golden angle apart stay apart however many there are.
    const std::string colour = fmt::format("hsl({:.0f},70%,{}%)", 137.5 * static_cast<double>(s), 35 + 10 * (s % 3));
    std::string points;
    for (size_t i = 0; i < series.x.size(); ++i)
      points += fmt::format("{:.1f},{:.1f} ", kLeft + x.part(series.x[i]) * kWidth,
                            kTop + (1 - y.part(series.y[i])) * kHeight);
    const double line = kTop + kLegend * static_cast<double>(s);
    svg += fmt::format(
        "<polyline points=\"{0}\" fill=\"none\" stroke=\"{1}\" stroke-width=\"1.5\"/>\n"
        "<rect x=\"640\" y=\"{2:.0f}\" width=\"12\" height=\"3\" fill=\"{1}\"/><text x=\"658\" "
        "y=\"{3:.0f}\">{4}</text>\n",
        points, colour, line, line + 5, escaped(series.name));
  }
  return svg + "</svg>\n";
}

}  // namespace pare
