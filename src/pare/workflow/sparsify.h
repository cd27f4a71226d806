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

}  // namespace pare
