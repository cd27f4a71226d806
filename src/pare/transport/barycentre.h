// Barycentres of K measures under optimal transport, with weights w_k ≥ 0.
//
// entropic_barycentre: the histogram p on a fixed support that minimises Σ w_k W_ε(p_k, p), by iterative Bregman
// projections (Benamou et al. 2015) in the log domain.
//
// free_support_barycentre: n points X with masses b that minimise Σ w_k W₂²(measure k, X) (Cuturi & Doucet 2014): exact
// plans to the present points, then every point moves to the weighted mean of what is sent to it, until nothing moves.
//
// Pure functions; any thread.
#pragma once

#include <vector>

#include "pare/transport/plan.h"

namespace pare {

struct BarycentreOptions {
  double regularization = 0.01;  // ε as a fraction of the largest |C| (entropic)
  double tolerance = 1e-9;       // entropic: change of p, summed; free support: movement relative to the points' size
  int64_t max_iterations = 1000;
};

struct EntropicBarycentre {
  at::Tensor histogram;  // double [n]
  bool converged = false;
  int64_t iterations = 0;
};

// `histograms` [K, n] on a support with cost [n, n]; `weights` [K].
EntropicBarycentre entropic_barycentre(const at::Tensor& histograms, const at::Tensor& cost, const at::Tensor& weights,
                                       const BarycentreOptions& options = {});

struct FreeSupportBarycentre {
  at::Tensor points;              // double [n, d]
  std::vector<at::Tensor> plans;  // of each measure onto them
  bool converged = false;
  int64_t iterations = 0;
};

// `measures` are points [m_k, d] of equal mass; `start` are the first points [n, d], of equal mass too.
FreeSupportBarycentre free_support_barycentre(const std::vector<at::Tensor>& measures, const at::Tensor& weights,
                                              const at::Tensor& start, const BarycentreOptions& options = {});

}  // namespace pare
