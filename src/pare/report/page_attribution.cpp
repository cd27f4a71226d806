// Section of a page: how well heat maps find objects, and how much is lost without the pixels that they name.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pare/report/html.h"
#include "pare/report/line_plot.h"
#include "pare/report/page_format.h"
#include "pare/report/page_parts.h"

namespace pare {

using nlohmann::json;

namespace {

std::string localization_table(const Record& record, const std::vector<ModelSummary>& models) {
  HtmlTable table{.heading = {"model", "AUC", "point accuracy", "cosine"}, .rows = {}, .words = {}};
  const json& result = record.result;
  for (const auto& entry : list_at(result, "models")) {
    const std::string path = text_at(entry, "model");
    if (path.empty()) continue;
    const json& predicted = member_at(entry, "predicted");
    table.rows.push_back({escape_html(shown_name(models, record, path)), fixed_figure(number_at(predicted, "auc"), 4),
                          fixed_figure(number_at(predicted, "point"), 4), fixed_figure(number_at(entry, "cosine"), 4)});
  }
  if (table.rows.empty()) return "";
  return fmt::format(
      "<h3>Objects found by {}</h3>\n{}<p>{} of {}, {} images; classes that are present and predicted. Cosine: with "
      "the "
      "maps of the first model.</p>\n",
      escape_html(text_at(result, "method")), to_html(table), escape_html(text_at(result, "split")),
      escape_html(text_at(result, "data")), grouped_figure(number_at(result, "samples")));
}

// The metric at every level, and before that where nothing is removed.
LineSeries removal_curve(const json& curve, const json& result, const std::string& metric) {
  LineSeries series{.name = "", .x = {}, .y = {}};
  const json& levels = list_at(result, "levels");
  const json& points = list_at(curve, "points");
  for (size_t i = 0; i < std::min(levels.size(), points.size()); ++i) {
    const double value = number_at(points[i], metric.c_str());
    if (std::isnan(value) || !levels[i].is_number()) continue;
    series.x.push_back(levels[i].get<double>());
    series.y.push_back(value);
  }
  if (const double whole = number_at(member_at(result, "whole"), metric.c_str());
      !series.x.empty() && !std::isnan(whole)) {
    series.x.insert(series.x.begin(), 0.0);
    series.y.insert(series.y.begin(), whole);
  }
  return series;
}

std::string removal_plot(const Record& record, const std::vector<ModelSummary>& models) {
  const json& result = record.result;
  const std::string metric = text_at(result, "metric");
  LinePlot plot{.title = fmt::format("Remove and retrain, {}", text_at(result, "method")),
                .x = "part of the pixels removed",
                .y = metric,
                .series = {}};
  size_t left_out = 0;
  for (const auto& curve : list_at(result, "curves")) {
    LineSeries series = removal_curve(curve, result, metric);
    if (series.x.empty()) continue;
    series.name = shown_name(models, record, text_at(curve, "maps"));
    if (plot.series.size() < kMostCurves)
      plot.series.push_back(std::move(series));
    else
      ++left_out;
  }
  if (plot.series.empty()) return "";
  return fmt::format("<div class=\"wide\">{}</div>\n{}", to_inline_svg(plot), left_out_text(left_out, "curve"));
}

}  // namespace

std::string attribution_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models) {
  std::string tables;
  std::string plots;
  for (const auto& record : records) {
    const std::string command = record.command;
    if (command == "localize") tables += localization_table(record, models);
    if (command == "roar") plots += removal_plot(record, models);
  }
  if (!plots.empty())
    plots =
        "<h3>Remove and retrain</h3>\n<p>A network trained on images without the pixels that a model's maps name: the "
        "lower the curve, the more those pixels mattered.</p>\n" +
        plots;
  return tables + plots;
}

}  // namespace pare
