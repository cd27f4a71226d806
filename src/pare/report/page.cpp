#include "pare/report/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "pare/report/html.h"
#include "pare/report/line_plot.h"
#include "pare/report/page_parts.h"
#include "pare/report/page_script.h"

namespace pare {

namespace {

constexpr const char* kPageStyle = R"css(
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --soft: #666; --rule: #ddd; --head: #f4f4f2 }
@media (prefers-color-scheme: dark) {
  :root:not([data-theme=light]) { --ink: #e6e6e6; --paper: #16181c; --soft: #a0a4aa; --rule: #3a3d42; --head: #1f2227 }
}
:root[data-theme=light] { color-scheme: light }
:root[data-theme=dark] { color-scheme: dark; --ink: #e6e6e6; --paper: #16181c; --soft: #a0a4aa; --rule: #3a3d42; --head: #1f2227 }
@media print {
  :root, :root[data-theme], :root:not([data-theme=light]) { --ink: #000; --paper: #fff; --soft: #444; --rule: #ccc; --head: #f4f4f2 }
  svg, figure, tr { break-inside: avoid }
}
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 70rem;
       margin: 0 auto; padding: 1rem }
h1 { font-size: 1.6rem; margin: .5rem 0 }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem }
h3 { font-size: 1rem; margin: 1rem 0 .3rem }
p, figcaption, .soft { color: var(--soft) }
.headline { font-size: 1.15rem; color: var(--ink); border-left: .25rem solid #2563a8; padding-left: .8rem }
.wide { overflow-x: auto }
svg.plot { max-width: 100%; height: auto; min-width: 34rem }
table { border-collapse: collapse; font-size: .85rem; width: 100% }
th, td { padding: .3rem .5rem; text-align: left; border-bottom: 1px solid var(--rule); vertical-align: top }
thead th { background: var(--head); white-space: nowrap }
tbody th { font-weight: 500; overflow-wrap: anywhere; min-width: 8rem }
.w { min-width: 6rem }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem }
figure { margin: 0 }
figure img { width: 100%; image-rendering: pixelated; border: 1px solid var(--rule) }
.map { width: min(100%, 19rem) }
.plan { width: 10rem }
figcaption { font-size: .8rem; line-height: 1.3 }
pre { overflow-x: auto; font-size: .8rem; background: var(--head); padding: .6rem }
summary { cursor: pointer }
/* Paper does not scroll: tables and plots take the width that there is. */
@media print {
  body { max-width: none; padding: 0 }
  .wide { overflow: visible }
  table { font-size: .65rem }
  th, td { padding: .2rem .3rem }
  tbody th, .w, svg.plot { min-width: 0 }
  thead th, .n { white-space: normal }
  .n span { white-space: nowrap }
  pre { white-space: pre-wrap; overflow-wrap: anywhere }
}
)css";

std::string section(const char* title, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", title, content);
}

}  // namespace

std::string html_document(const std::string& title, const std::string& style, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{6}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>{1}{2}{7}{3}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{4}"
      "<script>{5}</script>\n</body>\n</html>\n",
      escape_html(title), kPageStyle, plot_css(), style, body, page_script(), page_policy(), script_css());
}

std::string html_page(const std::vector<Record>& records, const PageOptions& options) {
  constexpr size_t kPageBytes = 1'900'000;
  constexpr size_t kLayerBytes = 600'000;
  const auto models = summarize(records);
  const std::string found = headline(models);
  std::string body = found.empty() ? "" : fmt::format("<p class=\"headline\">{}</p>\n", escape_html(found));
  body += section("Models", summary_section(records, models));
  body += section("Accuracy against size", size_section(models));
  body += section("Speed", speed_section(records, models));
  body += section("What is left of each layer", layers_section(records, models, kLayerBytes));
  body += section("Tables", tables_section(records));
  body += section("Training", training_section(records, models));
  body += section("What the models look at", attribution_section(records, models));
  const std::string recipes =
      section("How to repeat it", recipes_section(records, body.size() < kPageBytes ? kPageBytes - body.size() : 0));
  // Pictures last: they take what the others leave.
  const size_t others = body.size() + recipes.size();
  size_t budget = std::min(options.image_bytes, others < kPageBytes ? kPageBytes - others : 0);
  body += section("Pictures", pictures_section(records, models, budget)) + recipes;
  return html_document(options.title, "", body);
}

}  // namespace pare
