#include "pare/zoo/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pare {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // distances of the prefix of a read so far to each prefix of b
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates, size_t count) {
  std::vector<std::pair<size_t, size_t>> order;  // distance, index
  for (size_t i = 0; i < candidates.size(); ++i) order.emplace_back(edit_distance(name, candidates[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(count, order.size()); ++i) names.push_back(candidates[order[i].second]);
  return names;
}

}  // namespace pare
