// Sparsity in one shot from a few hundred samples, without labels and without training: layer after layer, on what the
// network sparsified so far gives it (layerwise/change_layers.h).
//
//   wanda   weights of the smallest |w|·√E[x²] of each output go; the others stay as they are (Sun et al. 2024)
//   obs     what costs least goes, and the others are solved again (layerwise/zero_weights.h)
#pragma once

#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples.h"
#include "pare/sparsify/mask.h"

namespace pare {

struct OneShotOptions {
  bool solve = true;    // obs, else wanda
  double sparsity = 0;  // of the masked weights; that of the pattern where there is one
  MaskOptions mask;
  double ridge = 1e-2;  // added to the second moments, times the mean of their diagonal
  double others = 0.1;  // obs: smallest ridge of layers that are not masked but read something else; 0: those stay
  uint64_t seed = 0;
};

struct OneShot {
  Graph graph;
  TensorMap masks;
  std::vector<std::string> notes;
};

// `graph` in its working form (passes/working_form.h).
OneShot sparsify_in_one_shot(const Graph& graph, const Samples& samples, const OneShotOptions& options,
                             Observer& observer);

// "1x4": tiles of one output and four neighbouring inputs. Error{usage} unless both are 1 to 64.
struct Tile {
  int64_t outputs = 1;
  int64_t inputs = 1;
};
Tile parse_tile(const std::string& text);

// The part that goes of each tensor, S ± `most`, the less the more outliers it has (OWL, Yin et al. 2024): outlier
// ratios D of the tensors' scores, S_i = S + shift − D_i·scale with Σ S_i·size = S·Σ size.
std::vector<double> owl_sparsities(const std::vector<double>& outliers, const std::vector<int64_t>& sizes,
                                   double sparsity, double most = 0.08);

}  // namespace pare
