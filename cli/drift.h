// --attribution-drift N of the commands that compress: a metric of what the model looks at, beside its accuracy.
#pragma once

#include <nlohmann/json.hpp>

#include "command.h"
#include "pare/workflow/data_options.h"
#include "pare/workflow/drift.h"

namespace pare::cli {

struct DriftMetric {
  int64_t images = 0;  // of the test split; 0: not asked for

  void describe(OptionVisitor& options);
  // Error{usage} without data, Error{file} without test images, Error{shape} for a model without maps: before any work
  // is done.
  void check(const Graph& original, const DataChoice& data) const;
  // Prints it, and adds "attribution_drift" to the document and the cosine to its "after", where reports look for it;
  // nothing where it is not asked for.
  void report(Session& session, const Graph& original, const Graph& compressed, const DataChoice& data,
              nlohmann::json& document) const;
};

}  // namespace pare::cli
