// Variants of a graph, the same but for some layers, run over samples beside it: only what depends on a change is
// computed again.
#pragma once

#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

// Every value of the graph on these inputs, by name.
TensorMap all_values(const Graph& graph, const std::vector<at::Tensor>& inputs);

// What a variant gives as each of `wanted`, where `values` are those of the original. Its values are known by the names
// that they have there; a node differs where one of its constants is not the original's.
std::vector<at::Tensor> changed_values(const Graph& original, const Graph& variant, const TensorMap& values,
                                       const std::vector<std::string>& wanted);

// What two networks are compared by: class scores (before a last softmax or sigmoid), or where a network gives boxes or
// maps all its outputs that are floating-point numbers, as they come.
std::vector<std::string> answer_values(const Graph& graph);

// How far the answer of each variant is from the original's on each sample of this rank: double [variants, samples].
at::Tensor sample_divergences(const Graph& graph, const std::vector<Graph>& variants, const Samples& samples,
                              Observer& observer, const std::string& step, double temperature = 1);

// How far the answer of each variant is from the original's, the mean over samples (and outputs) of all ranks:
// `divergence` of layerwise/sensitivity.h, of softened answers where the temperature is above 1.
std::vector<double> answer_divergences(const Graph& graph, const std::vector<Graph>& variants, const Samples& samples,
                                       Observer& observer, const std::string& step, double temperature = 1);

}  // namespace pare
