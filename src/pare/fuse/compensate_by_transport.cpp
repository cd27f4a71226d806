#include "pare/fuse/compensate_by_transport.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>

#include "pare/fuse/average.h"
#include "pare/fuse/linear_layers.h"
#include "pare/fuse/points.h"
#include "pare/transport/exact.h"
#include "pare/transport/ground_cost.h"

namespace pare {

namespace {

// γ/σ of the batch norm that a class goes through first; ones where it goes through none.
at::Tensor norm_scale(const Network& network, size_t channel_class) {
  for (const ParameterUse& use : network.uses) {
    const Node& node = network.graph.nodes[use.node];
    if (node.op != "BatchNormalization" || use.input != 1) continue;
    const auto entries = entries_of(use.slots.front(), channel_class);
    if (static_cast<int64_t>(entries.size()) != network.classes[channel_class].size) continue;
    const at::Tensor variance = network.graph.tensor(node.inputs[4]).to(at::kDouble) + node.real("epsilon", 1e-5);
    const at::Tensor scale = network.parameter(use).to(at::kDouble) / variance.sqrt();
    return scale.index_select(0, at::tensor(entries, at::kLong)).unsqueeze(1);
  }
  return at::ones({network.classes[channel_class].size, 1}, at::kDouble);
}

// Mean and variance of max(0, y) with y normal as a batch norm leaves it: mean β, deviation |γ|.
std::pair<at::Tensor, at::Tensor> relu_moments(const at::Tensor& gamma, const at::Tensor& beta) {
  const at::Tensor sigma = gamma.to(at::kDouble).abs().clamp_min(1e-12);
  const at::Tensor mu = beta.to(at::kDouble);
  const at::Tensor ratio = mu / sigma;
  const at::Tensor density = (-ratio.square() / 2).exp() / std::sqrt(2 * M_PI);
  const at::Tensor below = (1 + at::erf(ratio / std::sqrt(2.0))) / 2;
  const at::Tensor mean = mu * below + sigma * density;
  const at::Tensor second = (mu.square() + sigma.square()) * below + mu * sigma * density;
  return {mean, (second - mean.square()).clamp_min(0)};
}

// What a layer gives on inputs that come from a batch norm through a ReLU: mean and variance of each output, the inputs
// taken as independent. Nothing where they come from elsewhere.
std::optional<std::pair<at::Tensor, at::Tensor>> output_moments(const Graph& graph, const Usage& usage,
                                                                const LinearLayer& layer) {
  const auto relu = usage.producer.find(layer.input);
  if (relu == usage.producer.end() || graph.nodes[relu->second].op != "Relu") return std::nullopt;
  const auto norm = usage.producer.find(graph.nodes[relu->second].inputs[0]);
  if (norm == usage.producer.end() || graph.nodes[norm->second].op != "BatchNormalization") return std::nullopt;
  const auto& inputs = graph.nodes[norm->second].inputs;
  const auto [mean, variance] = relu_moments(graph.tensor(inputs[1]), graph.tensor(inputs[2]));
  const at::Tensor weight = weight_matrix(graph, layer).to(at::kDouble);
  const at::Tensor W = weight.reshape({weight.size(0), mean.size(0), -1});
  return std::pair{at::mv(W.sum(2), mean), at::mv(W.square().sum(2), variance)};
}

// The batch norm after a layer that lost inputs expects statistics it no longer gets: they move by what the layer's
// outputs move, as far as that follows from the batch norms before it.
void move_statistics(const Network& dense, const Network& pruned, const ClassMaps& maps, Graph& carried_graph) {
  const Usage usage_a = usage_of(dense.graph);
  const Usage usage_b = usage_of(carried_graph);
  for (const LinearLayer& layer : linear_layers(carried_graph)) {
    const auto readers = usage_b.consumers.find(layer.output);
    if (readers == usage_b.consumers.end() || readers->second.size() != 1) continue;
    const Node& norm = carried_graph.nodes[readers->second.front()];
    if (norm.op != "BatchNormalization") continue;
    LinearLayer whole = layer;
    whole.input = dense.graph.nodes[layer.node].inputs[0];
    whole.weight = dense.graph.nodes[layer.node].inputs[1];
    const auto before = output_moments(dense.graph, usage_a, whole);
    const auto after = output_moments(carried_graph, usage_b, layer);
    if (!before || !after) continue;
    for (size_t u = 0; u < pruned.uses.size(); ++u) {
      const ParameterUse& use = pruned.uses[u];
      if (use.node != readers->second.front() || (use.input != 3 && use.input != 4)) continue;
      at::Tensor& statistic = carried_graph.tensors[norm.inputs[use.input]];
      const at::Tensor old = carried(use.input == 3 ? before->first : before->second, dense.uses[u], use, maps);
      const at::Tensor now = statistic.to(at::kDouble);
      const at::Tensor moved =
          use.input == 3 ? now + after->first - old : at::where(old > 0, now * after->second / old, now);
      statistic = moved.to(statistic.scalar_type());
    }
  }
}

}  // namespace

Graph compensate_by_transport(const Graph& dense, const Graph& pruned, double lambda) {
  const at::NoGradGuard no_grad;
  const Network B = analyze_network(pruned);
  const Network A = matched_to(B, analyze_network(dense));
  ClassMaps kept(A.classes.size());  // which dense channels the pruned network has
  ClassMaps maps(A.classes.size());
  for (size_t l = 0; l < A.classes.size(); ++l) {
    const int64_t n_A = A.classes[l].size;
    const int64_t n_B = l < B.classes.size() ? B.classes[l].size : 0;
    if (A.classes[l].fixed || n_A == 0 || n_B == 0) {
      kept[l] = A.classes[l].fixed ? identity_map(n_A)
                                   : make_map(at::zeros({n_A, n_B}, at::kDouble), ColumnScaling::published);
      maps[l] = kept[l];
      continue;
    }
    const PointPair points = weight_points(A, B, l, kept, PointSides::incoming);
    const at::Tensor D = ground_cost(points.source, points.target);
    const at::Tensor own = D.argmin(0).contiguous();
    kept[l] = matching_map({own.data_ptr<int64_t>(), own.data_ptr<int64_t>() + n_B}, n_A);
    maps[l] = kept[l];
    if (n_A == n_B) continue;

    const at::Tensor w_A = points.source.to(at::kDouble) * norm_scale(A, l);
    const at::Tensor w_B = points.target.to(at::kDouble) * norm_scale(B, l);
    const at::Tensor T = solve_transport(ground_cost(unit_rows(w_A), unit_rows(w_B))).plan;
    const at::Tensor norm = w_B.square().sum(1);
    const at::Tensor projection =
        at::mm(w_A, w_B.t()).clamp_min(0) / at::where(norm > 0, norm, at::ones_like(norm)).unsqueeze(0);
    const at::Tensor is_kept = (kept[l].plan.sum(1) > 0).unsqueeze(1);
    maps[l].columns = at::where(is_kept, kept[l].rows, T * static_cast<double>(n_A) * projection);
    maps[l].permutation.clear();
  }
  Graph result = carried_network(A, B, maps);
  move_statistics(A, B, maps, result);
  return lambda > 0 ? weighted_average({result, B.graph}, {1 - lambda, lambda}, 1) : result;
}

}  // namespace pare
