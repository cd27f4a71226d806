#include "pare/workflow/explain.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "pare/core/error.h"
#include "pare/data/folder.h"
#include "pare/data/image.h"
#include "pare/data/loader.h"
#include "pare/metrics/localization.h"
#include "pare/report/heatmap.h"
#include "pare/workflow/data_options.h"

namespace pare {

namespace {

// Channels, height and width that a model takes of pictures of [_, height, width].
std::vector<int64_t> picture_extents(const Graph& model, const at::Tensor& picture) {
  if (model.inputs.size() != 1)
    throw Error(ErrorKind::shape, model.name, "has {} inputs, expected one that takes images", model.inputs.size());
  const auto& dims = model.inputs[0].dims;
  if (!dims || dims->size() != 4)
    throw Error(ErrorKind::shape, model.inputs[0].name, "the model's input is not an image [N, C, H, W]");
  const auto extent = [&](size_t i, int64_t otherwise) { return (*dims)[i].fixed() ? (*dims)[i].size : otherwise; };
  const int64_t channels = extent(1, 3);
  if (channels != 1 && channels != 3)
    throw Error(ErrorKind::shape, model.inputs[0].name, "the model takes {} channels, an image has 1 or 3", channels);
  return {channels, extent(2, picture.size(1)), extent(3, picture.size(2))};
}

at::Tensor resized_picture(const at::Tensor& picture, int64_t height, int64_t width) {
  if (picture.size(1) == height && picture.size(2) == width) return picture;
  return resize_bilinear(picture, height, width);
}

// The names that a training left in the model; none unless all of them are names.
std::vector<std::string> stored_classes(const Graph& model) {
  const auto found = model.metadata.find("pare.classes");
  if (found == model.metadata.end()) return {};
  const auto json = nlohmann::json::parse(found->second, nullptr, false);
  std::vector<std::string> names;
  for (const auto& name : json.is_array() ? json : nlohmann::json::array()) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

// The pairs of images [begin, end): rows counted from begin.
struct ExplainPairs {
  std::vector<int64_t> rows, classes;
};

class Explainer {
 public:
  Explainer(const Graph& model, const std::vector<Graph>& others, const ExplainInput& input,
            const AttributionOptions& options)
      : input_(input), own_(model, options) {
    for (const auto& other : others) others_.emplace_back(other, options);
  }

  void explain(int64_t begin, int64_t end, const std::function<void(const Explanation&)>& done) const {
    const at::Tensor images = input_.images.slice(0, begin, end);
    ExplainPairs pairs;
    bool top = false;
    for (int64_t i = begin; i < end; ++i) {
      const auto& wanted = input_.classes.at(static_cast<size_t>(i));
      top = top || wanted.empty();
      for (const int64_t c : wanted) pairs.rows.push_back(i - begin), pairs.classes.push_back(c);
    }
    at::Tensor rows, classes;  // undefined: every image and its top class
    if (!top) rows = at::tensor(pairs.rows, at::kLong), classes = at::tensor(pairs.classes, at::kLong);
    const Attribution own = own_.explain(images, rows, classes);
    std::vector<Attribution> theirs;
    for (const auto& other : others_) theirs.push_back(other.explain(images, rows, own.classes));
    for (int64_t p = 0; p < own.maps.size(0); ++p)
      done(explanation(own, theirs, p, begin, top ? p : pairs.rows[static_cast<size_t>(p)]));
  }

  const std::string& layer() const { return own_.layer(); }

 private:
  Explanation explanation(const Attribution& own, const std::vector<Attribution>& theirs, int64_t p, int64_t begin,
                          int64_t row) const {
    const at::NoGradGuard no_grad;
    Explanation e{.image = static_cast<size_t>(begin + row),
                  .class_index = own.classes[p].item<int64_t>(),
                  .conservation_error = std::nan("")};
    e.score = own.scores[row][e.class_index].item<double>();
    e.zero = !own.maps[p].ne(0).any().item<bool>();
    if (const at::Tensor errors = own.errors(); errors.defined()) e.conservation_error = errors[p].item<double>();
    const at::Tensor& picture = input_.pictures[e.image];
    std::vector<at::Tensor> row_of_pictures = {as_rgb(picture), overlay_map(picture, own.maps[p])};
    for (const auto& other : theirs) {
      at::Tensor a = own.maps.slice(0, p, p + 1), b = other.maps.slice(0, p, p + 1);
      if (a.sizes() != b.sizes()) {  // at the larger resolution
        const int64_t height = std::max(a.size(1), b.size(1)), width = std::max(a.size(2), b.size(2));
        a = resize_maps(a, height, width);
        b = resize_maps(b, height, width);
      }
      e.compared.push_back({.score = other.scores[row][e.class_index].item<double>(),
                            .cosine = map_cosine(a[0], b[0]),
                            .rank_correlation = map_rank_correlation(a[0], b[0])});
      row_of_pictures.push_back(overlay_map(picture, other.maps[p]));
    }
    e.picture = side_by_side(row_of_pictures);
    return e;
  }

  const ExplainInput& input_;
  Attributor own_;
  std::vector<Attributor> others_;
};

}  // namespace

ExplainInput read_explain_input(const std::vector<std::string>& paths, const Graph& model,
                                const std::vector<double>& mean, const std::vector<double>& std) {
  Dataset data{.name = "images", .mean = mean, .std = std, .split = "all"};
  ExplainInput input;
  input.class_names = stored_classes(model);
  std::vector<at::Tensor> seen;
  for (const auto& path : paths) {
    input.names.push_back(std::filesystem::path(path).stem().string());
    at::Tensor picture = read_image(path);
    const auto extents = picture_extents(model, seen.empty() ? picture : seen[0]);
    at::Tensor converted = read_image(path, {.color = extents[0] == 1 ? ImageColor::gray : ImageColor::rgb});
    seen.push_back(resized_picture(converted, extents[1], extents[2]));
    input.pictures.push_back(std::move(picture));
    input.classes.emplace_back();
  }
  data.images = at::stack(seen);
  data.labels = at::zeros({data.size()}, at::kLong);
  data.classes = {"unknown"};
  const auto chosen = [&](std::vector<double>& values, const std::string& key, const std::vector<double>& rgb) {
    if (values.empty()) values = stored_values(model, key);
    if (values.empty()) values = data.channels() == 3 ? rgb : std::vector<double>{0.5};
  };
  chosen(data.mean, "pare.mean", folder_mean);
  chosen(data.std, "pare.std", folder_std);
  check_dataset(data);
  input.images = make_batch(data, 0, data.size()).images;
  input.mean = data.mean;
  input.std = data.std;
  return input;
}

ExplainInput make_explain_input(const Dataset& data, int64_t count) {
  if (count < 1) throw Error(ErrorKind::usage, "count", "{} is not positive", count);
  const int64_t size = std::min(count, data.size());
  ExplainInput input{
      .images = make_batch(data, 0, size).images, .class_names = data.classes, .mean = data.mean, .std = data.std};
  for (int64_t i = 0; i < size; ++i) {
    input.names.push_back(fmt::format("{}-{:04}", data.name, i));
    input.pictures.push_back(data.images[i]);
    auto& classes = input.classes.emplace_back();
    for (int64_t c = 0; data.multi_label() && c < data.labels.size(1); ++c)
      if (data.labels[i][c].item<int>() != 0) classes.push_back(c);
  }
  return input;
}

int64_t find_class(const std::string& text, const std::vector<std::string>& names) {
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc() && end == text.data() + text.size()) return number;
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw Error(ErrorKind::usage, "class", "'{}' is neither a number nor one of {}", text,
                names.empty() ? "the known classes (there are none)" : fmt::format("{}", fmt::join(names, ", ")));
  return found - names.begin();
}

std::string explain(const Graph& model, const std::vector<Graph>& others, const ExplainInput& input,
                    const AttributionOptions& options, const std::function<void(const Explanation&)>& done) {
  constexpr int64_t kAtOnce = 16;
  const Explainer explainer(model, others, input, options);
  // Images whose classes are known and those whose are not do not share a run.
  const auto known = [&](int64_t i) { return !input.classes.at(static_cast<size_t>(i)).empty(); };
  for (int64_t begin = 0; begin < input.images.size(0);) {
    int64_t end = begin + 1;
    while (end < input.images.size(0) && end - begin < kAtOnce && known(end) == known(begin)) ++end;
    explainer.explain(begin, end, done);
    begin = end;
  }
  return explainer.layer();
}

}  // namespace pare
