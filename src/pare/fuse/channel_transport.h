// A transport map for each class of channels, and a network carried by them into the shape of another.
//
// With a plan T between a source's channels (marginal α) and a target's (β):
//   rows, biases, batch norms    W̃ = diag(1/β) Tᵀ W: a target channel is the mean of what is sent to it;
//   columns of consumers         as published  Ŵ = W T diag(1/β), an average again;
//                                function-preserving  Ŵ = W diag(1/α) T: the sum over target channels stays that over
//                                the source's, so a channel split in two has its outgoing weights halved.
// For equal widths and uniform marginals T is a permutation over n and all of them are that permutation.
//
// Pure functions and values; any thread.
#pragma once

#include <vector>

#include "pare/fuse.h"
#include "pare/fuse/network.h"

namespace pare {

struct ClassMap {
  at::Tensor plan;                   // T, double [source, target]; undefined: not known yet
  at::Tensor rows;                   // T diag(1/β)
  at::Tensor columns;                // what columns are multiplied by
  std::vector<int64_t> permutation;  // source of each target where every channel has one partner; else empty
  bool leaves_gaps = false;          // nothing is sent to some targets

  bool defined() const { return plan.defined(); }
  int64_t source_of(int64_t target) const;  // the one that most is sent from; −1: none
};

ClassMap make_map(const at::Tensor& plan, ColumnScaling scaling);
ClassMap identity_map(int64_t size);
// Partners without marginals: source[j] is the source of target j, −1 where it has none.
ClassMap matching_map(const std::vector<int64_t>& source, int64_t sources);

using ClassMaps = std::vector<ClassMap>;  // by index of the reference's classes

// A parameter of the source, as the target's use has it, carried along every axis but `skip`. Undefined when a class
// along one of these axes has no map yet. Along `skip` (and where the groups of a weight have their own lists along
// it, axis 0 by groups) entries stand as in the source.
at::Tensor carried(const at::Tensor& parameter, const ParameterUse& source, const ParameterUse& target,
                   const ClassMaps& maps, int64_t skip = -1);

// The whole source in the target's shape, under the target's names. Entries to which no source channel is sent are the
// target's own.
Graph carried_network(const Network& source, const Network& target, const ClassMaps& maps);

// Does every class have a permutation?
bool all_permutations(const ClassMaps& maps);

// Throws Error{verification} when a network carried by permutations does not compute what the source does, in double
// precision on random inputs.
void check_equivalent(const Graph& source, const Graph& permuted);

}  // namespace pare
