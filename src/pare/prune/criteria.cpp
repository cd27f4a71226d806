#include "pare/prune/criteria.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <set>
#include <string_view>

#include "pare/analysis/scores.h"
#include "pare/calibrate/batches.h"
#include "pare/error.h"
#include "pare/ops/traits.h"
#include "pare/prune/filters.h"
#include "pare/run.h"

namespace pare {

namespace {

std::set<std::string> running_statistics(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (traits_of(node).statistics.contains(i)) names.insert(node.inputs[i]);
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
    if (!is_batch_norm(graph.nodes[slot.node]) || slot.input != 1) continue;
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

at::Tensor l1(const CriterionInput& in) { return vectors_of(in.graph, in.map, in.group).abs().sum(1).to(at::kDouble); }

at::Tensor l2(const CriterionInput& in) { return vectors_of(in.graph, in.map, in.group).norm(2, {1}).to(at::kDouble); }

at::Tensor geometric_median(const CriterionInput& in) {
  return summed_distances(group_filters(in.graph, in.map, in.group).vectors());
}

at::Tensor batch_norm(const CriterionInput& in) { return batch_norm_scales(in.graph, in.map, in.group); }

at::Tensor taylor_expansion(const CriterionInput& in) {
  if (in.gradients == nullptr) throw Error(ErrorKind::usage, OptionName{"criterion"}, "taylor needs `data`");
  return taylor(in.graph, in.map, in.group, *in.gradients);
}

at::Tensor random_scores(const CriterionInput& in) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(in.seed + static_cast<uint64_t>(in.group.channels[0]));
  return at::rand({static_cast<int64_t>(in.group.channels.size())}, generator, at::TensorOptions(at::kDouble));
}

}  // namespace

const std::vector<Criterion>& criteria() {
  static const std::vector<Criterion> list = {
      {.name = "obs", .basis = CriterionBasis::elimination},
      {.name = "l1", .scores = l1},
      {.name = "l2", .scores = l2},
      {.name = "gm", .scores = geometric_median},
      {.name = "bn", .scores = batch_norm},
      {.name = "taylor", .basis = CriterionBasis::gradients, .scores = taylor_expansion},
      {.name = "random", .scores = random_scores},
      {.name = "subset", .basis = CriterionBasis::reader_moments, .comparable = true},
  };
  return list;
}

const Criterion& find_criterion(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& criterion : criteria()) {
    if (criterion.name == name) return criterion;
    names.push_back(criterion.name);
  }
  throw Error(ErrorKind::usage, OptionName{"criterion"}, "'{}' is none of {}", name, fmt::join(names, ", "));
}

at::Tensor importance(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                      const CriterionOptions& options, std::string& reason) {
  const Criterion& criterion = find_criterion(options.criterion);
  if (criterion.scores == nullptr)
    throw Error(ErrorKind::usage, OptionName{"criterion"}, "{} ranks no group by itself", criterion.name);
  const at::Tensor scores = criterion.scores({graph, map, group, options.seed, options.gradients});
  if (!scores.defined()) {
    reason = "no batch norm scales its channels";
    return {};
  }
  return at::nan_to_num(scores, 0, 0, 0);
}

}  // namespace pare
