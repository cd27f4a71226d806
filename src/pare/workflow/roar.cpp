#include "pare/workflow/roar.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "pare/core/error.h"
#include "pare/data/loader.h"

namespace pare {

void RoarOptions::describe(OptionVisitor& options) {
  attribution.describe(options);
  options.field("levels", levels, "parts of the pixels that are removed");
  options.field("seeds", seeds, "classifiers trained for each point");
  training.describe(options);
}

void RoarOptions::check() const {
  if (levels.empty()) throw Error(ErrorKind::usage, "--levels", "name at least one part of the pixels");
  for (const double level : levels)
    if (!(level > 0 && level < 1))
      throw Error(ErrorKind::usage, "--levels", "expected parts in (0, 1), found {}", level);
  if (seeds < 1) throw Error(ErrorKind::usage, "--seeds", "expected at least 1, found {}", seeds);
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

}  // namespace

at::Tensor pixel_order(const Graph& model, const Dataset& data, const AttributionOptions& options) {
  check_images(model, data);
  const Attributor attributor(model, options);
  std::vector<at::Tensor> orders;
  for (int64_t begin = 0; begin < data.size(); begin += kRankedAtOnce) {
    const Batch batch = make_batch(data, begin, std::min(begin + kRankedAtOnce, data.size()));
    const LabelPairs pairs = label_pairs(batch.labels);
    const Attribution found = attributor.explain(batch.images, pairs.rows, pairs.classes);
    const at::NoGradGuard no_grad;
    const at::Tensor maps = joined_maps(found, pairs.rows, data, batch.images.size(0)).flatten(1);
    orders.push_back(std::get<1>(at::sort(maps, /*stable=*/true, 1, /*descending=*/true)).to(at::kInt));
  }
  return at::cat(orders);
}

at::Tensor random_pixel_order(const Dataset& data, uint64_t seed) {
  at::Tensor order = at::empty({data.size(), data.height() * data.width()}, at::kInt);
  for (int64_t n = 0; n < data.size(); ++n) {
    Random random(mix_seed({seed, static_cast<uint64_t>(n)}));
    order.select(0, n).copy_(at::tensor(random_permutation(order.size(1), random)));
  }
  return order;
}

at::Tensor mean_color(const Dataset& data) {
  at::Tensor sum = at::zeros({data.channels()}, at::kDouble);
  for (int64_t n = 0; n < data.size(); ++n) sum += data.images[n].to(at::kDouble).mean({1, 2});
  return (sum / data.size()).round().to(at::kByte);
}

Dataset without_pixels(const Dataset& data, const at::Tensor& order, double part, const at::Tensor& fill) {
  const auto removed = static_cast<int64_t>(part * static_cast<double>(order.size(1)));
  Dataset result = data;
  result.images = data.images.clone();
  for (int64_t n = 0; n < data.size(); ++n) {
    const at::Tensor gone = order[n].narrow(0, 0, removed).to(at::kLong);
    at::Tensor pixels = result.images[n].view({data.channels(), -1});
    for (int64_t c = 0; c < data.channels(); ++c) pixels.select(0, c).index_fill_(0, gone, fill[c].item());
  }
  return result;
}

std::vector<double> RoarCurve::values(const std::string& metric) const {
  std::vector<double> values;
  for (const auto& point : points)
    for (const auto& [name, value] : point)
      if (name == metric) values.push_back(value);
  return values;
}

double curve_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

namespace {

class Roar {
 public:
  Roar(const RoarData& data, const RoarOptions& options, const Trainer& trainer)
      : data_(data), options_(options), trainer_(trainer), fill_(mean_color(data.train)) {}

  MetricList whole() { return retrained("nothing removed", "", data_.train, data_.test); }

  // `estimator` identifies what made the orders.
  RoarCurve curve(const std::string& name, const std::string& estimator, const at::Tensor& train_order,
                  const at::Tensor& test_order) {
    RoarCurve curve{.name = name};
    for (const double level : options_.levels)
      curve.points.push_back(retrained(fmt::format("{}, {:.0f} % removed", name, 100 * level),
                                       fmt::format("{} {}", estimator, level),
                                       without_pixels(data_.train, train_order, level, fill_),
                                       without_pixels(data_.test, test_order, level, fill_)));
    return curve;
  }

 private:
  MetricList retrained(const std::string& what, const std::string& removed, const Dataset& train, const Dataset& test) {
    MetricList mean;
    for (int64_t seed = 0; seed < options_.seeds; ++seed) {
      TrainingOptions training = options_.training;
      training.train.seed += static_cast<uint64_t>(seed);
      TrainingJob job{.kind = "roar", .what = what, .definition = removed};
      const Graph graph = trainer_(data_.classifier(training.train.seed), train, training, std::move(job)).graph;
      const MetricList metrics = metrics_of(evaluate({graph}, test), 0);
      if (mean.empty())
        for (const auto& [name, value] : metrics) mean.emplace_back(name, 0.0);
      for (size_t i = 0; i < mean.size(); ++i)
        mean[i].second += metrics[i].second / static_cast<double>(options_.seeds);
    }
    return mean;
  }

  const RoarData& data_;
  const RoarOptions& options_;
  const Trainer& trainer_;
  at::Tensor fill_;
};

}  // namespace

RoarResult roar(const std::vector<std::pair<std::string, Graph>>& models, const RoarData& data,
                const RoarOptions& options, const Trainer& trainer) {
  options.check();
  Roar run(data, options, trainer);
  RoarResult result{.metric = data.train.multi_label() ? "f1" : "top1", .whole = run.whole()};
  const std::string& method = options.attribution.method;
  for (const auto& [name, model] : models)
    result.curves.push_back(run.curve(
        name, fmt::format("{} {} {}", method, options.attribution.layer, fingerprint(model)),
        pixel_order(model, data.train, options.attribution), pixel_order(model, data.test, options.attribution)));
  const uint64_t seed = options.training.train.seed;
  result.curves.push_back(run.curve("random", "random", random_pixel_order(data.train, mix_seed({seed, 11})),
                                    random_pixel_order(data.test, mix_seed({seed, 12}))));
  return result;
}

}  // namespace pare
