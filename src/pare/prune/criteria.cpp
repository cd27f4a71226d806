#include "pare/prune/criteria.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "pare/analysis/scores.h"
#include "pare/core/error.h"
#include "pare/exec/program.h"
#include "pare/prune/filters.h"

namespace pare {

Criterion criterion_of(const std::string& name) {
  if (name == "l1") return Criterion::l1;
  if (name == "l2") return Criterion::l2;
  if (name == "gm") return Criterion::gm;
  if (name == "bn") return Criterion::bn;
  if (name == "taylor") return Criterion::taylor;
  if (name == "random") return Criterion::random;
  throw Error(ErrorKind::usage, "--criterion", "'{}' is not l1, l2, gm, bn, taylor or random", name);
}

Gradients loss_gradients(const Graph& graph, const at::Tensor& images, const at::Tensor& labels) {
  const at::AutoGradMode with_gradients(true);
  TensorMap leaves;
  for (const auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point() && tensor.dim() > 0) leaves[name] = tensor.detach().clone().requires_grad_();
  const Program program(graph);
  at::Tensor logits = program.run({&images, 1}, {.parameters = &leaves}).outputs.at(0);
  if (logits.dim() > 2) logits = score_rows(logits);
  at::nll_loss(at::log_softmax(logits, 1), labels).backward();
  Gradients gradients;
  for (auto& [name, leaf] : leaves)
    if (leaf.grad().defined()) gradients[name] = leaf.grad();
  return gradients;
}

namespace {

// In the precision that the weights carry.
at::Tensor vectors_of(const Graph& graph, const ChannelMap& map, const ChannelGroup& group) {
  auto type = at::kFloat;
  for (const size_t s : group.producers)
    if (graph.tensor(map.slots[s].tensor).scalar_type() == at::kDouble) type = at::kDouble;
  return group_filters(graph, map, group, type).vectors().to(type);
}

// Which batch norms scale the channels: input 1 of a BatchNormalization, wherever the channels pass one.
at::Tensor batch_norm_scales(const Graph& graph, const ChannelMap& map, const ChannelGroup& group) {
  at::Tensor sum;
  for (const size_t s : group.passes) {
    const Slot& slot = map.slots[s];
    if (graph.nodes[slot.node].op != "BatchNormalization" || slot.input != 1) continue;
    const at::Tensor scales = rows_by_channel(graph, group, slot).abs().sum(1);
    sum = sum.defined() ? sum + scales : scales;
  }
  return sum;
}

at::Tensor taylor(const Graph& graph, const ChannelMap& map, const ChannelGroup& group, const Gradients& gradients) {
  at::Tensor sum = at::zeros({static_cast<int64_t>(group.channels.size())}, at::kDouble);
  for (const auto* slots : {&group.producers, &group.passes})
    for (const size_t s : *slots) {
      const Slot& slot = map.slots[s];
      const auto gradient = gradients.find(slot.tensor);
      if (gradient == gradients.end()) continue;
      Graph product;
      product.tensors[slot.tensor] = gradient->second.to(at::kDouble) * graph.tensor(slot.tensor).to(at::kDouble);
      sum = sum + rows_by_channel(product, group, slot).sum(1);
    }
  return sum.abs();
}

}  // namespace

at::Tensor importance(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                      const CriterionOptions& options, std::string& reason) {
  const auto channels = static_cast<int64_t>(group.channels.size());
  at::Tensor scores;
  switch (options.criterion) {
    case Criterion::l1: scores = vectors_of(graph, map, group).abs().sum(1).to(at::kDouble); break;
    case Criterion::l2: scores = vectors_of(graph, map, group).norm(2, {1}).to(at::kDouble); break;
    case Criterion::gm: {
      const at::Tensor filters = group_filters(graph, map, group).vectors();
      scores = at::cdist(filters, filters, 2, /*compute_mode=*/2).sum(1);
      break;
    }
    case Criterion::bn: scores = batch_norm_scales(graph, map, group); break;
    case Criterion::taylor:
      if (options.gradients == nullptr) throw Error(ErrorKind::usage, "--criterion", "taylor needs --data");
      scores = taylor(graph, map, group, *options.gradients);
      break;
    case Criterion::random: {
      auto generator =
          at::make_generator<at::CPUGeneratorImpl>(options.seed + static_cast<uint64_t>(group.channels[0]));
      scores = at::rand({channels}, generator, at::TensorOptions(at::kDouble));
      break;
    }
  }
  if (!scores.defined()) {
    reason = "no batch norm scales its channels";
    return {};
  }
  return at::nan_to_num(scores, 0, 0, 0);
}

}  // namespace pare
