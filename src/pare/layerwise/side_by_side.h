// The original and the compressed graph run side by side over the same samples, in pieces and in bounded memory. There
// may be several originals (layerwise/references.h), or none, where only the compressed graph counts.
//
// A method asks for what the graphs compute before one node after another, and changes the compressed graph from that
// node on. What lies before a node is then settled: the values that later nodes still read are kept for every piece at
// the latest point where they fit into the memory allowed, and the next run begins there instead of at the inputs.
// Values that are the same in the compressed graph and in the first original are computed and kept once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pare/data/in_order.h"
#include "pare/graph.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/references.h"
#include "pare/samples/samples.h"

namespace pare {

struct SideBySideOptions {
  int64_t piece = 0;                  // samples run at once by a thread; 0: as many as suit their size
  int64_t memory = int64_t{3} << 27;  // bytes that may be kept between runs
};

// What the graphs gave for one piece, by name of value; the same tensor where nothing changed.
struct BothValues {
  int64_t first = 0;              // the number of the piece's first sample
  int64_t all = 0;                // samples that were run
  int64_t count = 0;              // of which so many count; the others only fill a batch
  std::vector<TensorMap> before;  // in each original
  TensorMap after;                // in the compressed graph
};

class SideBySide {
 public:
  // `compressed` has the nodes of the originals, known by their outputs, and perhaps some between them. References stay
  // in use.
  SideBySide(References originals, const Graph& compressed, const Samples& samples, SideBySideOptions options = {});

  // For each piece, from several threads: `work` gets the values that node `node` of the compressed graph and the nodes
  // after it read, as far as they are made before it. `collect` gets what it returns, piece by piece in their order.
  template <typename Result>
  void run_to(size_t node, const std::function<Result(const BothValues&)>& work,
              const std::function<void(Result)>& collect) {
    const size_t pieces = piece_count();
    if (pieces == 0) return;
    Pass pass = first_piece(node);  // finds out how large the values are
    collect(work(pass.values));
    in_order<Result>(
        pieces - 1, [&](size_t i) { return work(next_piece(i + 1, node, pass)); }, collect);
    finish(std::move(pass));
  }

  // Can the value differ between the first original and the compressed graph?
  bool changed(const std::string& value) const { return changed_.contains(value); }
  // The value, of all graphs, is wanted until that node runs, whether nodes read it so long or not.
  void keep_until(const std::string& value, size_t node);
  // The compressed graph has other weights in this node now.
  void note_change(size_t node);

 private:
  // One run over all pieces.
  struct Pass {
    BothValues values;             // of the first piece
    size_t end = 0;                // the latest node at which the values of all pieces can be kept
    std::vector<BothValues> kept;  // the values there, by piece
  };
  size_t piece_count() const { return pieces_.count(); }
  Pass first_piece(size_t node) const;
  BothValues next_piece(size_t piece, size_t node, Pass& pass);
  void finish(Pass pass);
  BothValues begin_piece(size_t piece) const;
  void step(size_t node, BothValues& values) const;
  void forget(size_t node, BothValues& values) const;
  bool node_changed(const Node& node) const;
  std::set<std::string> read_by(const Node& node) const;
  // The node of an original that makes the same value, or nullptr.
  const Node* twin(const Node& node, size_t original) const;

  References originals_;
  const Graph& compressed_;
  Pieces pieces_;
  int64_t memory_;
  std::vector<std::map<std::string, size_t>> twins_;  // nodes of each original by their first output
  std::map<std::string, size_t> last_reader_;         // of each value, by node of the compressed graph
  std::vector<std::pair<std::string, size_t>> kept_until_;
  std::set<std::string> changed_;
  size_t start_ = 0;              // nodes before it are settled
  std::vector<BothValues> kept_;  // what they gave, by piece; empty while start_ is 0
};

// The outputs of one node from the values it reads; constants are the graph's.
std::vector<at::Tensor> evaluate_node(const Graph& graph, const Node& node, const TensorMap& values);

}  // namespace pare
