// Unstructured sparsification from end to end: one round or several, each a training run of its own that resumes, then
// fine-tuning with the mask fixed. With --match every stage after the dense training learns from the dense network.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pare/core/graph.h"
#include "pare/core/options.h"
#include "pare/data/dataset.h"
#include "pare/distill/distillation.h"
#include "pare/sparsify/continuous.h"
#include "pare/sparsify/gradual.h"
#include "pare/sparsify/hard_concrete.h"
#include "pare/sparsify/mask.h"
#include "pare/workflow/prune.h"
#include "pare/workflow/train.h"

namespace pare {

struct SparsifyOptions {
  std::string method = "cs";
  double sparsity = -1;        // part of the masked weights removed; below zero: as the method finds it (cs, l0)
  std::vector<double> s_init;  // cs: one value; tickets: one candidate each
  double lambda = -1;          // cs 1e-8, l0 2e-5, slimming 1e-4 unless given
  double beta_final = 200;
  double mask_rate = -1;          // learning rate of the masks, times that of the weights: cs 20, l0 0.5 unless given
  std::string gates_by = "adam";  // l0; or weights: what trains the weights
  int64_t rounds = 1;
  double round_rate = 0.2;  // imp: part of the kept weights that goes in each round, unless --sparsity says
  int64_t rewind = 0;       // epoch to which weights (imp, weight-rewind) or the learning rate (lr-rewind) go back
  int64_t finetune = 0;     // epochs with the mask fixed
  double finetune_lr = 0.01;
  double gmp_begin = 0.1;
  double gmp_end = 0.75;
  int64_t gmp_every = 20;
  MaskOptions mask;
  DistillationOptions distill = {.alpha = 0};  // from the dense network
  TrainingOptions training;
  bool keep_search_weights = false;  // cs: SparsifyResult::scaled_early is wanted

  void describe(OptionVisitor& options);
  void check(bool trained) const;  // Error{usage}; `trained`: the method begins with a trained model
  double asked() const;            // sparsity, or that of the pattern; below zero: nothing is said
  // Keeps the last epoch of its training, whatever a validation says: its mask is done there and fits no other.
  bool keeps_last() const;

 private:
  void check_used() const;
};

// One finished round.
struct SparsifyRound {
  std::string name;         // "round 1", "fine-tuning"
  SparsityReport sparsity;  // slimming: of all parameters, those of removed channels
  Graph graph;              // with exact zeros
  TensorMap masks;
  int64_t epochs = 0;  // trained so far, all rounds together
};

struct SparsifyResult {
  Graph graph;
  TensorMap masks;
  std::vector<SparsifyRound> rounds;
  std::vector<std::string> notes;
  std::vector<PrunedGroup> channels;  // slimming: what was removed of each group
  double removed = 0;                 // of the masked weights; slimming: of the channels
  // cs: the weights of the search itself after epoch `rewind`, times 1/σ(s_init): what the released program retrains.
  Graph scaled_early;
  std::optional<Graph> dense;  // the trained dense network, where there was one
};

// `trained`: the weights are those of a trained network (methods that begin with dense training leave it out).
SparsifyResult sparsify(const Graph& graph, bool trained, const Dataset& data, const SparsifyOptions& options,
                        const Trainer& trainer);

}  // namespace pare
