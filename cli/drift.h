// --attribution-drift N of the commands that compress: a metric of what the model looks at, beside its accuracy.
#pragma once

#include <nlohmann/json.hpp>

#include "command.h"
#include "pare/data/data_options.h"
#include "pare/workflow/drift.h"

namespace pare::cli {

class DriftMetric {
 public:
  void describe(OptionVisitor& options);
  // Error{usage} without data, Error{file} without test images, Error{shape} for a model without maps: before any work
  // is done. Loads the images that report() shows.
  void check(const Graph& original, const DataChoice& data);
  // The model that is to be compared, where it is not made out of the original: Error{shape} when it has no maps.
  void check_compared(const Graph& model) const;
  // Prints it, and adds "attribution_drift" to the document and the cosine to its "after", where reports look for it;
  // nothing where it is not asked for.
  void report(Session& session, const Graph& original, const Graph& compressed, nlohmann::json& document) const;

 private:
  void try_maps(const Graph& model) const;  // throws what explaining an image throws

  int64_t images_ = 0;  // of the test split; 0: not asked for
  Dataset shown_;
};

}  // namespace pare::cli
