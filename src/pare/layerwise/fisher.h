// What a change of a layer's output means to the network: the output side of its Fisher matrix, without labels.
//
//   F = mean over images of Σ over places g gᵀ,   g = gradient of v·z at the output of the layer
// z the class scores, v = e − p Σe with e_k = ±√p_k at random, so that the covariance of v is diag(p) − ppᵀ, the Fisher
// matrix of the scores. Every image counts alike: gradients have one length, and only their mean square says what the
// layer means; else the few images of which a network is not certain would decide. Where a network gives no class
// scores, v is ±1/√n: every number of its outputs counts alike.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct FisherOptions {
  int64_t piece = 0;  // samples run at once by a thread; 0: as many as suit their size
  uint64_t seed = 0;
};

// Of layers (analysis/layers.h) by their nodes: double [r, outputs], a root of F = rootᵀ root. Its rows are the
// gradients themselves where there are fewer of them than outputs.
std::map<size_t, at::Tensor> output_fisher(const Graph& graph, const std::vector<size_t>& layers,
                                           const Samples& samples, const FisherOptions& options, Observer& observer);

// Q weight, QᵀQ = F + ρ·mean diagonal·I: outputs [outputs, …] weighed by what they mean, and none by nothing.
at::Tensor weighed_by(const at::Tensor& root, const at::Tensor& weight, double rho = 0.01);

}  // namespace pare
