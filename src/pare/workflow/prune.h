// Structured pruning from end to end: select, remove, compensate, measure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pare/analysis/cost.h"
#include "pare/compensate/compensate.h"
#include "pare/core/options.h"
#include "pare/data/data_options.h"
#include "pare/graph.h"
#include "pare/metrics/evaluate.h"
#include "pare/ops/labels.h"
#include "pare/prune.h"  // IWYU pragma: export
#include "pare/prune/budget.h"
#include "pare/workflow/distill.h"

namespace pare {

// Training after every step of pruning, on the training part of the data.
struct Finetuning {
  int64_t epochs = 0;  // 0: there is none
  TrainingOptions training;
  DistillationOptions distillation = {.alpha = 0};  // from the network as it was
  Trainer trainer;
};

// Of jobs that measure a model.
void describe_decoder(OptionVisitor& options, std::string& decoder);

// Pruning with what a command adds: data by name, fine-tuning, and functions that it calls.
struct PruneJob : PruneOptions {
  DataChoice data;  // measured on before and after, where given; the training part is what methods learn from
  const Samples* given = nullptr;  // instead of data
  std::string decoder;             // of detectors: how outputs become boxes, by which they are measured
  ProcessGroup* ranks = &alone();  // they share the samples that methods learn from; only the first measures
  Finetuning finetuning;
  std::function<void(const std::string& what, int64_t done, int64_t all)> progress;
  std::function<void(const PruneResult&)> on_missed;  // called with what there is before a gate's error is thrown

  void describe(OptionVisitor& options);
  bool has_data() const { return given != nullptr ? given->size > 0 : !data.data.empty(); }
  std::optional<Dataset> measured_on(const Graph& graph) const;  // nothing where samples were given without labels
  BudgetOptions budget() const;                                  // Error{usage} unless exactly one budget is given
  ChannelUse use() const { return attention == AttentionUnit::heads ? ChannelUse::removal : ChannelUse::dimensions; }
  PruneJob resolved(const Graph& graph) const;  // with `auto` replaced by what it stands for
};

// Error{quality} when the accuracy falls by more than max_drop, or was no better than chance to begin with.
PruneResult prune(const Graph& graph, const PruneJob& job);

// Accuracy against the fraction removed, group by group, each cut alone: those of options.layers, or all.
struct ScanCurve {
  std::string name;
  std::vector<double> ratios;
  std::vector<double> top1;
};
struct Scan {
  double before = 0;
  std::vector<ScanCurve> curves;
  std::vector<PrunedGroup> left;  // groups that cannot be cut, with the reason
};
Scan scan(const Graph& graph, const PruneJob& job);

}  // namespace pare
