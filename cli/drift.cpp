#include "drift.h"

#include <algorithm>

#include "metrics.h"
#include "pare/data/loader.h"
#include "pare/error.h"
#include "pare/explain.h"
#include "pare/metrics/evaluate.h"

namespace pare::cli {

void DriftMetric::describe(OptionVisitor& options) {
  options.heading("what is measured");
  options.field("attribution-drift", images_,
                "compare the Grad-CAM maps of this many test images before and after (0: do not)");
}

void DriftMetric::check(const Graph& original, const DataChoice& data) {
  if (images_ < 0) throw Error(ErrorKind::usage, "--attribution-drift", "expected 0 or more, found {}", images_);
  if (images_ == 0) return;
  if (data.data.empty()) throw Error(ErrorKind::usage, "--attribution-drift", "needs --data to take images from");
  check_drift(original);
  try {
    DataChoice choice = data;
    choice.split = "test";
    choice.limit = images_;
    shown_ = choice.load(original);
    check_images(original, shown_);
    try_maps(original);
  } catch (const Error& error) {
    throw Error(error.kind(), "--attribution-drift", "{}: {}", error.where(), error.message());
  }
}

void DriftMetric::check_compared(const Graph& model) const {
  if (images_ == 0) return;
  check_drift(model);
  try_maps(model);
}

void DriftMetric::try_maps(const Graph& model) const {
  if (shown_.size() > 0) Attributor(model, {}).explain(make_batch(shown_, 0, 1).images);
}

void DriftMetric::report(Session& session, const Graph& original, const Graph& compressed,
                         nlohmann::json& document) const {
  if (images_ == 0) return;
  const AttributionDrift drift = attribution_drift(original, compressed, shown_);
  session.print("attribution: cosine {:.4f} and rank correlation {:.4f} to the maps before, {} images at {}\n",
                drift.cosine.mean(), drift.rank_correlation.mean(), shown_.size(), drift.layer);
  say_empty_maps(session, "the new model", drift.counts, "a cosine of 0 to any other map", "left out");
  document["after"]["attribution_similarity"] = drift.cosine.mean();
  document["attribution_drift"] = {{"cosine", drift.cosine.mean()},
                                   {"rank_correlation", drift.rank_correlation.mean()},
                                   {"undefined", drift.cosine.undefined},
                                   {"zero_maps", drift.counts.zero},
                                   {"nan_maps", drift.counts.nan},
                                   {"images", shown_.size()},
                                   {"layer", drift.layer}};
}

}  // namespace pare::cli
