// Sections of a page: the models, and their accuracy against their size.
#include "pare/report/page_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "pare/report/html.h"
#include "pare/report/line_plot.h"
#include "pare/report/page_format.h"

namespace pare {

namespace {

// `named`: with the name of the data, where the models of a table were not all measured on the same.
std::string accuracy_cell(const ModelSummary& model, bool named) {
  std::string figure = fixed_figure(model.accuracy, 4);
  if (std::isnan(model.accuracy)) return figure;
  std::vector<std::string> what;
  if (named && !model.data.empty()) what.push_back(escape_html(model.data));
  if (model.split == "train") what.emplace_back("training images");
  if (std::isfinite(model.samples) && model.samples > 0)
    what.push_back(fmt::format("of {} images", grouped_figure(model.samples)));
  if (what.empty()) return figure;
  return fmt::format("{}<br><span class=\"soft\">{}</span>", figure, fmt::join(what, ", "));
}

bool several_data(const std::vector<ModelSummary>& models) {
  std::set<std::string> names;
  for (const auto& model : models)
    if (!std::isnan(model.accuracy) && !model.data.empty()) names.insert(model.data);
  return names.size() > 1;
}

}  // namespace

std::string summary_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models) {
  if (models.empty()) return "";
  HtmlTable table{.heading = {"model", "made by", "accuracy", "parameters", "MACs", "latency ms", "in ONNX Runtime",
                              "file kB", "similarity"},
                  .rows = {},
                  .words = {1}};
  bool sparse = false;
  bool timed = false;
  const bool named = several_data(models);
  for (const auto& model : models) {
    timed = timed || !std::isnan(model.latency);
    const ModelSummary& first = *origin_of(model, models);
    std::string parameters = with_share(grouped_figure(model.parameters), model.parameters, first.parameters);
    if (!std::isnan(model.nonzero)) {
      parameters += fmt::format("<br><span class=\"soft\">{} not zero</span>", grouped_figure(model.nonzero));
      sparse = true;
    }
    table.rows.push_back({fmt::format("<span title=\"{}\">{}</span>", escape_html(model.file), escape_html(model.name)),
                          escape_html(model.made_by), accuracy_cell(model, named), parameters,
                          with_share(grouped_figure(model.macs), model.macs, first.macs_beside(model)),
                          fixed_figure(1e3 * model.latency, 3), fixed_figure(1e3 * model.peer_latency, 3),
                          fixed_figure(model.bytes / 1e3, 0), fixed_figure(model.similarity, 3)});
  }
  std::set<std::string> machines;
  for (const auto& record : records) machines.insert(machine_text(record));
  std::string html = to_html(table);
  html +=
      "<p>In brackets: of the first model that it goes back to. Accuracy is top-1, or mean average precision where "
      "images have several labels. Similarity: cosine of the Grad-CAM maps with the original's.";
  if (sparse) html += " Zeros in a dense file make it neither smaller nor faster.";
  html += "</p>\n";
  if (timed)
    html += fmt::format("<p>Latency: of {}, the setting that was measured last; all are under Speed.</p>\n",
                        escape_html(latency_setting(records)));
  for (const auto& machine : machines) html += fmt::format("<p>{}</p>\n", escape_html(machine));
  return html;
}

namespace {

struct SizeAxis {
  const char* title;
  const char* name;
  double (*value)(const ModelSummary&, const ModelSummary& beside);  // as it compares with the other
};

// What an accuracy is: figures of other images, or of another kind, are not of one curve.
using Measure = std::pair<std::string, std::string>;  // data and metric
Measure measure_of(const ModelSummary& model) { return {model.data, model.metric}; }

LinePlot size_plot(const std::vector<ModelSummary>& models, const SizeAxis& axis, const Measure& measure) {
  // By the network that models go back to, and the method.
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<double, double>>> curves;
  std::set<std::string> origins;
  size_t points = 0;
  const auto shown = [&](const ModelSummary& model, const ModelSummary& beside) {
    return !std::isnan(model.accuracy) && !std::isnan(axis.value(model, beside)) && measure_of(model) == measure;
  };
  for (const auto& model : models) {
    if (model.method == kEnsemble || !shown(model, model)) continue;
    const ModelSummary* first = origin_of(model, models);
    const std::string method = model.method.empty() ? "original" : model.method;
    // The first ones are points of one kind.
    const std::string root = first == &model || method == "original" ? "" : first->name;
    if (!root.empty()) origins.insert(root);
    auto& curve = curves[{root, method}];
    curve.emplace_back(axis.value(model, model), model.accuracy);
    ++points;
    if (first == &model || method == "original" || !shown(*first, model)) continue;
    const std::pair<double, double> origin(axis.value(*first, model), first->accuracy);
    if (std::find(curve.begin(), curve.end(), origin) == curve.end()) curve.push_back(origin);
  }
  LinePlot plot{.title = axis.title, .x = axis.name, .y = "accuracy", .series = {}};
  if (measure.second == "map") plot.y = "mean average precision";
  if (points < 2) return plot;
  for (auto& [key, curve] : curves) {
    std::sort(curve.begin(), curve.end());
    const auto& [root, method] = key;
    const bool qualified = !root.empty() && (origins.size() > 1 || curves.contains({"", method}));
    LineSeries series{.name = qualified ? fmt::format("{}, {}", root, method) : method, .x = {}, .y = {}};
    series.line = !root.empty();
    for (const auto& [x, y] : curve) series.x.push_back(x), series.y.push_back(y);
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace

std::vector<LinePlot> size_plots(const std::vector<ModelSummary>& models) {
  const SizeAxis axes[] = {
      {"Accuracy against parameters that are not zero", "parameters",
       [](const auto& m, const auto&) { return m.size(); }},
      {"Accuracy against multiply-accumulates", "MACs",
       [](const auto& m, const auto& other) { return m.macs_beside(other); }},
      {"Accuracy against latency", "milliseconds", [](const auto& m, const auto&) { return 1e3 * m.latency; }}};
  std::set<Measure> measures;
  for (const auto& model : models)
    if (!std::isnan(model.accuracy)) measures.insert(measure_of(model));
  std::vector<LinePlot> plots;
  for (const auto& axis : axes)
    for (const auto& measure : measures) {
      LinePlot plot = size_plot(models, axis, measure);
      if (plot.series.empty()) continue;
      if (several_data(models) && !measure.first.empty()) plot.title += ", " + measure.first;
      plots.push_back(std::move(plot));
    }
  return plots;
}

std::string size_section(const std::vector<ModelSummary>& models) {
  std::string html;
  for (const auto& plot : size_plots(models))
    html += fmt::format("<div class=\"wide\">{}</div>\n", to_inline_svg(plot));
  return html;
}

}  // namespace pare
