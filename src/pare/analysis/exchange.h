// Which channels of a graph may be exchanged with which, without changing what it computes.
//
// An order of the channels is a map of their ids. It leaves the outputs as they are when it carries
//   - ids into ids that lie in the same slots and values, and united ids into ids united in the same way (`role`):
//     a channel that passes an activation is not one that goes around it;
//   - the blocks of a node (the groups of a convolution or of a GroupNormalization, the heads of an attention) into
//     each other as wholes, whatever lies in them.
// Blocks of several nodes that share channels are one: the queries, keys and values of a head. Blocks whose channels
// are of the same kinds may be exchanged with each other. Where two blocks of one node share channels (a shuffle
// between grouped convolutions, groups within groups) none of them moves.
//
// Values; any thread.
#pragma once

#include <map>
#include <string>

#include "pare/analysis/channels.h"

namespace pare {

// What one channel may be exchanged with: another of equal role, kind and block, or of another block with the block.
struct ExchangeRule {
  std::string role;   // the values it lies in, how its ids were united, and of which nodes' blocks it is a part
  std::string fixed;  // why it may not be moved; empty: it may
  bool kept = false;  // it may be moved, but no other number of them computes the same
  int64_t kind = -1;  // of its block; −1: it is in none
  int64_t block = 0;  // which of that kind
};

struct ExchangeMap {
  ChannelMap map;                             // for ChannelUse::exchange
  std::map<int64_t, ExchangeRule> rules;      // of every representative id
  std::map<int64_t, int64_t> rank;            // of an id among those it is united with, where there are several
  std::map<int64_t, int64_t> blocks_of_kind;  // how many

  int64_t rank_of(int64_t made) const {
    const auto found = rank.find(made);
    return found == rank.end() ? 0 : found->second;
  }
};

ExchangeMap analyze_exchange(const Graph& graph, const ShapeOptions& options = {});

// What an exchange may do with the channels of a group of analyze_channels.
struct GroupExchange {
  int64_t permutable = 0;  // channels that its layers make and that may be moved
  int64_t fixed = 0;       // and that may not
  int64_t blocks = 0;      // in which those that may be moved lie: 0 if they move freely
  std::string reason;      // why, for the first that may not
};
GroupExchange exchange_in(const ExchangeMap& exchange, const ChannelMap& removal, const ChannelGroup& group);

}  // namespace pare
