// Images distilled from a network alone: the batch norms of a trained network remember the mean and variance that real
// images gave every channel. Starting from noise, gradient descent on the pixels makes a batch whose statistics at
// every batch norm are those (Yin et al., Dreaming to Distill, CVPR 2020; Haroush et al., The Knowledge Within, CVPR
// 2020):
//
//   min over x  Σ over batch norms of  mean_c ((m_c − μ_c)²/σ_c² + (s_c/σ_c − 1)²),   m, s: mean and deviation of the
//   batch
//
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "pare/calibrate/noise.h"
#include "pare/core/graph.h"

namespace pare {

struct DistillOptions {
  int64_t count = 64;  // images
  int64_t batch = 64;  // distilled together
  int64_t steps = 150;
  double rate = 0.1;   // of Adam, falling to zero by a cosine
  NoiseOptions start;  // count and seed of it are not used
  uint64_t seed = 0;
  std::function<void(int64_t done, int64_t all)> progress;
};

struct DistilledImages {
  std::vector<at::Tensor> inputs;  // one per graph input
  double before = 0;               // the mean objective of the noise
  double after = 0;                // and of the images
  bool distilled = false;          // false: the graph has no batch norm, the inputs are the noise itself
};

// How many batch norms with running statistics there are to distil from.
size_t batch_norms_of(const Graph& graph);

DistilledImages distill_images(const Graph& graph, const DistillOptions& options);

}  // namespace pare
