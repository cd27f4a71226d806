#include "pare/prune/criteria.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <set>
#include <string_view>
#include <utility>

#include "pare/analysis/scores.h"
#include "pare/calibrate/batches.h"
#include "pare/error.h"
#include "pare/prune/filters.h"
#include "pare/run.h"

namespace pare {

namespace {

constexpr std::pair<std::string_view, Criterion> kCriteria[] = {
    {"l1", Criterion::l1}, {"l2", Criterion::l2},         {"gm", Criterion::gm},
    {"bn", Criterion::bn}, {"taylor", Criterion::taylor}, {"random", Criterion::random},
};

}  // namespace

Criterion criterion_of(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& [known, criterion] : kCriteria) {
    if (name == known) return criterion;
    names.push_back(known);
  }
  throw Error(ErrorKind::usage, OptionName{"criterion"}, "'{}' is none of {}", name, fmt::join(names, ", "));
}

namespace {

std::set<std::string> running_statistics(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& node : graph.nodes)
    if (node.op == "BatchNormalization" && node.domain.empty())
      for (size_t i = 3; i < node.inputs.size(); ++i) names.insert(node.inputs[i]);
  return names;
}

TensorMap leaves_of(const Graph& graph) {
  const auto statistics = running_statistics(graph);
  TensorMap leaves;
  for (const auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point() && tensor.dim() > 0 && !statistics.contains(name))
      leaves[name] = tensor.detach().clone().requires_grad_();
  return leaves;
}

at::Tensor mean_loss(const at::Tensor& scores, const at::Tensor& labels) {
  const at::Tensor rows = scores.dim() == 2 ? scores : score_rows(scores);
  if (labels.dim() == 2) return at::binary_cross_entropy_with_logits(rows, labels.to(rows.scalar_type()));
  return at::nll_loss(at::log_softmax(rows, 1), labels);
}

}  // namespace

Gradients loss_gradients(const Graph& graph, const at::Tensor& images, const at::Tensor& labels, int64_t at_once) {
  const at::AutoGradMode with_gradients(true);
  const Program program(scores_only(graph));
  TensorMap leaves = leaves_of(program.graph());
  const auto count = static_cast<double>(images.size(0));
  for (const auto& part : in_batches({images, labels}, at_once > 0 ? at_once : images_at_once(graph))) {
    const at::Tensor scores = program.run({&part[0], 1}, {.parameters = &leaves}).outputs.at(0);
    const at::Tensor loss = mean_loss(scores, part[1]) * (static_cast<double>(part[0].size(0)) / count);
    loss.backward();
  }
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

// Σ_m ‖f_n − f_m‖ by ‖a‖² + ‖b‖² − 2ab, a matrix product, of filters less their mean: near copies keep their distance.
at::Tensor summed_distances(const at::Tensor& filters) {
  constexpr int64_t kRows = 1024;  // at once
  const at::Tensor f = filters - filters.mean(0);
  const at::Tensor squares = f.square().sum(1);
  std::vector<at::Tensor> sums;
  for (int64_t begin = 0; begin < f.size(0); begin += kRows) {
    const at::Tensor rows = f.slice(0, begin, begin + kRows);
    at::Tensor distances = at::addmm(squares.slice(0, begin, begin + kRows).unsqueeze(1) + squares, rows, f.t(), 1, -2);
    distances.diagonal(begin).zero_();
    sums.push_back(distances.clamp_min_(0).sqrt_().sum(1));
  }
  return at::cat(sums);
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
    case Criterion::gm: scores = summed_distances(group_filters(graph, map, group).vectors()); break;
    case Criterion::bn: scores = batch_norm_scales(graph, map, group); break;
    case Criterion::taylor:
      if (options.gradients == nullptr) throw Error(ErrorKind::usage, OptionName{"criterion"}, "taylor needs `data`");
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
