// Sparsification (pare/sparsify.h) on a data set; each training is a run of its own that resumes.
#pragma once

#include "pare/data/dataset.h"
#include "pare/distill/distillation.h"
#include "pare/graph.h"
#include "pare/sparsify.h"  // IWYU pragma: export
#include "pare/sparsify/mask.h"
#include "pare/workflow/train.h"

namespace pare {

// `trained`: the weights are those of a trained network (methods that begin with dense training leave it out).
SparsifyResult sparsify(const Graph& graph, bool trained, const Dataset& data, const SparsifyOptions& options,
                        const Trainer& trainer);

// wanda and obs: what they learn from; `data`, empty unless there is fine-tuning, is what that trains on.
struct OneShotInput {
  const Samples& samples;
  const Dataset& data;
};
SparsifyResult sparsify(const Graph& graph, const OneShotInput& input, const SparsifyOptions& options,
                        const Trainer& trainer, Observer& observer);
// Does the method learn from samples alone? Error{usage} for a method that there is not.
bool is_one_shot(const std::string& method);

}  // namespace pare
