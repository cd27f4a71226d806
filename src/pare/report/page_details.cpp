// Sections of a page: layers, training, tables and recipes.
#include "pare/report/page_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pare/core/options.h"
#include "pare/metrics/seed_mean.h"
#include "pare/report/bars.h"
#include "pare/report/html.h"
#include "pare/report/line_plot.h"
#include "pare/report/page_format.h"

namespace pare {

using nlohmann::json;

std::string layers_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models, size_t bytes) {
  constexpr size_t most = 200;
  std::vector<BarChart> charts;
  for (const auto& record : records) {
    BarChart chart;
    for (const auto& entry : list_at(record.result, "groups")) {
      const PrunedGroup group = pruned_group_from(entry);
      if (group.total > 0 && group.kept >= 0)
        chart.bars.push_back({group.name, static_cast<double>(group.kept), static_cast<double>(group.total)});
    }
    if (chart.bars.empty()) continue;
    chart.title = shown_name(models, record, text_at(record.options, "output"));
    // Models that were cut alike share a chart.
    const auto same =
        std::find_if(charts.begin(), charts.end(), [&](const BarChart& other) { return other.bars == chart.bars; });
    if (same == charts.end())
      charts.push_back(std::move(chart));
    else
      same->title += ", " + chart.title;
  }
  std::vector<std::string> parts;
  for (auto& chart : charts) {
    const size_t all = chart.bars.size();
    chart.bars.resize(std::min(all, most));
    parts.push_back(fmt::format("<h3>{}</h3>\n<div class=\"wide\">{}</div>\n{}", escape_html(chart.title),
                                to_inline_svg(chart), left_out_text(all - chart.bars.size(), "bar")));
  }
  return latest_within(parts, bytes, "earlier chart");
}

std::string training_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models) {
  struct Curve {
    const char* name;
    double EpochReport::*figure;
    const char* title;
  };
  std::string html;
  for (const Curve wanted : {Curve{"loss", &EpochReport::loss, "Loss of the training images"},
                             Curve{"accuracy", &EpochReport::accuracy, "Accuracy of the training images"},
                             Curve{"validation", &EpochReport::validation, "Validation"}}) {
    LinePlot plot{.title = wanted.title, .x = "epoch", .y = wanted.name, .series = {}};
    size_t left_out = 0;
    for (const auto& record : records)
      for (const auto& training : record.training) {
        const std::string output = text_at(record.options, "output");
        std::string name = output.empty() ? record.command : shown_name(models, record, output);
        if (!training.what.empty()) name += ": " + training.what;
        LineSeries series{.name = name, .x = {}, .y = {}};
        for (const EpochReport& epoch : training.history) {
          if (std::isnan(epoch.*wanted.figure)) continue;
          series.x.push_back(static_cast<double>(epoch.epoch));
          series.y.push_back(epoch.*wanted.figure);
        }
        if (series.x.empty()) continue;
        if (plot.series.size() < kMostCurves)
          plot.series.push_back(std::move(series));
        else
          ++left_out;
      }
    if (plot.series.empty()) continue;
    html += fmt::format("<div class=\"wide\">{}</div>\n{}", to_inline_svg(plot), left_out_text(left_out, "curve"));
  }
  return html;
}

namespace {

std::string paper_tables(const json& paper) {
  std::string html = fmt::format("<p>{}</p>\n", escape_html(text_at(paper, "citation")));
  std::string current;
  HtmlTable table;
  const auto flush = [&] {
    if (!table.rows.empty()) html += fmt::format("<h3>{}</h3>\n", escape_html(current)) + to_html(table);
    table = {.heading = {"what ran", "metric", "published", "ours", "difference", "note"}, .rows = {}, .words = {1, 5}};
  };
  for (const auto& row : list_at(paper, "rows")) {
    if (text_at(row, "table") != current) flush();
    current = text_at(row, "table");
    const double difference = number_at(row, "difference"), ours = number_at(row, "ours");
    table.rows.push_back({escape_html(text_at(row, "what")), escape_html(text_at(row, "metric")),
                          fixed_figure(number_at(row, "published"), 4),
                          std::isnan(ours) ? kAbsent : text_of({ours, number_at(row, "error")}),
                          std::isnan(difference) ? kAbsent : fmt::format("{:+.4f}", difference),
                          escape_html(text_at(row, "note"))});
  }
  flush();
  return html;
}

std::string ticket_table(const json& options, const json& result) {
  std::vector<std::string> what;
  for (const char* name : {"arch", "model", "data", "method"})
    if (const std::string text = text_at(options, name); !text.empty()) what.push_back(escape_html(text));
  HtmlTable table{
      .heading = {"ticket", "sparsity", "validation", "test", "search epochs", ""}, .rows = {}, .words = {5}};
  table.rows.push_back({"dense", "0", fixed_figure(number_at(result, "dense_validation"), 4),
                        fixed_figure(number_at(result, "dense"), 4), "0", ""});
  double index = 0;
  for (const auto& ticket : list_at(result, "tickets")) {
    std::vector<std::string> picks;
    if (index == number_at(result, "sparsest_matching")) picks.emplace_back("sparsest matching");
    if (index == number_at(result, "best_performing")) picks.emplace_back("best performing");
    table.rows.push_back(
        {escape_html(text_at(ticket, "name")), fixed_figure(number_at(ticket, "sparsity"), 4),
         fixed_figure(number_at(ticket, "validation"), 4), fixed_figure(number_at(ticket, "metric"), 4),
         grouped_figure(number_at(ticket, "search_epochs")), fmt::format("{}", fmt::join(picks, ", "))});
    ++index;
  }
  return fmt::format("<h3>Tickets: {}</h3>\n{}", fmt::join(what, ", "), to_html(table));
}

}  // namespace

std::string tables_section(const std::vector<Record>& records) {
  std::string html;
  for (const auto& record : records) {
    const json& result = record.result;
    for (const auto& paper : list_at(result, "papers")) html += paper_tables(paper);
    if (member_at(result, "tickets").is_array()) html += ticket_table(record.options, result);
  }
  return html;
}

std::string recipes_section(const std::vector<Record>& records, size_t bytes) {
  std::vector<std::string> parts;
  for (const auto& record : records) {
    const std::string command = record.command;
    const json& options = record.options;
    // Relative paths begin there.
    const std::string directory = record.directory;
    const std::string error = record.error;
    parts.push_back(
        fmt::format("<details><summary>{}: {}{}</summary>\n<p>{}, {:.1f} s, {}</p>\n{}{}<pre>{}</pre>\n"
                    "<pre>{}</pre></details>\n",
                    escape_html(command), escape_html(method_of(record)), error.empty() ? "" : ", failed",
                    escape_html(record.started), std::max(0.0, record.seconds), escape_html(machine_text(record)),
                    error.empty() ? "" : fmt::format("<p>{}</p>\n", escape_html(error)),
                    directory.empty() ? "" : fmt::format("<p>In {}:</p>\n", escape_html(directory)),
                    escape_html(record.command_line), escape_html(options.is_object() ? to_toml(options) : "")));
  }
  return latest_within(parts, bytes, "earlier run");
}

}  // namespace pare
