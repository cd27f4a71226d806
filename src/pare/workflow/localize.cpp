#include "pare/workflow/localize.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "pare/data/loader.h"
#include "pare/data/parallel.h"
#include "pare/data/threads_restored.h"
#include "pare/error.h"
#include "pare/workflow/maps.h"

namespace pare {

namespace {

// The (image, class) pairs of some images.
struct MaskedPairs {
  std::vector<int64_t> rows, classes;
};

MaskedPairs pairs_of(const at::Tensor& masks, int64_t classes) {
  MaskedPairs pairs;
  const int64_t plane = masks.size(1) * masks.size(2);
  for (int64_t n = 0; n < masks.size(0); ++n) {
    const auto* mask = masks.data_ptr<uint8_t>() + n * plane;
    std::vector<bool> there(256, false);
    for (int64_t i = 0; i < plane; ++i) there[mask[i]] = true;
    for (int64_t c = 0; c < classes; ++c)
      if (there[static_cast<size_t>(c) + 1]) pairs.rows.push_back(n), pairs.classes.push_back(c);
  }
  return pairs;
}

struct LocalizedPiece {
  Localization sums;
  at::Tensor scores;
};

// What the first model makes of a piece.
struct FirstModel {
  at::Tensor maps, scores;
};

class Localizer {
 public:
  Localizer(const std::vector<Graph>& models, const Dataset& data, const LocalizeOptions& options)
      : data_(data), options_(options) {
    AttributionOptions of_thread = options.attribution;
    of_thread.memory /= std::max(1, at::get_num_threads());
    for (size_t m = 0; m < models.size(); ++m)
      attributors_.push_back(
          tried_attributor(options.names.empty() ? models[m].name : options.names.at(m), models[m], data, of_thread));
  }

  LocalizeResult run() {
    const auto start = std::chrono::steady_clock::now();
    const auto pieces = static_cast<size_t>((data_.size() + options_.batch - 1) / options_.batch);
    std::vector<std::vector<LocalizedPiece>> results(pieces);
    {
      const ThreadsRestored threads;
      parallel_each(pieces, threads.count, [&](size_t p) { results[p] = one_thread(static_cast<int64_t>(p)); });
    }
    LocalizeResult out{.samples = data_.size()};
    for (size_t m = 0; m < attributors_.size(); ++m) out.models.push_back(joined(results, m));
    out.pairs = out.models.at(0).present.pairs;
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  // Whole pieces on one thread each: nothing to wait for inside a layer.
  std::vector<LocalizedPiece> one_thread(int64_t piece) {
    {
      const std::lock_guard lock(mutex_);
      at::set_num_threads(1);
      at::globalContext().setFlushDenormal(true);
    }
    const int64_t begin = piece * options_.batch, end = std::min(begin + options_.batch, data_.size());
    const Batch batch = make_batch(data_, begin, end);
    const at::Tensor masks = data_.masks.slice(0, begin, end).contiguous();
    const MaskedPairs pairs = pairs_of(masks, static_cast<int64_t>(data_.classes.size()));
    std::vector<LocalizedPiece> results;
    FirstModel first;
    for (const auto& attributor : attributors_) results.push_back(measure(attributor, batch, masks, pairs, first));
    const std::lock_guard lock(mutex_);
    done_ += end - begin;
    if (options_.progress) options_.progress(done_, data_.size());
    return results;
  }

  // `first` is filled in by the first model.
  LocalizedPiece measure(const Attributor& attributor, const Batch& batch, const at::Tensor& masks,
                         const MaskedPairs& pairs, FirstModel& first) const {
    const at::Tensor rows = at::tensor(pairs.rows, at::kLong), classes = at::tensor(pairs.classes, at::kLong);
    const Attribution found = attributor.explain(batch.images, rows, classes);
    const at::NoGradGuard no_grad;
    LocalizedPiece out{.scores = found.scores};
    if (!first.maps.defined()) first = {found.maps, found.scores};
    const at::Tensor maps = resize_maps(found.maps, data_.height(), data_.width());
    const auto similar = map_similarity(found.maps, first.maps, data_.height(), data_.width());
    for (size_t p = 0; p < pairs.rows.size(); ++p) {
      const auto at = static_cast<int64_t>(p);
      const at::Tensor mask = masks[pairs.rows[p]].eq(pairs.classes[p] + 1);
      LocalizationMetrics one;
      one.add(maps[at], mask, options_.tolerance);
      out.sums.present.merge(one);
      const auto predicted_by = [&](const at::Tensor& scores) {
        return scores[pairs.rows[p]][pairs.classes[p]].item<double>() > 0;
      };
      if (predicted_by(found.scores)) out.sums.predicted.merge(one);
      if (predicted_by(first.scores)) out.sums.shared.merge(one);
      out.sums.cosine.add(similar[p].cosine);
      out.sums.rank_correlation.add(similar[p].rank_correlation);
    }
    if (const at::Tensor errors = found.errors(); errors.defined())
      for (int64_t p = 0; p < errors.numel(); ++p) out.sums.conservation_error.add(errors[p].item<double>());
    return out;
  }

  Localization joined(const std::vector<std::vector<LocalizedPiece>>& results, size_t m) const {
    Localization total{.layer = attributors_[m].layer()};
    std::vector<at::Tensor> scores;
    for (const auto& piece : results) {
      const Localization& sums = piece[m].sums;
      total.predicted.merge(sums.predicted);
      total.present.merge(sums.present);
      total.shared.merge(sums.shared);
      total.cosine.merge(sums.cosine);
      total.rank_correlation.merge(sums.rank_correlation);
      total.conservation_error.merge(sums.conservation_error);
      scores.push_back(piece[m].scores);
    }
    total.classification = multi_label_metrics(at::cat(scores), data_.labels, options_.threshold);
    return total;
  }

  const Dataset& data_;
  const LocalizeOptions& options_;
  std::vector<Attributor> attributors_;
  std::mutex mutex_;
  int64_t done_ = 0;
};

}  // namespace

LocalizeResult localize(const std::vector<Graph>& models, const Dataset& data, const LocalizeOptions& options) {
  if (!data.masks.defined() || !data.multi_label())
    throw Error(ErrorKind::usage, data.name, "has no masks; take scenes, or voc:DIR with `split` segmentation");
  if (options.batch < 1) throw Error(ErrorKind::usage, "batch", "{} is not positive", options.batch);
  if (!(options.tolerance >= 0)) throw Error(ErrorKind::usage, "tolerance", "{} is negative", options.tolerance);
  if (models.empty()) throw Error(ErrorKind::usage, "localize", "no models");
  return Localizer(models, data, options).run();
}

}  // namespace pare
