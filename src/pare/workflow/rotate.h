// All residual streams of a network in their principal components: norms that were written out are made one node, those
// that begin a stream are parted from it, and each stream is rotated by the basis that samples give.
#pragma once

#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples/samples.h"

namespace pare {

struct RotatedStream {
  std::string name;
  int64_t width = 0;
  int64_t most = 0;    // how many components hold 0.99 of what its norms see
  std::string reason;  // why it was left alone; empty: it was rotated
};

struct RotatedStreams {
  Graph graph;  // computes what the other computed, to rounding; the same where no stream could be rotated
  std::vector<RotatedStream> streams;
};

RotatedStreams rotate_streams(const Graph& graph, const Samples& samples, Observer& observer = unobserved());

// What a user should know of them.
std::vector<std::string> notes_of(const std::vector<RotatedStream>& streams);

}  // namespace pare
