// Boxes in pictures, and how much two of them have in common. Pure functions; any thread.
#pragma once

#include <algorithm>

namespace pare {

struct Rectangle {
  double left = 0, top = 0, right = 0, bottom = 0;

  double area() const { return std::max(right - left, 0.0) * std::max(bottom - top, 0.0); }
};

inline double common_area(const Rectangle& a, const Rectangle& b) {
  return Rectangle{std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
                   std::min(a.bottom, b.bottom)}
      .area();
}

// Intersection over union; 0 of boxes without area.
inline double overlap(const Rectangle& a, const Rectangle& b) {
  const double both = common_area(a, b), whole = a.area() + b.area() - both;
  return whole > 0 ? both / whole : 0;
}

}  // namespace pare
