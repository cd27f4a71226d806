// Compression by its goal, with what a command adds: data by name.
#pragma once

#include "pare/compress.h"  // IWYU pragma: export
#include "pare/data/data_options.h"
#include "pare/workflow/measured.h"
#include "pare/workflow/prune.h"

namespace pare {

struct CompressJob : CompressOptions {
  DataChoice data;                 // its training part is learned from, the rest is what the result is measured on
  const Samples* given = nullptr;  // instead of data
  StageProgress progress;

  void describe(OptionVisitor& options);
  void check() const;        // Error{usage}: no goal, several, or one that means nothing
  PruneJob pruning() const;  // the same data and samples, as pruning takes them
  BudgetOptions budget() const;
};

CompressResult compress(const Graph& graph, const CompressJob& job);

}  // namespace pare
