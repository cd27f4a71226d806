#include "drift.h"

#include <algorithm>

#include "pare/core/error.h"
#include "pare/workflow/evaluate.h"

namespace pare::cli {

namespace {

Dataset shown_images(const Graph& original, DataChoice data, int64_t count) {
  data.split = "test";
  data.limit = count;
  return data.load(original);
}

}  // namespace

void DriftMetric::describe(OptionVisitor& options) {
  options.field("attribution-drift", images,
                "compare the Grad-CAM maps of so many test images before and after (0: do not)");
}

void DriftMetric::check(const Graph& original, const DataChoice& data) const {
  if (images < 0) throw Error(ErrorKind::usage, "--attribution-drift", "expected 0 or more, found {}", images);
  if (images == 0) return;
  if (data.data.empty()) throw Error(ErrorKind::usage, "--attribution-drift", "needs --data to take images from");
  check_drift(original);
  try {
    check_images(original, shown_images(original, data, images));
  } catch (const Error& error) {
    throw Error(error.kind(), "--attribution-drift", "{}: {}", error.where(), error.message());
  }
}

void DriftMetric::report(Session& session, const Graph& original, const Graph& compressed, const DataChoice& data,
                         nlohmann::json& document) const {
  if (images == 0) return;
  const Dataset shown = shown_images(original, data, images);
  const AttributionDrift drift = attribution_drift(original, compressed, shown);
  session.print("attribution: cosine {:.4f} and rank correlation {:.4f} to the maps before, {} images at {}\n",
                drift.cosine.mean(), drift.rank_correlation.mean(), shown.size(), drift.layer);
  if (drift.zero_maps > 0) session.say("note: {} maps of the new model are all zero\n", drift.zero_maps);
  document["after"]["attribution_similarity"] = drift.cosine.mean();
  document["attribution_drift"] = {{"cosine", drift.cosine.mean()},
                                   {"rank_correlation", drift.rank_correlation.mean()},
                                   {"undefined", drift.cosine.undefined},
                                   {"zero_maps", drift.zero_maps},
                                   {"images", shown.size()},
                                   {"layer", drift.layer}};
}

}  // namespace pare::cli
