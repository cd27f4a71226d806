// What a linear layer reads in a network as compressed so far, and what it should give: as moments, which are all that
// a change of the layer needs.
//
// At a layer with rows h in the compressed network the target t is what the layer gives in the original, or on average
// in several of them; where an addition with a shortcut z follows (a batch norm between them or not), what the shortcut
// lost is asked of the layer too: t + (z − z')·σ/γ. A layer that reads the average over all places of a value is looked
// at at the places themselves, of which there are many more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pare/analysis/layers.h"
#include "pare/analysis/shapes.h"
#include "pare/graph.h"
#include "pare/layerwise/side_by_side.h"
#include "pare/layerwise/solve_layer.h"

namespace pare {

struct LayerReaderOptions {
  int64_t places = 196;            // looked at in an image, at most
  double rows_per_unknown = 1000;  // and in all
  int64_t checked = 5;             // one in so many pairs of samples is kept apart; 0: none
  int64_t most_checked = 4608;     // unknowns of an output up to which samples are kept apart
  bool shortcut = true;            // ask what a shortcut lost of the layer beside it
  bool before_pool = true;         // look at averages at the places that they are taken over
  uint64_t seed = 0;               // of the places
};

using GroupMoments = std::vector<SplitMoments>;  // of each group of a layer

// The layer's bias, double [outputs]; zeros where it has none.
at::Tensor layer_bias(const Graph& graph, const LinearLayer& layer);

class LayerReader {
 public:
  // References stay in use. `shapes` are of the first original, `samples` is how many there are on all ranks.
  LayerReader(References originals, const Graph& compressed, const Shapes& shapes, double samples,
              const LayerReaderOptions& options);

  // Before the first run: what averages are taken over stays until all layers that read them were looked at.
  void prepare(SideBySide& graphs) const;

  // `layer` is of the first original. Every rank calls it, and has the moments of all.
  GroupMoments moments(const LinearLayer& layer, SideBySide& both, ProcessGroup& ranks) const;
  // Of several layers in one run that ends before the first of them: none reads what depends on another
  // (read_together).
  std::vector<GroupMoments> moments(const std::vector<LinearLayer>& layers, SideBySide& both,
                                    ProcessGroup& ranks) const;
  // Does an addition with a shortcut follow, of which something may be asked?
  bool beside_shortcut(const LinearLayer& layer) const { return addition_after(layer).has_value(); }
  // Is what all of them read there before any of them runs?
  bool read_together(const std::vector<LinearLayer>& layers) const;

 private:
  struct Rows {
    at::Tensor x, t;  // [groups, n, unknowns], [groups, n, outputs]
  };
  // Of the samples that count, those that are fitted first.
  struct Order {
    std::vector<int64_t> samples;
    int64_t fitted = 0;  // the others are checked on
  };
  Order order(const LinearLayer& layer, const BothValues& values) const;
  Rows rows(const LinearLayer& layer, const BothValues& values, const Order& order) const;
  Rows rows_before_pool(const LinearLayer& layer, size_t pool, const BothValues& values, const Order& order) const;
  at::Tensor some_places(const LinearLayer& layer, int64_t all, int64_t first, int64_t images) const;
  // An addition that alone reads what the layer gives, perhaps after a batch norm.
  struct Addition {
    size_t node = 0;
    std::optional<size_t> norm;
    std::string shortcut;  // the other value that it reads
  };
  std::optional<Addition> addition_after(const LinearLayer& layer) const;
  at::Tensor lost_beside(const LinearLayer& layer, const BothValues& values, const at::Tensor& y) const;
  std::optional<size_t> averaging_node(const LinearLayer& layer) const;
  size_t first_node(const std::vector<LinearLayer>& layers) const;
  struct SplitRows {
    RowPart fitted, checked;
  };
  std::vector<SplitRows> split(const LinearLayer& layer, const BothValues& values) const;  // by group
  size_t compressed_node(const Node& original) const { return nodes_.at(original.outputs[0]); }
  // The same layer in another of the originals.
  LinearLayer layer_in(size_t original, const LinearLayer& layer) const;

  References originals_;
  const Graph& original_;  // the first
  const Graph& compressed_;
  const Shapes& shapes_;
  Usage usage_;
  double samples_;
  LayerReaderOptions options_;
  std::map<std::string, size_t> nodes_;                   // of the compressed graph, by their outputs
  std::vector<std::map<std::string, size_t>> own_nodes_;  // of each original
};

}  // namespace pare
