// How important is a channel? One number per channel of a group; the least important ones go first.
//
//   l1, l2   norm of the channel's filter                                          (Li et al., ICLR 2017)
//   gm       sum of Euclidean distances from its filter to all others of the group (He et al., CVPR 2019)
//   bn       |γ| of the batch norm after it                                        (Liu et al., ICCV 2017)
//   taylor   |Σ w ∂L/∂w| over the parameters of the channel: what the loss would change by, to first order, if it went
//            (Molchanov et al., CVPR 2019); needs labelled images. Running statistics are not parameters
//   random   drawn from the seed
//   subset   the error of what readers see when it goes with all that would go before it     (prune/subset.h)
//   obs      how late it goes when channels are eliminated one by one on samples      (prune/channel_study.h)
//
// A filter is a row of GroupFilters::vectors(): with its bias appended where no batch norm follows. Where several
// layers make a channel (a residual stream) their filters, folded with their batch norms, count as one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

// Gradients of the loss, for `taylor`: of every floating-point tensor of the graph but running statistics, by name. The
// loss is the mean cross-entropy of the scores (analysis/scores.h), over classes too where an image has several labels.
// Images are run `at_once` at a time; 0: as many as memory allows.
using Gradients = TensorMap;
Gradients loss_gradients(const Graph& graph, const at::Tensor& images, const at::Tensor& labels, int64_t at_once = 0);

// What a criterion judges by, and so what has to be found out before it can rank anything.
enum class CriterionBasis {
  weights,         // the graph alone
  gradients,       // of the loss on labelled samples
  reader_moments,  // of what readers see of the channels on samples
  elimination,     // of channel after channel on samples; its errors give widths, too
};

// A group to be ranked, and what there is to rank it by.
struct CriterionInput {
  const Graph& graph;
  const ChannelMap& map;
  const ChannelGroup& group;
  uint64_t seed = 0;
  const Gradients* gradients = nullptr;
};

struct Criterion {
  std::string_view name;
  CriterionBasis basis = CriterionBasis::weights;
  at::Tensor (*scores)(const CriterionInput&) = nullptr;  // of one group; none where the basis ranks all groups
  bool comparable = false;                                // scores of different groups are on one scale

  bool needs_samples() const { return basis != CriterionBasis::weights; }
  bool needs_labels() const { return basis == CriterionBasis::gradients; }
  bool eliminates() const { return basis == CriterionBasis::elimination; }
};

const std::vector<Criterion>& criteria();
// Error{usage} for an unknown name.
const Criterion& find_criterion(const std::string& name);

struct CriterionOptions {
  std::string criterion = "l1";  // one with scores of its own
  uint64_t seed = 0;
  const Gradients* gradients = nullptr;  // taylor
};

// double [channels], larger = more important; undefined when the criterion has nothing to say about the group (bn where
// no batch norm follows), and then `reason` says why. Never NaN: a value that is not finite counts as zero.
at::Tensor importance(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                      const CriterionOptions& options, std::string& reason);

}  // namespace pare
