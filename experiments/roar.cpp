#include "experiments/roar.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/pixel_removal.h"
#include "pare/data/loader.h"
#include "pare/error.h"

namespace pare {

void RoarOptions::describe(OptionVisitor& options) {
  attribution.describe(options);
  options.heading("remove and retrain");
  options.field("random", random, "what maps are measured against: random maps as coarse as theirs, or random pixels",
                {"maps", "pixels"});
  options.field("fill", fill, "what removed pixels become: the mean colour, or like their neighbours, with noise",
                {"mean", "neighbours"});
  options.essential().field("levels", levels, "parts of the pixels that are removed");
  options.essential().field("seeds", seeds, "classifiers trained for each point");
  const OptionGroup group(options, "training");
  training.describe(options);
}

void RoarOptions::check() const {
  if (levels.empty()) throw Error(ErrorKind::usage, OptionName{"levels"}, "name at least one part of the pixels");
  for (const double level : levels)
    if (!(level > 0 && level < 1))
      throw Error(ErrorKind::usage, OptionName{"levels"}, "expected parts in (0, 1), found {}", level);
  if (seeds < 1) throw Error(ErrorKind::usage, OptionName{"seeds"}, "expected at least 1, found {}", seeds);
  attribution.check();
}

namespace {

constexpr int64_t kRankedAtOnce = 32;

struct LabelPairs {
  at::Tensor rows, classes;  // int64 [P]
};

// (image, class) for every label; of an image without any, class 0.
LabelPairs label_pairs(const at::Tensor& labels) {
  if (labels.dim() == 1) return {at::arange(labels.size(0), at::kLong), labels.to(at::kLong)};
  at::Tensor present = labels.ne(0);
  present.select(1, 0).logical_or_(present.any(1).logical_not());
  const at::Tensor where = present.nonzero();
  return {where.select(1, 0).contiguous(), where.select(1, 1).contiguous()};
}

// [N, H, W]: the largest of each image's maps, each scaled to a maximum of one.
at::Tensor joined_maps(const Attribution& found, const at::Tensor& rows, const Dataset& data, int64_t count) {
  const at::Tensor maps = resize_maps(found.maps, data.height(), data.width());
  const at::Tensor scaled = maps / maps.amax({1, 2}, /*keepdim=*/true).clamp_min(1e-12);
  at::Tensor joined = at::full({count, data.height(), data.width()}, -INFINITY, maps.options());
  for (int64_t p = 0; p < rows.size(0); ++p) {
    const auto row = rows[p].item<int64_t>();
    joined.select(0, row).copy_(at::maximum(joined[row], scaled[p]));
  }
  return joined;
}

// int32 [N, P]: the places of each row's values, the largest first.
at::Tensor descending(const at::Tensor& rows) {
  return std::get<1>(at::sort(rows, /*stable=*/true, 1, /*descending=*/true)).to(at::kInt);
}

}  // namespace

PixelOrder pixel_order(const Graph& model, const Dataset& data, const AttributionOptions& options) {
  check_images(model, data);
  const Attributor attributor(model, options);
  PixelOrder order{.places = at::empty({data.size(), data.height() * data.width()}, at::kInt)};
  for (int64_t begin = 0; begin < data.size(); begin += kRankedAtOnce) {
    const Batch batch = make_batch(data, begin, std::min(begin + kRankedAtOnce, data.size()));
    const LabelPairs pairs = label_pairs(batch.labels);
    const Attribution found = attributor.explain(batch.images, pairs.rows, pairs.classes);
    const at::NoGradGuard no_grad;
    const at::Tensor maps = joined_maps(found, pairs.rows, data, batch.images.size(0)).flatten(1);
    order.places.narrow(0, begin, maps.size(0)).copy_(descending(maps));
    for (int64_t p = 0; p < found.maps.size(0); ++p) order.counts.add(found.maps[p]);
  }
  return order;
}

at::Tensor random_pixel_order(const Dataset& data, int64_t height, int64_t width, uint64_t seed) {
  at::Tensor order = at::empty({data.size(), data.height() * data.width()}, at::kInt);
  at::Tensor map = at::empty({1, height, width}, at::kFloat);
  for (int64_t n = 0; n < data.size(); ++n) {
    Random random(mix_seed({seed, static_cast<uint64_t>(n)}));
    float* values = map.data_ptr<float>();
    for (int64_t i = 0; i < map.numel(); ++i) values[i] = static_cast<float>(random.uniform());
    order.select(0, n).copy_(descending(resize_maps(map, data.height(), data.width()).flatten(1))[0]);
  }
  return order;
}

SeedMean mean_of(const RoarPoint& point, const std::string& metric) {
  std::vector<double> values;
  for (const auto& metrics : point) values.push_back(metric_of(metrics, metric));
  return seed_mean(values);
}

MetricList means_of(const RoarPoint& point) {
  MetricList means;
  for (const auto& [name, value] : point.at(0)) means.emplace_back(name, mean_of(point, name).mean);
  return means;
}

std::vector<SeedMean> RoarCurve::figures(const std::string& metric) const {
  std::vector<SeedMean> figures;
  for (const auto& point : points) figures.push_back(mean_of(point, metric));
  return figures;
}

std::vector<double> RoarCurve::means(const std::string& metric) const {
  std::vector<double> means;
  for (const auto& figure : figures(metric)) means.push_back(figure.mean);
  return means;
}

std::string roar_metric(const Dataset& data) { return data.multi_label() ? "f1" : "top1"; }

double curve_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

namespace {

MetricList retrained(const std::string& what, const std::string& removed, const RoarData& study, int64_t seed,
                     const RoarOptions& options, const Trainer& trainer) {
  TrainingOptions training = options.training;
  training.train.seed += static_cast<uint64_t>(seed);
  TrainingJob job{.kind = "roar", .what = what, .definition = removed};
  const Graph graph = trainer(study.classifier(training.train.seed), study.train, training, std::move(job)).graph;
  return metrics_of(evaluate({graph}, study.test), 0);
}

nlohmann::json json_of(AttributionOptions options) {
  JsonWriter writer;
  options.describe(writer);
  nlohmann::json json = writer.json();
  json["seed"] = options.method == "smoothgrad" ? options.seed : 0;  // the others draw nothing
  return json;
}

// The method, its layer and all its options; these only where one is not as it was left, so that usual runs are called
// what they always were.
std::string estimator_of(const Graph& model, const AttributionOptions& options) {
  const nlohmann::json own = json_of(options), usual = json_of({.method = options.method, .layer = options.layer});
  const std::string name = fmt::format("{} {} {}", options.method, options.layer, fingerprint(model));
  return own == usual ? name : name + " " + own.dump();
}

}  // namespace

PixelRanking ranking_by(const Graph& model, const RoarData& data, const RoarOptions& options) {
  const AttributionOptions& attribution = options.attribution;
  const PixelOrder train = pixel_order(model, data.train, attribution);
  const PixelOrder test = pixel_order(model, data.test, attribution);
  PixelRanking ranking{estimator_of(model, attribution), train.places, test.places, train.counts};
  ranking.counts.merge(test.counts);
  return ranking;
}

PixelRanking random_ranking(const Graph& like, const RoarData& data, const RoarOptions& options) {
  int64_t height = data.train.height(), width = data.train.width();
  if (options.random == "maps") {
    const at::Tensor map = Attributor(like, options.attribution).explain(make_batch(data.train, 0, 1).images).maps;
    height = map.size(1);
    width = map.size(2);
  }
  const uint64_t seed = options.training.train.seed;
  const std::string drawn = seed == 0 ? "" : fmt::format(" seed {}", seed);
  return {fmt::format("random {} {}{}", height, width, drawn),
          random_pixel_order(data.train, height, width, mix_seed({seed, 11})),
          random_pixel_order(data.test, height, width, mix_seed({seed, 12}))};
}

RoarPoint roar_whole(const RoarData& data, const RoarOptions& options, const Trainer& trainer) {
  options.check();
  RoarPoint point;
  for (int64_t seed = 0; seed < options.seeds; ++seed)
    point.push_back(retrained("nothing removed", "", data, seed, options, trainer));
  return point;
}

RoarCurve roar_curve(const std::string& name, const std::vector<PixelRanking>& rankings, const RoarData& data,
                     const RoarOptions& options, const Trainer& trainer) {
  options.check();
  if (rankings.size() != 1 && std::ssize(rankings) != options.seeds)
    throw Error(ErrorKind::usage, name, "expected 1 ranking or {}, found {}", options.seeds, rankings.size());
  const PixelFill fill(options.fill, data.train);
  RoarCurve curve{.name = name};
  for (const auto& ranking : rankings) curve.counts.merge(ranking.counts);
  for (const double level : options.levels) {
    const std::string what = fmt::format("{}, {:.0f} % removed", name, 100 * level);
    RoarPoint& point = curve.points.emplace_back();
    Dataset train, test;
    for (int64_t seed = 0; seed < options.seeds; ++seed) {
      const PixelRanking& ranking = rankings[rankings.size() == 1 ? 0 : static_cast<size_t>(seed)];
      if (seed < std::ssize(rankings)) {
        train = fill.without(data.train, ranking.train, level);
        test = fill.without(data.test, ranking.test, level);
      }
      const std::string removed = fmt::format("{} {} {}", ranking.estimator, options.fill, level);
      point.push_back(retrained(what, removed, {train, test, data.classifier}, seed, options, trainer));
    }
  }
  return curve;
}

RoarResult roar(const std::vector<std::pair<std::string, Graph>>& models, const RoarData& data,
                const RoarOptions& options, const Trainer& trainer) {
  options.check();
  for (const auto& [name, model] : models)
    for (const Dataset* images : {&data.train, &data.test}) tried_attributor(name, model, *images, options.attribution);
  RoarResult result{.metric = roar_metric(data.train), .whole = roar_whole(data, options, trainer)};
  for (const auto& [name, model] : models)
    result.curves.push_back(roar_curve(name, {ranking_by(model, data, options)}, data, options, trainer));
  const PixelRanking random = random_ranking(models.front().second, data, options);
  result.curves.push_back(roar_curve("random", {random}, data, options, trainer));
  return result;
}

}  // namespace pare
