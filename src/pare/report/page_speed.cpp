// Section of a page: latencies, as they were measured side by side.
#include <fmt/format.h>

#include <cmath>

#include "pare/report/html.h"
#include "pare/report/page_format.h"
#include "pare/report/page_parts.h"

namespace pare {

using nlohmann::json;

namespace {

// One runtime's figures of a model; `fewer` is the model's own.
std::vector<std::string> latency_row(const std::string& model, const char* by, const json& figures, double fewer) {
  const auto milliseconds = [&](const char* key) { return fixed_figure(1e3 * number_at(figures, key), 3); };
  return {escape_html(model),
          by,
          milliseconds("median_seconds"),
          milliseconds("p10_seconds"),
          milliseconds("p90_seconds"),
          grouped_figure(number_at(figures, "images_per_second")),
          fixed_figure(number_at(figures, "speed_up"), 2),
          fixed_figure(fewer, 2)};
}

std::string bench_table(const Record& record, const std::vector<ModelSummary>& models) {
  HtmlTable table{.heading = {"model", "by", "median ms", "p10", "p90", "images/s", "speed-up", "MACs fewer"},
                  .rows = {},
                  .words = {1}};
  for (const auto& entry : list_at(record.result, "models")) {
    const std::string path = text_at(entry, "model");
    if (path.empty()) continue;
    const std::string name = shown_name(models, record, path);
    const double fewer = number_at(entry, "mac_ratio");
    const json& peer = member_at(entry, "onnxruntime");
    if (!std::isnan(number_at(entry, "median_seconds"))) table.rows.push_back(latency_row(name, "pare", entry, fewer));
    if (!std::isnan(number_at(peer, "median_seconds")))
      table.rows.push_back(latency_row(name, "ONNX Runtime", peer, fewer));
  }
  return table.rows.empty() ? "" : to_html(table);
}

}  // namespace

std::string speed_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models) {
  std::string html;
  for (const auto& record : records) {
    const std::string setting = bench_setting(record);
    const std::string table = setting.empty() ? "" : bench_table(record, models);
    if (table.empty()) continue;
    const json& result = record.result;
    const std::string peer = text_at(result, "onnxruntime");
    html += fmt::format("<p>Times of {}{}{}; speed-up and MACs: against the first model.</p>\n{}", escape_html(setting),
                        peer.empty() ? "" : "; ONNX Runtime ", escape_html(peer), table);
    for (const auto& note : list_at(result, "notes"))
      if (note.is_string()) html += fmt::format("<p>{}</p>\n", escape_html(note.get<std::string>()));
  }
  return html;
}

}  // namespace pare
