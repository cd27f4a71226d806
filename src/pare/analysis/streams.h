// Residual streams that may be rotated: channels x that layers write into and that are read through norms alone, so
// that an orthogonal basis Q of them is as good as any other (Ashkboos et al. 2024, SliceGPT).
//
// What lies on the way of a stream must treat its channels alike: sums, moves of whole tokens, means over tokens. A
// norm's result may only go to linear layers, which take over its scale and shift. A LayerNormalization also subtracts
// the mean over the channels; what writes can do that instead, if every norm of the stream does, and over one token.
//
// Values; any thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "pare/analysis/channels.h"
#include "pare/graph.h"

namespace pare {

struct Stream {
  std::string name;           // of the first node that writes into it
  std::vector<int64_t> ids;   // its channels, in the order of the basis
  std::vector<size_t> norms;  // nodes that read it
  bool centred = false;       // they subtract the mean
  // Slots of the map: tensors to be rotated that write, and linear layers that read what norms give.
  std::vector<size_t> writers, readers;
  std::string reason;  // why it can't be rotated; empty: it can

  int64_t width() const { return static_cast<int64_t>(ids.size()); }
};

struct Streams {
  ChannelMap map;  // for an exchange
  std::vector<Stream> all;
};

// Every set of channels that a norm over the last axis reads.
Streams find_streams(const Graph& graph);

// Which entries along a list of ids are the channels `ids`: one list of places for each time that all of them occur.
// Empty where some occur more often than others.
std::vector<std::vector<int64_t>> places_of(const std::vector<int64_t>& listed, const std::vector<int64_t>& ids);

// A normalisation of the last axis by its mean square, after the mean is subtracted or not.
bool is_stream_norm(const Node& node);

}  // namespace pare
