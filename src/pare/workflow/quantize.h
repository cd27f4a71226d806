// Quantisation from end to end, with what a command adds: data by name.
#pragma once

#include <functional>
#include <string>

#include "pare/data/data_options.h"
#include "pare/quantize.h"  // IWYU pragma: export
#include "pare/workflow/measured.h"
#include "pare/workflow/prune.h"

namespace pare {

struct QuantizeJob : QuantizeOptions {
  DataChoice data;  // measured on before and after, where given; the training part is what is learned from
  const Samples* given = nullptr;  // instead of data
  std::string decoder;             // of detectors: how outputs become boxes, by which they are measured
  StageProgress progress;
  std::function<void(const QuantizeResult&)> on_missed;  // called with what there is before a gate's error is thrown

  void describe(OptionVisitor& options);
  void check() const;        // Error{usage}
  PruneJob pruning() const;  // the same data and samples, as pruning takes them
};

QuantizeResult quantize(const Graph& graph, const QuantizeJob& job);
QuantizeResult scan_quantization(const Graph& graph, const QuantizeJob& job);

}  // namespace pare
