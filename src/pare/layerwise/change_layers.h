// Layers changed one after another: each is given the moments of what the network as changed so far hands it against
// what it gave in the original, or on average in several (layerwise/layer_reader.h), and a method makes its new weights
// of them. Its bias then takes over what is left of the mean.
//
// Memory is that of the values kept between runs (layerwise/side_by_side.h) and of one layer's moments.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/layerwise/layer_reader.h"
#include "pare/layerwise/moments_memory.h"
#include "pare/layerwise/side_by_side.h"
#include "pare/observer.h"

namespace pare {

struct LayerTask {
  LinearLayer layer;  // of the original
  std::string weight_name;
  at::Tensor weight;     // double [groups, outputs, channels, kernel]
  GroupMoments moments;  // by group; empty where the layer is too large for them

  int64_t groups() const { return weight.size(0); }
  at::Tensor matrix(int64_t group) const { return weight[group].flatten(1); }  // W₀ [outputs, columns]
  RowMoments all(int64_t group) const;                                         // fitted and checked
};
// The new weight, of the same shape, and perhaps a bias of its own; without a weight the layer stays as it is.
struct NewLayer {
  at::Tensor weight, bias;
  NewLayer(at::Tensor w = {}, at::Tensor b = {})  // NOLINT(google-explicit-constructor)
      : weight(std::move(w)), bias(std::move(b)) {}
};
using LayerMethod = std::function<NewLayer(const LayerTask&)>;

struct ChangeOptions {
  LayerReaderOptions read;
  SideBySideOptions side_by_side;
  int64_t memory = moments_memory();  // bytes up to which a layer has moments
  bool reads = true;                  // collect moments; else methods go without
  bool bias = true;                   // take over the mean
  // Least ρ with which layers that are not changed but read something else are solved again; 0: those stay.
  double others = 0;
  const char* progress = "solving layers";
};

struct ChangedLayers {
  Graph graph;
  std::vector<std::string> left;  // layers that had no moments, with the reason
};

// `methods` by the output of the layer's node. `compressed` has the layers of the originals, known by their outputs,
// and perhaps other nodes between them. Both have places for offsets (layerwise/offset_places.h) where the bias takes
// over the mean.
ChangedLayers change_layers(const References& originals, Graph compressed,
                            const std::map<std::string, LayerMethod>& methods, const Samples& samples,
                            const ChangeOptions& options, Observer& observer);

}  // namespace pare
