#include "plan_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pare/core/file.h"
#include "pare/core/options.h"
#include "pare/error.h"
#include "pare/report/line_plot.h"
#include "toml_file.h"

namespace pare::cli {

std::map<std::string, int64_t> read_plan(const std::string& path) {
  const nlohmann::json entries = read_toml_file(path, "plan");
  std::map<std::string, int64_t> widths;
  for (const auto& [name, value] : entries.items()) {
    if (!value.is_number_integer())
      throw Error(ErrorKind::usage, path, "{}: expected a number of channels, found {}", name, json_text(value));
    widths[name] = value.get<int64_t>();
  }
  if (widths.empty()) throw Error(ErrorKind::usage, path, "expected a line NAME = CHANNELS, found none");
  return widths;
}

void write_plan(const std::string& path, const std::vector<PrunedGroup>& groups) {
  write_file_atomically(path, [&](std::ostream& out) {
    out << "# Channels that stay, by group; groups that are not named stay whole. For pare prune --widths.\n";
    for (const auto& group : groups)
      if (group.kept < group.total)
        out << fmt::format("{} = {}  # of {}\n", json_text(group.name), group.kept, group.total);
  });
}

std::string plan_svg(const std::string& title, const std::vector<PrunedGroup>& groups) {
  LineSeries kept{.name = "channels kept"}, loss{.name = "share of the loss"};
  double most = 0;
  for (const auto& group : groups) most += group.loss;
  double place = 0;
  for (const auto& group : groups) {
    place += 1;
    if (group.kept == group.total && group.loss == 0 && !group.reason.empty()) continue;
    kept.x.push_back(place);
    kept.y.push_back(static_cast<double>(group.kept) / static_cast<double>(std::max<int64_t>(group.total, 1)));
    loss.x.push_back(place);
    loss.y.push_back(most > 0 ? group.loss / most : 0);
  }
  LinePlot plot{.title = title, .x = "channel group, from the input on", .y = "part", .series = {kept}};
  if (most > 0) plot.series.push_back(loss);
  return to_svg(plot);
}

}  // namespace pare::cli
