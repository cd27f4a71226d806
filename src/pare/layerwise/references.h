// What a compressed network is held against: the original, or several networks with the same nodes, of which it should
// give the mean by their shares.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "pare/graph.h"

namespace pare {

struct References {
  References() = default;  // none
  // References stay in use.
  References(const Graph& original) : graphs{&original}, shares{1} {}  // NOLINT(google-explicit-constructor)
  References(const std::vector<Graph>& networks, std::vector<double> parts) : shares(std::move(parts)) {
    for (const Graph& network : networks) graphs.push_back(&network);
  }

  std::vector<const Graph*> graphs;
  std::vector<double> shares;  // sum to one

  const Graph& first() const { return *graphs.front(); }
  size_t size() const { return graphs.size(); }
  // Σ share_k value(k)
  template <typename Value>
  at::Tensor mean_of(const Value& value) const {
    if (size() == 1) return value(0);
    at::Tensor sum;
    for (size_t k = 0; k < size(); ++k) {
      const at::Tensor part = value(k) * shares[k];
      sum = k == 0 ? part : sum + part;
    }
    return sum;
  }
};

}  // namespace pare
