// Weights as integers: rounded layer after layer, each on what the network quantised so far gives it, and stored with
// the DequantizeLinear that makes floats of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/layerwise/round_weights.h"
#include "pare/observer.h"
#include "pare/quantize/activations.h"
#include "pare/quantize/plan.h"
#include "pare/samples/samples.h"

namespace pare {

// A layer's integers: w = scale · code.
struct RoundedWeight {
  at::Tensor codes;  // int8, of the weight's shape
  at::Tensor scale;  // float: one number, or [outputs], or with blocks one for each block along the inputs
  int64_t bits = 8;
  int64_t axis = 0;   // of the outputs; with blocks that of the inputs
  int64_t block = 0;  // inputs of one scale
  double error = 0;   // ‖W − Ŵ‖² / ‖W‖²
};

struct RoundedNetwork {
  Graph graph;                                  // `quantized` with rounded weights as floats, biases moved
  std::map<std::string, RoundedWeight> layers;  // by the output of their node
  std::vector<std::string> notes;
};

// `original` is the graph whose activations were quantised, with places for offsets. Without a repair no samples are
// needed.
RoundedNetwork round_layers(const Graph& original, const QuantizedActivations& quantized, const QuantizationPlan& plan,
                            const Samples& samples, const QuantizeOptions& options, Observer& observer);

// Floats become the integers and their DequantizeLinear; so do biases of layers that read quantised activations, as
// int32 with the product of both scales.
Graph store_integers(Graph graph, const std::map<std::string, RoundedWeight>& layers,
                     const std::map<std::string, ActivationGrid>& grids);

}  // namespace pare
