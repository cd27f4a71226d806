// Section of a page: transport plans and heat maps.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "pare/data/image.h"
#include "pare/error.h"
#include "pare/report/html.h"
#include "pare/report/page_format.h"
#include "pare/report/page_parts.h"

namespace pare {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Does the path, with all its links followed, lie in the directory?
bool lies_in(const fs::path& path, const fs::path& directory) {
  std::error_code failed;
  const fs::path inside = fs::canonical(path, failed).lexically_relative(fs::canonical(directory, failed));
  return !failed && !inside.empty() && *inside.begin() != "..";
}

// A picture small enough to be embedded; none where `png` is empty.
struct Picture {
  std::string png;
  double width = 1;  // of the file, in pixels
};

// A picture that a record names; none where it is not there or is no picture. Records may come
// from anywhere, and a page is passed on: what lies neither beside the record nor in the current directory stays out.
Picture embedded_picture(const Record& record, const std::string& path, int64_t largest) {
  // Beside its record, or where the command ran: another project's picture may have the same name here.
  std::vector<fs::path> places = {record.path.parent_path()};
  if (const std::string ran = record.directory; !ran.empty()) places.emplace_back(ran);
  for (const fs::path& base : places) {
    std::error_code ignored;
    if (path.empty() || !fs::is_regular_file(base / path, ignored)) continue;
    if (!lies_in(base / path, record.path.parent_path()) && !lies_in(base / path, fs::current_path())) continue;
    try {
      at::Tensor image = read_image(base / path);
      const auto width = static_cast<double>(image.size(2));
      const int64_t side = std::max(image.size(1), image.size(2));
      // The largest of each patch: what is thin stays visible.
      if (const int64_t factor = (side + largest - 1) / largest; factor > 1)
        image = at::max_pool2d(image.to(at::kFloat), {factor, factor}, {factor, factor}, {0, 0}, {1, 1}, true)
                    .to(at::kByte);
      return {encode_png(image), width};
    } catch (const Error&) {
      return {};
    }
  }
  return {};
}

std::string figure_html(const Picture& picture, const std::string& caption, const std::string& kind) {
  return fmt::format("<figure class=\"{}>{}<figcaption>{}</figcaption></figure>\n", kind,
                     inline_png(picture.png, caption), escape_html(caption));
}

// The picture of an explanation is the image, its map, and the maps of `compared` models, side by side with eight white
// pixels between them (report/heatmap.h): what a script needs to tell them apart.
std::string map_kind(const Picture& picture, size_t compared) {
  if (compared == 0) return "map\"";
  return fmt::format("map\" data-panels=\"{}\" data-gap=\"{:.5f}\"", 2 + compared, 8 / picture.width);
}

}  // namespace

// Some of a run's heat maps stand for all of them.
constexpr size_t kMapsOfARun = 4;

std::string pictures_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models,
                             size_t& budget) {
  std::string plans;
  std::string maps;
  size_t left_out = 0;
  size_t missing = 0;
  const auto add = [&](std::string& to, const Picture& picture, const std::string& caption, const std::string& kind) {
    if (picture.png.empty()) {
      ++missing;
      return;
    }
    const std::string html = figure_html(picture, caption, kind);
    if (html.size() > budget) {
      ++left_out;
      return;
    }
    budget -= html.size();
    to += html;
  };
  for (const auto& record : records) {
    const json& result = record.result;
    const auto name_at = [&](const json& object) { return shown_name(models, record, text_at(object, "model")); };
    size_t shown = 0;
    for (const auto& entry : list_at(result, "explanations")) {
      if (text_at(entry, "file").empty()) continue;
      if (++shown > kMapsOfARun) break;
      std::string caption = fmt::format("{}, {}", text_at(entry, "image"), text_at(entry, "class_name"));
      std::string whose = "; " + name_at(result);
      for (const auto& compared : list_at(entry, "compared")) {
        caption += fmt::format("{} beside {}", std::exchange(whose, ","), name_at(compared));
        if (const double cosine = number_at(compared, "cosine"); !std::isnan(cosine))
          caption += fmt::format(": cosine {:.3f}", cosine);
      }
      const Picture picture = embedded_picture(record, text_at(entry, "file"), 1024);
      add(maps, picture, caption, map_kind(picture, list_at(entry, "compared").size()));
    }
    for (const auto& entry : list_at(result, "plans")) {
      if (text_at(entry, "file").empty()) continue;
      const std::string caption = fmt::format("{}: {}", name_at(entry), text_at(entry, "name"));
      add(plans, embedded_picture(record, text_at(entry, "file"), 200), caption, "plan\"");
    }
  }
  std::string html;
  if (!maps.empty())
    html += fmt::format(
        "<h3>Heat maps</h3>\n<p>The image, what the model looks at, and what the others look at.</p>\n"
        "<div class=\"pictures\">\n{}</div>\n",
        maps);
  if (!plans.empty())
    html += fmt::format(
        "<h3>Transport plans</h3>\n<p>Rows are channels of the model, columns those of the fused one; the lighter, the "
        "more of it goes there.</p>\n<div class=\"pictures\">\n{}</div>\n",
        plans);
  if (left_out > 0) html += fmt::format("<p>{} more pictures would make the page too large.</p>\n", left_out);
  if (missing > 0)
    html += fmt::format(
        "<p>{} {} not found, neither beside the record nor in the directory that the page was made in.</p>\n", missing,
        missing == 1 ? "picture was" : "pictures were");
  return html;
}

}  // namespace pare
