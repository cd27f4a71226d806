#include "pare/report/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "pare/report/html.h"

namespace pare {

namespace {

constexpr double kLeft = 64;
constexpr double kTop = 36;
constexpr double kWidth = 632;
constexpr double kHeight = 300;
constexpr double kWhole = kLeft + kWidth + 24;
constexpr double kLegendLine = 20;
constexpr size_t kColours = 8;
constexpr size_t kMostMarks = 40;  // of a curve: more hide it, and fill a page

struct Range {
  double low = 0;
  double high = 1;
  double part(double value) const { return (value - low) / (high - low); }
};

// What can be drawn: beyond, differences and steps are no numbers any more.
bool drawable(double value) { return std::abs(value) <= 1e100; }

// The ticks of an axis span all its values.
std::vector<double> ticks_of(const LinePlot& plot, std::vector<double> LineSeries::*member) {
  Range range{1e300, -1e300};
  for (const auto& series : plot.series)
    for (const double value : series.*member) {
      if (!drawable(value)) continue;
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  if (range.low > range.high) return round_ticks(0, 1, 5);
  if (range.low == range.high) return round_ticks(range.low - 0.5, range.high + 0.5, 5);
  return round_ticks(range.low, range.high, 5);
}

// One of four shapes about a point.
std::string mark_path(size_t shape, double x, double y) {
  switch (shape % 4) {
    case 0: return fmt::format("M{:.1f} {:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4, y);
    case 1: return fmt::format("M{:.1f} {:.1f}h7v7h-7z", x - 3.5, y - 3.5);
    case 2: return fmt::format("M{:.1f} {:.1f}l4.5 8h-9z", x, y - 5);
    default: return fmt::format("M{:.1f} {:.1f}l5 5l-5 5l-5 -5z", x, y - 5);
  }
}

struct Frame {
  Range x;
  Range y;
  double px(double value) const { return kLeft + x.part(value) * kWidth; }
  double py(double value) const { return kTop + (1 - y.part(value)) * kHeight; }
};

std::string axes(const LinePlot& plot, const std::vector<double>& xs, const std::vector<double>& ys,
                 const Frame& frame) {
  std::string svg;
  for (const double y : ys)
    svg +=
        fmt::format("<path class=\"grid\" d=\"M{} {:.1f}h{}\"/><text x=\"{}\" y=\"{:.1f}\" class=\"end\">{}</text>\n",
                    kLeft, frame.py(y), kWidth, kLeft - 6, frame.py(y) + 4, short_number(y));
  for (const double x : xs)
    svg +=
        fmt::format("<path class=\"grid\" d=\"M{:.1f} {}v{}\"/><text x=\"{:.1f}\" y=\"{}\" class=\"mid\">{}</text>\n",
                    frame.px(x), kTop, kHeight, frame.px(x), kTop + kHeight + 17, short_number(x));
  svg += fmt::format("<text x=\"{}\" y=\"{}\" class=\"mid\">{}</text>\n", kLeft + kWidth / 2, kTop + kHeight + 36,
                     escape_html(plot.x));
  svg += fmt::format("<text transform=\"translate(14 {}) rotate(-90)\" class=\"mid\">{}</text>\n", kTop + kHeight / 2,
                     escape_html(plot.y));
  return svg;
}

bool has_point(const LineSeries& series, size_t i) { return drawable(series.x[i]) && drawable(series.y[i]); }

// A point alone has one always: there is no line to see it by.
bool has_marks(const LinePlot& plot, const LineSeries& series) {
  size_t points = 0;
  for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) points += has_point(series, i) ? 1 : 0;
  return points == 1 || !series.line || (plot.marks && points <= kMostMarks);
}

std::string curve(const LineSeries& series, size_t index, const Frame& frame, bool marks) {
  std::string line;
  std::string points;
  for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    if (!has_point(series, i)) continue;
    const double x = frame.px(series.x[i]);
    const double y = frame.py(series.y[i]);
    if (series.line) line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x, y);
    if (marks)
      points += fmt::format("<path class=\"mark\" d=\"{}\"><title>{}: {}, {}</title></path>\n", mark_path(index, x, y),
                            escape_html(series.name), short_number(series.x[i]), short_number(series.y[i]));
  }
  if (!line.empty()) line = fmt::format("<path class=\"line\" d=\"{}\"/>\n", line);
  return fmt::format("<g class=\"s{} d{}\" data-name=\"{}\">{}{}</g>\n", index % kColours, index / kColours % 3,
                     escape_html(series.name), line, points);
}

std::string legend(const LinePlot& plot) {
  std::string svg;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const size_t line = i / 2;
    const double x = kLeft + static_cast<double>(i % 2) * kWidth / 2;
    const double y = kTop + kHeight + 58 + kLegendLine * static_cast<double>(line);
    svg += fmt::format(
        "<g class=\"s{} d{}\">{}{}</g><text x=\"{}\" y=\"{}\">{}</text>\n", i % kColours, i / kColours % 3,
        plot.series[i].line ? fmt::format("<path class=\"line\" d=\"M{} {}h26\"/>", x, y - 4) : "",
        has_marks(plot, plot.series[i]) ? fmt::format("<path class=\"mark\" d=\"{}\"/>", mark_path(i, x + 13, y - 4))
                                        : "",
        x + 34, y, escape_html(plot.series[i].name));
  }
  return svg;
}

std::string drawn(const LinePlot& plot, const std::string& style) {
  const auto xs = ticks_of(plot, &LineSeries::x);
  const auto ys = ticks_of(plot, &LineSeries::y);
  const Frame frame{{xs.front(), xs.back()}, {ys.front(), ys.back()}};
  const double height = kTop + kHeight + 50 + kLegendLine * std::ceil(static_cast<double>(plot.series.size()) / 2) + 6;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" aria-label=\"{2}\" data-axes=\"{4} {5} {6} {7} {8} {9} {10} {11}\">\n{3}"
      "<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n<text x=\"{4}\" y=\"20\" class=\"title\">{2}</text>\n",
      kWhole, height, escape_html(plot.title), style, kLeft, kTop, kWidth, kHeight, frame.x.low, frame.x.high,
      frame.y.low, frame.y.high);
  svg += axes(plot, xs, ys, frame);
  for (size_t i = 0; i < plot.series.size(); ++i)
    svg += curve(plot.series[i], i, frame, has_marks(plot, plot.series[i]));
  return svg + legend(plot) + "</svg>\n";
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  // Numbers so close that no steps fit between them.
  if (const double least = 1e-9 * std::max(std::abs(low), std::abs(high)); high - low <= least) {
    low -= std::max(least, 1e-9);
    high += std::max(least, 1e-9);
  }
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  for (int i = 0; i < 3 * count + 3; ++i) {
    const double tick = (first + i) * step;
    ticks.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
    if (tick >= high - step * 1e-9) break;
  }
  return ticks;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return "";
  if (size >= 1e9) return fmt::format("{:.3g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string plot_css() {
  constexpr std::array<const char*, kColours> light = {"#2563a8", "#c2410c", "#15803d", "#9333ea",
                                                       "#b91c1c", "#0e7490", "#a16207", "#be185d"};
  constexpr std::array<const char*, kColours> dark = {"#7db7f0", "#fb9b5c", "#6fcf8e", "#c9a0fb",
                                                      "#f58585", "#5fc9d8", "#e0b94f", "#f28ab8"};
  struct Inks {
    const char *paper, *ink, *grid;
  };
  constexpr Inks on_light = {"#fff", "#1c1c1c", "#ddd"};
  constexpr Inks on_dark = {"#16181c", "#e6e6e6", "#3a3d42"};
  constexpr Inks on_paper = {"#fff", "#000", "#ccc"};
  const auto colours = [](const char* within, const auto& list) {
    std::string css;
    for (size_t i = 0; i < kColours; ++i) css += fmt::format("{}.s{}{{--c:{}}}", within, i, list[i]);
    return css;
  };
  // As the system has it, and as a page's reader wants it.
  const auto scheme = [&](const char* within, const Inks& inks, const auto& list) {
    return fmt::format("{}.plot{{--paper:{};--ink:{};--grid:{}}}{}", within, inks.paper, inks.ink, inks.grid,
                       colours(within, list));
  };
  return fmt::format(
      ".plot{{font:12px sans-serif;--paper:#fff;--ink:#1c1c1c;--grid:#ddd}}"
      ".plot text{{fill:var(--ink)}}.plot .title{{font-size:14px;font-weight:600}}"
      ".plot .end{{text-anchor:end}}.plot .mid{{text-anchor:middle}}"
      ".plot .paper{{fill:var(--paper)}}.plot .grid{{stroke:var(--grid);fill:none}}"
      ".plot .line{{stroke:var(--c);fill:none;stroke-width:2}}.plot .mark,.plot .bar{{fill:var(--c)}}"
      ".plot .rest{{fill:var(--grid)}}.d1 .line{{stroke-dasharray:6 3}}.d2 .line{{stroke-dasharray:2 3}}{}"
      "@media (prefers-color-scheme:dark){{{}}}{}{}@media print{{{}}}",
      colours("", light), scheme("", on_dark, dark), scheme(":root[data-theme=dark] ", on_dark, dark),
      scheme(":root[data-theme=light] ", on_light, light),
      scheme("", on_paper, light) + scheme(":root[data-theme] ", on_paper, light));
}

std::string to_inline_svg(const LinePlot& plot) { return drawn(plot, ""); }

std::string to_svg(const LinePlot& plot) { return drawn(plot, fmt::format("<style>{}</style>\n", plot_css())); }

}  // namespace pare
