// Curves and points as an SVG picture that needs nothing beside it: no script, no font, no network. Colours follow the
// reader's light or dark scheme; series differ by their marks and dashes too, so that a print in grey can be read.
#pragma once

#include <string>
#include <vector>

namespace pare {

struct LineSeries {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  bool line = true;  // false: points that have nothing to do with each other
};

struct LinePlot {
  std::string title;
  std::string x;  // what the axes show
  std::string y;
  std::vector<LineSeries> series;
  bool marks = true;  // at the points, of curves that have few enough
};

// The picture by itself, with its own style.
std::string to_svg(const LinePlot& plot);
// The same for a page that has plot_css() in its style.
std::string to_inline_svg(const LinePlot& plot);
std::string plot_css();

// About `count` round numbers that span low…high, and a little more where those are the same.
std::vector<double> round_ticks(double low, double high, int count);
// 1234567 -> "1.23M"
std::string short_number(double value);

}  // namespace pare
