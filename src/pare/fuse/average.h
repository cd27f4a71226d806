// The weighted mean of networks of one shape, parameter by parameter.
#pragma once

#include <vector>

#include "pare/graph.h"

namespace pare {

// Weights as shares that sum to one. Error{usage} unless there are `count` of them (none: equal shares), all finite,
// none negative and one positive.
std::vector<double> mixing_shares(const std::vector<double>& weights, size_t count);

// θ_r + Σ_k w_k (θ_k − θ_r) with the shares w and the reference r: networks equal to the reference leave it as it is,
// to the last bit. Everything but floating-point parameters is the reference's.
Graph weighted_average(const std::vector<Graph>& networks, const std::vector<double>& weights, size_t reference);

}  // namespace pare
