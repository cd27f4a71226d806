// The work of sparsify() (pare/sparsify.h): the methods, and what they share.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pare/workflow/rewind.h"
#include "pare/workflow/sparsifier_traits.h"
#include "pare/workflow/sparsify.h"

namespace pare {

// One run of one method. References stay in use.
class Sparsifier {
 public:
  Sparsifier(Graph graph, bool trained, const Dataset& data, const SparsifyOptions& options, const Trainer& trainer);
  Sparsifier(Graph graph, const OneShotInput& input, const SparsifyOptions& options, const Trainer& trainer,
             Observer& observer);
  SparsifyResult run();

 private:
  friend struct SparsifierList;

  // The methods (sparsifier_methods.cpp).
  void continuous();
  void magnitude();
  void one_shot();
  void gradual();
  void hard_concrete();
  void slimming();
  // Frankle et al. 2019, and the weight rewinding of Renda et al. 2020: the dense network is trained, and every round
  // begins with its state of epoch `rewind`.
  void prune_rewound();
  // Every round goes on with the weights that it finds, so that a trained network needs no dense training.
  void iterative_continued();
  // Renda et al. 2020: after pruning the schedule is replayed from epoch `rewind` on the present weights.
  void rate_rewinding();

  // In each round the smallest weights are removed and the rest is trained: from `early` or, where that is null, from
  // where it is; with the schedule from epoch `rewind` on (`replay`) or from its beginning.
  void prune_in_rounds(const EarlyIterate* early, bool replay);
  double sparsity_after(int64_t prunings) const;

  // What they share (sparsifier.cpp).
  TrainingOutcome train_dense(int64_t rewind = 0);
  // A stage of the method.
  TrainingOutcome train(const std::string& what, const EarlyIterate& begin, const TrainingOptions& training,
                        Reparameterization* method, std::vector<int64_t> keep_epochs = {});
  // Those that are not the default.
  void add_mask_options(nlohmann::json& definition) const;
  void finish_round(const std::string& name);
  void finetune();
  void add_notes();
  // Do the options say how many weights stay, which a method could also find by itself?
  bool count_given() const { return options_.asked().has_value(); }
  TensorMap by_magnitude(double sparsity) const;
  // Keeps masks that a method found by itself from emptying a layer.
  TensorMap guarded(TensorMap masks, const TensorMap& scores);
  SparsityReport sparsity() const;
  // The part that went of the masked weights, or of the channels.
  double removed() const;

  Graph graph_;  // what was trained last
  bool trained_;
  const Dataset& data_;
  const SparsifyOptions& options_;
  const Trainer& trainer_;
  const Samples* samples_ = nullptr;  // one_shot
  Observer* observer_ = nullptr;
  std::vector<std::string> names_;
  MaskOptions mask_;  // with the axes of this graph
  int64_t epochs_ = 0;
  int64_t parameters_ = 0;  // slimming: before channels went
  SparsifyResult result_;
};

struct SparsifierEntry {
  SparsifierTraits traits;
  void (Sparsifier::*run)();
};
// Error{usage} for an unknown name. The list is in workflow/sparsify.cpp.
const SparsifierEntry& find_sparsifier(const std::string& name);

}  // namespace pare
