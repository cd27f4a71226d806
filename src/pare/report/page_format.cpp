#include "pare/report/page_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace pare {

std::string fixed_figure(double value, int digits) {
  return std::isnan(value) ? kAbsent : fmt::format("{:.{}f}", value, digits);
}

std::string grouped_figure(double value) {
  if (std::isnan(value) || std::abs(value) > 1e15) return kAbsent;
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), "\u202f");
  return digits;
}

std::string with_share(const std::string& figure, double value, double whole) {
  if (std::isnan(value) || std::isnan(whole) || whole <= 0 || value == whole) return figure;
  return fmt::format("{} <span class=\"soft\">({:.0f} %)</span>", figure, 100 * value / whole);
}

std::string left_out_text(size_t count, const char* what) {
  if (count == 0) return "";
  return fmt::format("<p>{} more {}{} left out.</p>\n", grouped_figure(static_cast<double>(count)), what,
                     count == 1 ? " is" : "s are");
}

std::string latest_within(const std::vector<std::string>& parts, size_t bytes, const char* what) {
  size_t first = parts.size();
  for (size_t size = 0; first > 0 && size + parts[first - 1].size() <= bytes;) size += parts[--first].size();
  return fmt::format("{}{}", left_out_text(first, what),
                     fmt::join(parts.begin() + static_cast<ptrdiff_t>(first), parts.end(), ""));
}

std::string file_name_of(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.empty() ? path : name;
}

std::string shown_name(const std::vector<ModelSummary>& models, const Record& record, const std::string& path) {
  const std::string key = model_key(record, path);
  const auto found = std::find_if(models.begin(), models.end(), [&](const ModelSummary& m) { return m.file == key; });
  return found == models.end() ? file_name_of(path) : found->name;
}

std::string machine_text(const Record& record) {
  return fmt::format("pare {}, libtorch {}, {}, {} threads", record.version, record.machine.libtorch,
                     record.machine.cpu, grouped_figure(static_cast<double>(record.machine.threads)));
}

}  // namespace pare
