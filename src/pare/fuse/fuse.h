// Several networks made into one: aligned to a reference, averaged, repaired.
//
//   ot          optimal transport (fuse/optimal_transport.h), the paper's method
//   barycentre  the same, onto the free-support barycentre of all networks' neurons instead of the reference's
//   rebasin     weight matching by coordinate descent (fuse/weight_matching.h), started from ot
//   merge-many  weight matching of each network to the mean of the others
//   hungarian   hard assignment; greedy: the closest pair first; average: no alignment
#pragma once

#include <string>
#include <vector>

#include "pare/core/options.h"
#include "pare/dist/process_group.h"
#include "pare/fuse/optimal_transport.h"

namespace pare {

struct FuseOptions {
  std::string method = "ot";
  std::string align = "weights";       // or activations
  std::string solver = "emd";          // or sinkhorn
  std::string ground = "unit";         // unit: euclidean on unit rows; euclidean (as published), squared, cosine
  std::string importance = "uniform";  // l1, l2
  std::string scaling = "preserving";  // where widths differ; published
  std::string repair = "none";         // rescale, regression
  double regularization = 0.01;
  double rho = 0;               // of the regression; 0: 0.03 on samples, 0.1 on noise
  int64_t inputs = 2000;        // of the regression: noise that it makes, or the samples and mixtures of them
  std::vector<double> weights;  // none: equal
  int64_t reference = 0;        // whose neurons the others are aligned to
  uint64_t seed = 0;
  ProcessGroup* ranks = &alone();  // each has its own part of the samples

  void describe(OptionVisitor& options);  // all but weights, seed and ranks
};

struct FusionResult {
  Graph fused;
  std::vector<Graph> aligned;         // every model in the reference's shape
  std::vector<Alignment> alignments;  // of every model; the reference's maps are identities
  std::vector<double> shares;
  bool on_noise = false;  // the repair used inputs that it made itself
};

// `samples` are inputs, one tensor per graph input, or this rank's part of them; empty: no data. Error{usage} for
// options that do not fit (fewer than two models, activations without samples), Error{shape} naming the first node that
// differs.
FusionResult fuse(const std::vector<Graph>& models, const FuseOptions& options,
                  const std::vector<at::Tensor>& samples = {});

}  // namespace pare
