// A network as fusion sees it: a graph whose channels fall into classes within which they may be exchanged.
//
// Channels of one group (analysis/channels.h) that lie in the same slots are a class: the neurons of a layer, the
// channels of a residual stream, those that a padded shortcut adds to it. One transport map per class, applied to every
// slot it occurs in, carries biases, batch norms, residual streams, concatenations and depthwise layers along. Classes
// that may not be moved (the outputs) are fixed: their map is the identity.
//
// For an exchange (analysis/exchange.h) a class may fall into blocks (heads, groups of a convolution), which move as
// wholes; several classes may share them. For a removal there are no blocks: the groups of a convolution are tied
// together, and what may not be removed is fixed.
//
// Values; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pare/analysis/exchange.h"
#include "pare/graph.h"

namespace pare {

struct ChannelClass {
  std::string name;  // of the layer that makes it first
  std::string key;   // the slots it lies in: equal for corresponding classes of two networks
  size_t node = 0;   // that layer, by index
  int64_t size = 0;
  bool fixed = false;
  bool kept = false;           // it may be moved, but a network with another number of them computes something else
  std::string reason;          // why it is fixed or kept
  int64_t kind = -1;           // of the blocks it falls into; −1: none
  int64_t blocks = 0;          // how many of that kind there are
  std::vector<int64_t> block;  // of each channel, where there are any
};

// One entry along the axis of a slot.
struct Place {
  int64_t channel_class = -1;  // index into Network::classes; −1: not a channel
  int64_t index = 0;           // of the channel in its class
  int64_t occurrence =
      0;  // which of the entries of that channel along this axis, counted from 0 (pixels of a flattened map)
  bool operator==(const Place&) const = default;
};

struct PlacedSlot {
  int64_t axis = 0;
  SlotRole role = SlotRole::pass;
  std::vector<Place> places;
  int64_t parts = 1;  // more: as many equal parts of axis 0 have lists of their own (ops/labels.h)
};

// A parameter as one node reads it, with the axes along which it is indexed by channels.
struct ParameterUse {
  size_t node = 0;
  size_t input = 0;
  std::vector<PlacedSlot> slots;
};

// A value in which a class can be seen before its nonlinearity, and along which axis.
struct ClassView {
  std::string value;
  int64_t axis = 1;
  std::vector<int64_t> entries;  // along the axis, by (index, occurrence) of the class
};

struct Network {
  Graph graph;                        // every parameter vector is read by one node only
  std::vector<ChannelClass> classes;  // in the order of their first layers
  std::vector<ParameterUse> uses;
  ChannelMap map;
  std::map<int64_t, Place> places;  // of every channel id (its occurrence is 0)

  const at::Tensor& parameter(const ParameterUse& use) const {
    return graph.tensor(graph.nodes[use.node].inputs[use.input]);
  }
};

// Error{usage} when a parameter is not finite, with its node.
Network analyze_network(const Graph& graph, ChannelUse use = ChannelUse::removal);

// Where the class is a layer's pre-activation: what a nonlinearity reads, or what its layers make where none does.
std::vector<ClassView> views_of(const Network& network, size_t channel_class);

// The entries of a class along the axis of a slot, by (index, occurrence).
std::vector<int64_t> entries_of(const PlacedSlot& slot, size_t channel_class);

// Throws unless `other` has the same nodes on the same values as `reference`, the same inputs, and parameters that
// differ at most in the sizes of classes that are neither fixed nor kept: Error{shape} names the first node that
// differs. The classes of the result stand in the order of the reference's; one that the other lacks has size 0.
Network matched_to(const Network& reference, Network other);

}  // namespace pare
