// Images distilled from a network alone, by gradient descent on the pixels from noise or from leaves
// (calibrate/leaves.h).
//
// With batch norms, which remember the mean and variance that real images gave every channel, a batch whose statistics
// at every batch norm are those (Yin et al., Dreaming to Distill, CVPR 2020; Haroush et al., The Knowledge Within, CVPR
// 2020):
//
//   min over x  Σ over batch norms of  mean_c ((m_c − μ_c)²/σ_c² + (s_c/σ_c − 1)²)
//
// with the mean m and the deviation s of the batch.
//
// Without batch norms: images that the network is sure of, equally many of each class, found near where they start
// (large images near leaves, small ones near a grey one): what the cross-entropy's gradient draws into them is the
// pattern that a class is known by, and little else.
//
//   min over x  mean_n −log p(class of n | x_n)
//
// The network is surer of these than of photographs; large ones are followed by the leaves that they began as, which it
// is not sure of.
//
// Batches are distilled side by side, one thread each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pare/calibrate/noise.h"
#include "pare/graph.h"

namespace pare {

struct ImageDistillOptions {
  int64_t count = 64;  // images
  int64_t batch = 0;   // distilled together; 0: 32, 8 of large ones
  int64_t steps = 0;   // of Adam; 0: 150, of large images 40 for batch norms and 6 for classes
  NoiseOptions start;  // its count and seed are not used
  uint64_t seed = 0;
  std::function<void(int64_t done, int64_t all)> progress;
};

struct DistilledImages {
  std::vector<at::Tensor> inputs;  // one per graph input; `count` images, perhaps followed by what they began as
  double before = 0;               // the mean objective of the noise
  double after = 0;                // and of the images
  std::string source;              // what they were distilled from; empty: nothing, the inputs are the noise itself
};

DistilledImages distill_images(const Graph& graph, const ImageDistillOptions& options);

}  // namespace pare
