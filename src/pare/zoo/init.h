// Initial values of parameters, as PyTorch's layers draw them by default:
//   weights of Conv and Gemm  kaiming_uniform(a = √5), that is U(−1/√fan_in, 1/√fan_in)
//   their biases              U(−1/√fan_in, 1/√fan_in)
//   normalisations            scale 1, shift 0, running mean 0, running variance 1
//   tables and tokens         normal with deviation 0.02, as transformers begin, where they are zero
// Layers are drawn in the graph's order from one Mersenne twister, so a chain of layers gets exactly the values that
// PyTorch gives it after torch.manual_seed(seed). The global generator is neither read nor moved.
#pragma once

#include <cstdint>

#include "pare/graph.h"

namespace pare {

// The graph with new values for every parameter of the operators above (and of MatMul with the Add after it); other
// tensors stay.
Graph initialize(Graph graph, uint64_t seed);

}  // namespace pare
