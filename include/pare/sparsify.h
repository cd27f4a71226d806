// Sparsification from end to end: one round or several, each a training, then fine-tuning with the mask fixed. With a
// matching every stage after the dense training learns from the dense network. The methods wanda and obs train nothing
// and need no labels: a few hundred samples of a trained network are enough.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/distill.h"
#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/samples.h"
#include "pare/train.h"

namespace pare {

// How much of each tensor goes. global: what has the lowest scores in all of them; uniform: the same part of each; erk:
// by its extents (Erdős–Rényi kernel); owl: less where scores have more outliers (wanda and obs); automatic: erk for
// wanda and obs, else global.
enum class MaskDistribution { automatic, global, uniform, erk, owl };
template <>
struct NamesOf<MaskDistribution> {
  static constexpr std::string_view names[] = {"auto", "global", "uniform", "erk", "owl"};
};

// What trains the gates of l0: Adam, or what trains the weights.
enum class GatesBy { adam, weights };
template <>
struct NamesOf<GatesBy> {
  static constexpr std::string_view names[] = {"adam", "weights"};
};

// Where the inputs of a tensor lie.
struct InputAxis {
  int64_t axis = 1;    // below zero: two layers disagree
  int64_t groups = 1;  // parts of that axis that belong to different outputs
  bool operator==(const InputAxis&) const = default;
};
using InputAxes = std::map<std::string, InputAxis>;

struct MaskOptions {
  std::vector<std::string> include;  // globs of tensor names; empty: all
  std::vector<std::string> exclude;
  bool with_last = false;  // the last linear layer too
  MaskDistribution distribution = MaskDistribution::automatic;
  std::string pattern;       // "2:4": at most 2 of every 4 neighbouring inputs are kept; empty: any
  std::string block;         // wanda, obs: "1x4", weights of 1 output and 4 neighbouring inputs go together
  bool allow_empty = false;  // let a layer lose its last weight
  InputAxes axes;            // along which the pattern runs; axis 1 of tensors that are not named

  void describe(OptionVisitor& options);
};

struct LayerSparsity {
  std::string name;
  int64_t total = 0;
  int64_t kept = 0;
};

struct SparsityReport {
  std::vector<LayerSparsity> layers;
  int64_t masked_total = 0;
  int64_t masked_kept = 0;
  int64_t parameters = 0;                  // of the whole network
  double over_masked() const;              // removed / masked_total
  double over_parameters() const;          // removed / parameters
  std::vector<std::string> empty() const;  // layers without a weight
};
// What slimming left of a group of channels.
struct KeptChannels {
  std::string name;
  int64_t total = 0;
  int64_t kept = 0;
  std::string reason;  // why it was left alone, or not cut as much as asked
};

struct SparsifyOptions {
  std::string method = "cs";       // one of sparsifiers()
  std::optional<double> sparsity;  // part of the masked weights removed; none: as the method finds it (cs, l0)
  std::vector<double> s_init;      // cs: one value; tickets: one candidate each
  std::optional<double> lambda;    // cs 1e-8, l0 2e-5, slimming 1e-4 unless given
  double beta_final = 200;
  std::optional<double> mask_rate;  // learning rate of the masks, times that of the weights: cs 20, l0 0.5 unless given
  GatesBy gates_by = GatesBy::adam;  // l0
  int64_t rounds = 1;
  double round_rate = 0.2;  // imp: part of the kept weights that goes in each round, unless `sparsity` is given
  int64_t rewind = 0;       // epoch to which weights (imp, weight-rewind) or the learning rate (lr-rewind) go back
  int64_t finetune = 0;     // epochs with the mask fixed
  double finetune_lr = 0.01;
  double gmp_begin = 0.1;
  double gmp_end = 0.75;
  int64_t gmp_every = 20;
  int64_t samples = 0;     // wanda, obs: how many are learned from; 0: 256
  bool no_mirror = false;  // obs: colour images are used mirrored as well unless this is set
  MaskOptions mask;
  DistillationOptions distill = {.alpha = 0};  // from the dense network
  TrainingOptions training;
  bool trained = true;               // the weights are those of a trained network, not of a fresh one
  bool keep_search_weights = false;  // cs: SparsifyResult::scaled_early is wanted

  void describe(OptionVisitor& options);
  void check(bool trained) const;       // Error{usage}; `trained`: the method begins with a trained model
  std::optional<double> asked() const;  // sparsity, or that of the pattern
  bool trains() const;                  // and so needs labels: every method but wanda and obs, and fine-tuning
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
  std::vector<KeptChannels> channels;  // slimming: what was removed of each group
  double removed = 0;                  // of the masked weights; slimming: of the channels
  // cs: the weights of the search itself after epoch `rewind`, times 1/σ(s_init): what the released program retrains.
  Graph scaled_early;
  std::optional<Graph> dense;  // the trained dense network, where there was one
};

std::vector<std::string> sparsifiers();  // the methods, by name

// Labels are needed by what trains: every method but wanda and obs, and fine-tuning.
SparsifyResult sparsify(const Graph& graph, const Samples& samples, const SparsifyOptions& options,
                        Observer& observer = unobserved());

}  // namespace pare
