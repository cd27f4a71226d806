#include "pare/report/diff_page.h"

#include <fmt/format.h>

#include <cmath>

#include "pare/report/line_plot.h"
#include "pare/report/page.h"

namespace pare {

namespace {

constexpr double kRowHeight = 44;
constexpr double kBoxHeight = 34;
constexpr double kBoxWidth = 250;
constexpr double kColumns[] = {60, 410};
constexpr double kDrawingWidth = 720;

std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

// The row of every node of one graph.
std::vector<size_t> rows_of(const GraphDiff& diff, std::optional<NodeSide> NodeDiff::*side) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < diff.nodes.size(); ++i)
    if (diff.nodes[i].*side) rows.push_back(i);
  return rows;
}

// A line to the next row, or an arc along the outer side to one further down.
std::string edges(const Graph& graph, const std::vector<size_t>& rows, bool left) {
  const double x = kColumns[left ? 0 : 1];
  const Usage usage = usage_of(graph);
  std::string svg;
  for (size_t to = 0; to < graph.nodes.size(); ++to)
    for (const auto& input : graph.nodes[to].inputs) {
      const auto found = usage.producer.find(input);
      if (found == usage.producer.end()) continue;
      const auto from = static_cast<double>(rows[found->second]);
      const double begin = 10 + from * kRowHeight + kBoxHeight;
      const double end = 10 + static_cast<double>(rows[to]) * kRowHeight;
      if (found->second + 1 == to) {
        svg += fmt::format("<path class=\"edge\" d=\"M{0} {1}V{2}\"/>", x + kBoxWidth / 2, begin, end);
        continue;
      }
      const double side = left ? x : x + kBoxWidth;
      const double out = side + (left ? -1 : 1) * std::min(50.0, 12 + 4 * (static_cast<double>(rows[to]) - from));
      svg += fmt::format("<path class=\"edge\" d=\"M{0} {1}C{2} {1} {2} {3} {0} {3}\"/>", side, begin - kBoxHeight / 2,
                         out, end + kBoxHeight / 2);
    }
  return svg;
}

std::string box(const NodeDiff& diff, const NodeSide& node, bool left, size_t row) {
  const double x = kColumns[left ? 0 : 1];
  const double y = 10 + static_cast<double>(row) * kRowHeight;
  const std::string size =
      node.parameters > 0 ? fmt::format(", {} parameters", short_number(static_cast<double>(node.parameters))) : "";
  return fmt::format(
      "<g class=\"{0}\"><title>{1} {2}: {3}</title><rect class=\"box\" x=\"{4}\" y=\"{5}\" width=\"{6}\" "
      "height=\"{7}\" rx=\"4\"/><text x=\"{8}\" y=\"{9}\">{10}</text><text x=\"{8}\" y=\"{11}\" "
      "class=\"small\">{12}{13}"
      "</text></g>\n",
      to_string(diff.change), escape_html(diff.op), escape_html(node.name),
      escape_html(diff.what.empty() ? std::string(to_string(diff.change)) : diff.what), x, y, kBoxWidth, kBoxHeight,
      x + 8, y + 14, escape_html(shortened(diff.op + " " + node.name, 34)), y + 28,
      escape_html(shortened(node.output, 30)), size);
}

std::string drawing(const Graph& a, const Graph& b, const GraphDiff& diff) {
  const double height = 20 + kRowHeight * static_cast<double>(diff.nodes.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" aria-label=\"both graphs\">\n",
      kDrawingWidth, height);
  svg += edges(a, rows_of(diff, &NodeDiff::a), true) + edges(b, rows_of(diff, &NodeDiff::b), false) + "\n";
  for (size_t i = 0; i < diff.nodes.size(); ++i) {
    const NodeDiff& node = diff.nodes[i];
    if (node.a) svg += box(node, *node.a, true, i);
    if (node.b) svg += box(node, *node.b, false, i);
  }
  return svg + "</svg>\n";
}

HtmlTable node_table(const GraphDiff& diff) {
  HtmlTable table{.heading = {"node", "operator", "change", "output", "parameters", "MACs", "weight distance"},
                  .rows = {},
                  .words = {1, 2, 3}};
  const auto both = [](const std::string& a, const std::string& b) { return a == b ? a : a + " → " + b; };
  for (const auto& node : diff.nodes) {
    if (node.change == NodeChange::same) continue;
    const NodeSide a = node.a.value_or(NodeSide{});
    const NodeSide b = node.b.value_or(NodeSide{});
    const auto figure = [](const std::optional<NodeSide>& side, int64_t value) {
      return side ? short_number(static_cast<double>(value)) : "–";
    };
    table.rows.push_back({escape_html(node.a ? a.name : b.name), escape_html(node.op),
                          escape_html(node.what.empty() ? std::string(to_string(node.change)) : node.what),
                          escape_html(both(node.a ? a.output : "–", node.b ? b.output : "–")),
                          both(figure(node.a, a.parameters), figure(node.b, b.parameters)),
                          both(figure(node.a, a.macs), figure(node.b, b.macs)),
                          std::isnan(node.weight_distance) ? "–" : fmt::format("{:.4g}", node.weight_distance)});
  }
  return table;
}

std::string outputs_section(const DiffPage& page) {
  std::string html;
  if (!page.problem.empty())
    html += fmt::format("<p>The outputs were not compared: {}</p>\n", escape_html(page.problem));
  HtmlTable table{.heading = {"output", "largest difference", "relative to the largest value", "problem"},
                  .rows = {},
                  .words = {3}};
  for (const auto& output : page.outputs) {
    const auto figure = [&](double value) { return output.problem.empty() ? fmt::format("{:.4g}", value) : "–"; };
    table.rows.push_back(
        {escape_html(output.name), figure(output.largest), figure(output.relative), escape_html(output.problem)});
  }
  if (!table.rows.empty()) html += to_html(table);
  return html.empty() ? "" : "<h2>Outputs</h2>\n" + html;
}

constexpr const char* kDiffStyle =
    ".plot .box{fill:var(--head);stroke:var(--rule)}.plot .small{fill:var(--soft);font-size:10px}"
    ".plot .edge{stroke:var(--soft);fill:none;opacity:.6}.changed .box{stroke:#a16207;stroke-width:2}"
    ".added .box{stroke:#15803d;stroke-width:2;stroke-dasharray:6 3}"
    ".removed .box{stroke:#b91c1c;stroke-width:2;stroke-dasharray:2 3}"
    "@media (prefers-color-scheme:dark){.changed .box{stroke:#e0b94f}.added .box{stroke:#6fcf8e}"
    ".removed .box{stroke:#f58585}}";

}  // namespace

std::string html_page(const DiffPage& page, const Graph& a, const Graph& b, const GraphDiff& diff) {
  std::string body = to_html(page.totals) + outputs_section(page);
  const HtmlTable nodes = node_table(diff);
  if (!diff.inputs.empty()) {
    HtmlTable inputs{.heading = {"input", escape_html(page.a), escape_html(page.b)}, .rows = {}, .words = {1, 2}};
    for (const auto& input : diff.inputs)
      inputs.rows.push_back({escape_html(input.name), escape_html(input.a), escape_html(input.b)});
    body += "<h2>Inputs that changed</h2>\n" + to_html(inputs);
  }
  body += "<h2>Nodes that changed</h2>\n";
  body += nodes.rows.empty() ? "<p>None.</p>\n" : to_html(nodes);
  body += fmt::format(
      "<h2>Side by side</h2>\n<p>Left {}, right {}. A heavy outline has changed, a dashed one is only on its "
      "side.</p>\n"
      "<div class=\"wide\">{}</div>\n",
      escape_html(page.a), escape_html(page.b), drawing(a, b, diff));
  return html_document(page.title, kDiffStyle, body);
}

}  // namespace pare
