#include "pare/fuse/compensate_by_transport.h"

#include <ATen/ATen.h>

#include "pare/fuse/average.h"
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
  const Graph carried = carried_network(A, B, maps);
  return lambda > 0 ? weighted_average({carried, B.graph}, {1 - lambda, lambda}, 1) : carried;
}

}  // namespace pare
