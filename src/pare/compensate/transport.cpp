#include "pare/compensate/transport.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "pare/fuse/linear_layers.h"
#include "pare/ops/traits.h"
#include "pare/transport/exact.h"
#include "pare/transport/ground_cost.h"

namespace pare {

namespace {

struct Moments {
  at::Tensor mean, variance;
};

// Mean and variance of max(0, y) with y normal as a batch norm leaves it: mean β, deviation |γ|.
Moments relu_moments(const at::Tensor& gamma, const at::Tensor& beta) {
  const at::Tensor sigma = gamma.to(at::kDouble).abs().clamp_min(1e-12);
  const at::Tensor mu = beta.to(at::kDouble);
  const at::Tensor ratio = mu / sigma;
  const at::Tensor density = (-ratio.square() / 2).exp() / std::sqrt(2 * M_PI);
  const at::Tensor below = (1 + at::erf(ratio / std::sqrt(2.0))) / 2;
  const at::Tensor mean = mu * below + sigma * density;
  const at::Tensor second = (mu.square() + sigma.square()) * below + mu * sigma * density;
  return {mean, (second - mean.square()).clamp_min(0)};
}

// What the layer that makes `value` gives on inputs that come from a batch norm through a ReLU: mean and variance of
// each output, the inputs taken as independent. Nothing where they come from elsewhere.
std::optional<Moments> output_moments(const Graph& graph, const std::string& value) {
  const Usage usage = usage_of(graph);
  const auto before = [&](const std::string& name, const char* op) -> const Node* {
    const auto found = usage.producer.find(name);
    return found == usage.producer.end() || graph.nodes[found->second].op != op ? nullptr : &graph.nodes[found->second];
  };
  for (const LinearLayer& layer : linear_layers(graph)) {
    const Node& node = graph.nodes[layer.node];
    if (node.outputs[0] != value) continue;
    const Node* relu = before(node.inputs[0], "Relu");
    const Node* norm = relu == nullptr ? nullptr : before(relu->inputs[0], "BatchNormalization");
    if (norm == nullptr) return {};
    const Moments x = relu_moments(graph.tensor(norm->inputs[1]), graph.tensor(norm->inputs[2]));
    const at::Tensor weight = weight_matrix(graph, layer);
    const at::Tensor W = weight.reshape({weight.size(0), x.mean.size(0), -1});
    return Moments{at::mv(W.sum(2), x.mean), at::mv(W.square().sum(2), x.variance)};
  }
  return {};
}

// Entries of a batch norm's parameters that stay.
at::Tensor kept_entries(const ChannelMap& map, size_t node, const std::set<ChannelId>& removed, int64_t count) {
  std::vector<int64_t> kept;
  for (const Slot& slot : map.slots) {
    if (slot.node != node || slot.input != 3) continue;
    for (size_t i = 0; i < slot.ids.size(); ++i)
      if (!removed.contains(ChannelId{slot.ids[i]})) kept.push_back(static_cast<int64_t>(i));
    return at::tensor(kept, at::kLong);
  }
  return at::arange(count);
}

}  // namespace

Merge transport(const MergeProblem& problem) {
  Merge merge{.Z = identity_merge(problem)};
  const GroupFilters filters = filters_of(problem);
  const at::Tensor rows =
      (filters.norm ? filters.rows() * (filters.norm->gamma / filters.norm->sigma).unsqueeze(1) : filters.folded())
          .to(at::kDouble);
  const at::Tensor R = at::tensor(problem.removed, at::kLong);
  const at::Tensor kept = rows.index_select(0, at::tensor(problem.kept, at::kLong));
  const at::Tensor T = solve_transport(ground_cost(unit_rows(rows), unit_rows(kept))).plan;
  const at::Tensor norm = kept.square().sum(1);
  const at::Tensor projection =
      at::mm(rows, kept.t()).clamp_min(0) / at::where(norm > 0, norm, at::ones_like(norm)).unsqueeze(0);
  const at::Tensor Z = T * static_cast<double>(problem.size()) * projection;
  merge.Z.index_copy_(0, R, Z.index_select(0, R));
  merge.merged = merge.Z.index_select(0, R).ne(0).any(1).sum().item<int64_t>();
  if (merge.merged == 0) merge.reason = "no kept filter points the way of a removed one";
  return merge;
}

Graph move_statistics(const Graph& dense, const Graph& pruned, const ChannelMap& map,
                      const std::set<ChannelId>& removed) {
  Graph result = pruned;
  std::map<std::string, size_t> norms;  // of the dense graph, by output
  for (size_t n = 0; n < dense.nodes.size(); ++n)
    if (is_batch_norm(dense.nodes[n])) norms[dense.nodes[n].outputs[0]] = n;
  const Usage usage = usage_of(pruned);
  for (size_t n = 0; n < pruned.nodes.size(); ++n) {
    const auto found = norms.find(pruned.nodes[n].outputs[0]);
    if (found == norms.end() || !is_batch_norm(pruned.nodes[n])) continue;
    const std::string& value = pruned.nodes[n].inputs[0];
    if (usage.consumers.at(value).size() != 1) continue;
    const auto before = output_moments(dense, dense.nodes[found->second].inputs[0]);
    const auto after = output_moments(pruned, value);
    if (!before || !after) continue;
    const at::Tensor kept = kept_entries(map, found->second, removed, before->mean.numel());
    const at::Tensor mean = before->mean.index_select(0, kept), variance = before->variance.index_select(0, kept);
    const auto number = [&](size_t i) { return pruned.tensor(pruned.nodes[n].inputs[i]).to(at::kDouble); };
    const auto replace = [&](size_t i, const at::Tensor& statistic) {
      replace_constant(result, n, i, statistic.to(pruned.tensor(pruned.nodes[n].inputs[i]).scalar_type()));
    };
    replace(3, number(3) + after->mean - mean);
    replace(4, at::where(variance > 0, number(4) * after->variance / variance, number(4)));
  }
  return result;
}

}  // namespace pare
