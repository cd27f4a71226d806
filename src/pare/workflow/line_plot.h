// Curves as an SVG picture that needs nothing beside it.
#pragma once

#include <string>
#include <vector>

namespace pare {

struct LineSeries {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
};

struct LinePlot {
  std::string title;
  std::string x;  // what the axes show
  std::string y;
  std::vector<LineSeries> series;
};

std::string to_svg(const LinePlot& plot);

}  // namespace pare
