// A whole network quantised, or each of its layers alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/quantize.h"
#include "pare/quantize/ranges.h"
#include "pare/samples/samples.h"

namespace pare {

struct QuantizedNetwork {
  Graph graph;
  std::vector<QuantizedLayer> layers;
  std::map<std::string, ValueRange> ranges;
  std::vector<std::string> notes;
};

// `graph` in its working form (passes/working_form.h); batch norms are folded. Ranges are seen on `samples`, weights
// are rounded on `learned`, perhaps the same with mirror images.
QuantizedNetwork quantize_network(const Graph& graph, const Samples& samples, const Samples& learned,
                                  const QuantizeOptions& options, Observer& observer);

// Each layer alone, weights rounded to the nearest, with the divergence of the network's answer on the samples.
std::vector<QuantizedLayer> scan_layers(const Graph& graph, const Samples& samples, const QuantizeOptions& options,
                                        Observer& observer);

}  // namespace pare
