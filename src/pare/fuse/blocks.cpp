#include "pare/fuse/blocks.h"

#include <ATen/ATen.h>

#include "pare/transport/assignment.h"
#include "pare/transport/exact.h"

namespace pare {

namespace {

// Σ over the target's channels of what is nearest to them, one to one where there are as many.
double inner_cost(const at::Tensor& D) {
  if (D.size(0) == D.size(1)) return solve_assignment(D).cost;
  return solve_transport(D).cost * static_cast<double>(D.size(1));
}

at::Tensor between(const at::Tensor& D, const at::Tensor& from, const at::Tensor& to) {
  return D.index_select(0, from).index_select(1, to).contiguous();
}

}  // namespace

std::vector<at::Tensor> channels_by_block(const ChannelClass& own) {
  std::vector<std::vector<int64_t>> lists(static_cast<size_t>(own.blocks));
  for (size_t i = 0; i < own.block.size(); ++i)
    lists[static_cast<size_t>(own.block[i])].push_back(static_cast<int64_t>(i));
  std::vector<at::Tensor> result;
  for (const auto& list : lists) result.push_back(at::tensor(list, at::kLong));
  return result;
}

BlockMap identity_blocks(const std::vector<BlockCost>& classes) {
  BlockMap result(static_cast<size_t>(classes.front().target->blocks));
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<int64_t>(i);
  return result;
}

BlockMap match_blocks(const std::vector<BlockCost>& classes) {
  const int64_t blocks = classes.front().target->blocks;
  if (blocks == 1) return {0};
  at::Tensor total = at::zeros({blocks, blocks}, at::kDouble);
  for (const BlockCost& own : classes) {
    const auto from = channels_by_block(*own.source);
    const auto to = channels_by_block(*own.target);
    for (int64_t s = 0; s < blocks; ++s)
      for (int64_t t = 0; t < blocks; ++t)
        total.data_ptr<double>()[s * blocks + t] +=
            inner_cost(between(own.D, from[static_cast<size_t>(s)], to[static_cast<size_t>(t)]));
  }
  const Assignment best = solve_assignment(total);
  BlockMap result(static_cast<size_t>(blocks));
  for (size_t s = 0; s < result.size(); ++s) result[static_cast<size_t>(best.column[s])] = static_cast<int64_t>(s);
  return result;
}

at::Tensor plan_in_blocks(const ChannelClass& source, const ChannelClass& target, const BlockMap& blocks,
                          const std::function<at::Tensor(const at::Tensor& from, const at::Tensor& to)>& solve) {
  const auto from = channels_by_block(source);
  const auto to = channels_by_block(target);
  at::Tensor plan = at::zeros({source.size, target.size}, at::kDouble);
  for (size_t t = 0; t < to.size(); ++t) {
    const at::Tensor& rows = from[static_cast<size_t>(blocks[t])];
    const double share = static_cast<double>(to[t].numel()) / static_cast<double>(target.size);
    plan.index_put_({rows.unsqueeze(1), to[t].unsqueeze(0)}, solve(rows, to[t]) * share);
  }
  return plan;
}

}  // namespace pare
