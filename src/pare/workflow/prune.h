// Structured pruning from end to end: select, remove, compensate, measure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pare/analysis/cost.h"
#include "pare/compensate/compensate.h"
#include "pare/core/graph.h"
#include "pare/core/options.h"
#include "pare/prune/budget.h"
#include "pare/workflow/data_options.h"
#include "pare/workflow/evaluate.h"

namespace pare {

struct PruneResult;

struct PruneOptions {
  double channels = -1;  // fractions removed; one of the three, below zero is not given
  double params = -1;
  double macs = -1;
  bool empty = false;              // instead: only channels that are empty already
  std::string criterion = "auto";  // obs where the method learns from images, else l1
  std::string scope = "auto";      // allocate for obs and a budget of parameters or MACs, else uniform
  std::vector<std::string> layers;
  std::vector<std::string> skip;
  int64_t round_to = 8;
  double floor = 0.1;
  bool inner_only = false;
  int64_t steps = 1;  // counts of each step are parts of the whole network's: they end with the widths of one

  std::string compensate = "auto";  // calibrated with data, most-sim without
  CompensateOptions method;
  std::string images = "distilled";  // of synthetic: distilled, pink, smooth or white
  int64_t samples = 0;               // images of a method; 0: 256 of the data, 64 made ones
  int64_t distill_steps = 150;
  bool no_mirror = false;  // colour images are used mirrored as well unless this is set

  double ridge = 0;  // of solved layers; 0: chosen on images that are not solved on

  double max_drop = -1;  // of top-1 (multi-label: of mAP); below zero is not given
  DataChoice data;       // measured on before and after, where given; the training part is what methods learn from

  uint64_t seed = 0;
  ProcessGroup* ranks = &alone();  // they share the images that methods learn from; only the first measures
  // Called after every step with the network so far, and gives that which goes on: fine-tuning.
  std::function<Graph(const Graph& graph, int64_t step)> after_step;
  std::function<void(const std::string& what, int64_t done, int64_t all)> progress;
  std::function<void(const PruneResult&)> on_missed;  // what there is, before the error of a gate

  void describe(OptionVisitor& options);
  BudgetOptions budget() const;   // Error{usage} unless exactly one of channels, params and macs is given
  PruneOptions resolved() const;  // with `auto` replaced by what it stands for
};

struct PrunedGroup {
  std::string name;
  int64_t total = 0;
  int64_t kept = 0;
  std::string reason;        // why it was left alone, or not cut as asked
  std::string compensation;  // what was done about the removed channels
  double loss = 0;           // allocate: of the network's answer (KL divergence) when this group alone is cut so
};

// A model's size and, where there is data, its accuracy.
struct Measured {
  ModelCost cost;
  MetricList metrics;  // none without data
};

struct PruneResult {
  Graph graph;
  std::string criterion, scope, compensate;  // as they were used, where the options say `auto`
  std::vector<PrunedGroup> groups;
  Measured before;
  Measured after;
  std::vector<std::string> notes;
  double seconds = 0;         // all
  double method_seconds = 0;  // selecting, removing and compensating, without making images and measuring
  double image_seconds = 0;   // loading or making images
};

// Error{quality} when the accuracy falls by more than max_drop, or was no better than chance to begin with.
PruneResult prune(const Graph& graph, const PruneOptions& options);

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
Scan scan(const Graph& graph, const PruneOptions& options);

}  // namespace pare
