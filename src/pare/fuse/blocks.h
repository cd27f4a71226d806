// Matching of channels that fall into blocks: heads of attention, groups of a convolution or of a group norm.
//
// Blocks are matched with blocks, by an assignment of the costs of matching what lies in them,
//
//   min over permutations q of blocks of Σ_t Σ_classes min over plans T of ⟨T, D[block q(t), block t]⟩,
//
// and channels with channels inside. Classes that share blocks (the queries and the values of heads) share q.
//
// Pure functions and values; any thread.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "pare/fuse/network.h"

namespace pare {

using BlockMap = std::vector<int64_t>;          // the source of each target block
using BlockMaps = std::map<int64_t, BlockMap>;  // by kind

// A class with the cost of each of its source's channels for each of its target's.
struct BlockCost {
  const ChannelClass* source = nullptr;
  const ChannelClass* target = nullptr;
  at::Tensor D;
};

// Of classes of one kind, at least one.
BlockMap match_blocks(const std::vector<BlockCost>& classes);
BlockMap identity_blocks(const std::vector<BlockCost>& classes);

// The channels in each block, as lists of indices.
std::vector<at::Tensor> channels_by_block(const ChannelClass& channels);

// The plan [source, target] of mass one made of those between matched blocks, which `solve` gives (of mass one each)
// for the channels of the source and of the target.
at::Tensor plan_in_blocks(const ChannelClass& source, const ChannelClass& target, const BlockMap& blocks,
                          const std::function<at::Tensor(const at::Tensor& from, const at::Tensor& to)>& solve);

}  // namespace pare
