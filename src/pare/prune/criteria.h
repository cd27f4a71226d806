// How important is a channel? One number per channel of a group; the least important ones go first.
//
//   l1, l2   norm of the channel's filter                                          (Li et al., ICLR 2017)
//   gm       sum of Euclidean distances from its filter to all others of the group (He et al., CVPR 2019)
//   bn       |γ| of the batch norm after it                                        (Liu et al., ICCV 2017)
//   taylor   |Σ w ∂L/∂w| over the parameters of the channel: what the loss would change by, to first order, if it went
//            (Molchanov et al., CVPR 2019); needs labelled images. Running statistics are not parameters
//   random   drawn from the seed
//
// A filter is a row of GroupFilters::vectors(): with its bias appended where no batch norm follows. Where several
// layers make a channel (a residual stream) their filters, folded with their batch norms, count as one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

enum class Criterion { l1, l2, gm, bn, taylor, random };

// Error{usage} for an unknown name.
Criterion criterion_of(const std::string& name);

// Gradients of the loss, for `taylor`: of every floating-point tensor of the graph but running statistics, by name. The
// loss is the mean cross-entropy of the scores (analysis/scores.h), over classes too where an image has several labels.
// Images are run `at_once` at a time; 0: as many as memory allows.
using Gradients = TensorMap;
Gradients loss_gradients(const Graph& graph, const at::Tensor& images, const at::Tensor& labels, int64_t at_once = 0);

struct CriterionOptions {
  Criterion criterion = Criterion::l1;
  uint64_t seed = 0;
  const Gradients* gradients = nullptr;  // taylor
};

// double [channels], larger = more important; undefined when the criterion has nothing to say about the group (bn where
// no batch norm follows), and then `reason` says why. Never NaN: a value that is not finite counts as zero.
at::Tensor importance(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                      const CriterionOptions& options, std::string& reason);

}  // namespace pare
