#include "pare/workflow/explain.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "pare/data/data_options.h"
#include "pare/data/image.h"
#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/metrics/evaluate.h"
#include "pare/report/heatmap.h"

namespace pare {

namespace {

// Small enough to look at: a photograph in full would be most of the work.
at::Tensor shown_picture(const at::Tensor& picture) {
  constexpr int64_t kSide = 1024;
  const int64_t side = std::max(picture.size(1), picture.size(2));
  if (side <= kSide) return picture;
  const auto shrunk = [&](int64_t extent) { return std::max<int64_t>(1, extent * kSide / side); };
  return resize_bilinear(picture, shrunk(picture.size(1)), shrunk(picture.size(2)));
}

ExplainPiece read_pictures(const std::vector<std::string>& paths, const PictureInput& input) {
  ExplainPiece piece;
  std::vector<at::Tensor> seen;
  for (const auto& path : paths) {
    const at::Tensor picture = read_image(path);
    seen.push_back(input.bytes(picture));
    piece.pictures.push_back(shown_picture(seen_part(picture, input.size, input.fit)));
  }
  piece.images = input.normalized(at::stack(seen));
  return piece;
}

// The pairs of images [begin, end): rows counted from begin.
struct ExplainPairs {
  std::vector<int64_t> rows, classes;
};

class Explainer {
 public:
  Explainer(const Graph& model, const std::vector<std::pair<std::string, Graph>>& others, const ExplainInput& input,
            const AttributionOptions& options)
      : input_(input), own_(model, options) {
    for (const auto& [name, other] : others) {
      names_.push_back(name);
      others_.push_back(of_model(name, [&, &model = other] { return Attributor(model, options); }));
    }
  }

  void explain(int64_t begin, int64_t end, const std::function<void(const Explanation&)>& done) const {
    const ExplainPiece piece = input_.read(begin, end);
    ExplainPairs pairs;
    bool top = false;
    for (int64_t i = begin; i < end; ++i) {
      const auto& wanted = input_.classes.at(static_cast<size_t>(i));
      top = top || wanted.empty();
      for (const int64_t c : wanted) pairs.rows.push_back(i - begin), pairs.classes.push_back(c);
    }
    at::Tensor rows, classes;  // undefined: every image and its top class
    if (!top) rows = at::tensor(pairs.rows, at::kLong), classes = at::tensor(pairs.classes, at::kLong);
    const Attribution own = own_.explain(piece.images, rows, classes);
    std::vector<Compared> theirs;
    for (size_t i = 0; i < others_.size(); ++i) {
      Compared& other = theirs.emplace_back();
      other.found = of_model(names_[i], [&] { return others_[i].explain(piece.images, rows, own.classes); });
      other.similarity = map_similarity(own.maps, other.found.maps, input_.image[1], input_.image[2]);
    }
    for (int64_t p = 0; p < own.maps.size(0); ++p) {
      const int64_t row = top ? p : pairs.rows[static_cast<size_t>(p)];
      Explanation e = explanation(own, theirs, p, row, piece.pictures[static_cast<size_t>(row)]);
      e.image = static_cast<size_t>(begin + row);
      done(e);
    }
  }

  std::vector<std::string> layers() const {
    std::vector<std::string> layers = {own_.layer()};
    for (const auto& other : others_) layers.push_back(other.layer());
    return layers;
  }

 private:
  // What another model makes of a piece.
  struct Compared {
    Attribution found;
    std::vector<MapSimilarity> similarity;
  };

  static Explanation explanation(const Attribution& own, const std::vector<Compared>& theirs, int64_t p, int64_t row,
                                 const at::Tensor& picture) {
    const at::NoGradGuard no_grad;
    Explanation e{.class_index = own.classes[p].item<int64_t>()};
    e.score = own.scores[row][e.class_index].item<double>();
    MapCounts counts;
    counts.add(own.maps[p]);
    e.zero = counts.zero > 0;
    e.nan = counts.nan > 0;
    if (const at::Tensor errors = own.errors(); errors.defined()) e.conservation_error = errors[p].item<double>();
    std::vector<at::Tensor> row_of_pictures = {as_rgb(picture), overlay_map(picture, own.maps[p])};
    for (const auto& [found, similarity] : theirs) {
      MapCounts other;
      other.add(found.maps[p]);
      e.compared.push_back({.score = found.scores[row][e.class_index].item<double>(),
                            .zero = other.zero > 0,
                            .nan = other.nan > 0,
                            .similarity = similarity[static_cast<size_t>(p)]});
      row_of_pictures.push_back(overlay_map(picture, found.maps[p]));
    }
    e.picture = side_by_side(row_of_pictures);
    return e;
  }

  const ExplainInput& input_;
  Attributor own_;
  std::vector<std::string> names_;  // of the others
  std::vector<Attributor> others_;
};

}  // namespace

ExplainInput read_explain_input(const std::vector<std::string>& paths, const Graph& model, const DataChoice& choice) {
  if (paths.empty()) throw Error(ErrorKind::usage, "explain", "no images");
  check_image_input(model);
  ExplainInput input{.class_names = stored_classes(model)};
  ImageExtents first;
  for (const auto& path : paths) {
    const ImageExtents extents = image_extents(path);
    if (input.names.empty()) first = extents;
    input.names.push_back(std::filesystem::path(path).stem().string());
    input.classes.emplace_back();
  }
  const PictureInput pictures = choice.picture_input(model, model.inputs[0], first);
  input.image = {pictures.channels, pictures.size.height, pictures.size.width};
  input.mean = pictures.mean;
  input.std = pictures.std;
  input.read = [paths, pictures](int64_t begin, int64_t end) {
    return read_pictures({paths.begin() + begin, paths.begin() + end}, pictures);
  };
  return input;
}

ExplainInput make_explain_input(const Dataset& data, int64_t count) {
  if (count < 1) throw Error(ErrorKind::usage, "count", "{} is not positive", count);
  const int64_t size = std::min(count, data.size());
  ExplainInput input{.image = {data.channels(), data.height(), data.width()},
                     .class_names = data.unlabelled ? std::vector<std::string>{} : data.classes,
                     .mean = data.mean,
                     .std = data.std};
  input.read = [data](int64_t begin, int64_t end) {
    ExplainPiece piece{.images = make_batch(data, begin, end).images};
    for (int64_t i = begin; i < end; ++i) piece.pictures.push_back(shown_picture(data.images[i]));
    return piece;
  };
  for (int64_t i = 0; i < size; ++i) {
    input.names.push_back(fmt::format("{}-{:04}", data.name, i));
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

std::vector<std::string> explain(const Graph& model, const std::vector<std::pair<std::string, Graph>>& others,
                                 const ExplainInput& input, const AttributionOptions& options,
                                 const std::function<void(const Explanation&)>& done) {
  // As many as are 16 of the usual size; what a network holds of an image grows with it.
  constexpr int64_t kMost = 16, kPixels = kMost * 224 * 224;
  const int64_t at_once = std::clamp<int64_t>(kPixels / (input.image[1] * input.image[2]), 1, kMost);
  const auto count = static_cast<int64_t>(input.names.size());
  const Explainer explainer(model, others, input, options);
  // Images whose classes are known and those whose are not do not share a run.
  const auto known = [&](int64_t i) { return !input.classes.at(static_cast<size_t>(i)).empty(); };
  for (int64_t begin = 0; begin < count;) {
    int64_t end = begin + 1;
    while (end < count && end - begin < at_once && known(end) == known(begin)) ++end;
    explainer.explain(begin, end, done);
    begin = end;
  }
  return explainer.layers();
}

}  // namespace pare
