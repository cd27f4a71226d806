#include "pare/fuse/compensate_by_transport.h"

#include <ATen/ATen.h>

#include "pare/fuse/average.h"
#include "pare/fuse/optimal_transport.h"

namespace pare {

Graph compensate_by_transport(const Graph& dense, const Graph& pruned, double lambda) {
  const at::NoGradGuard no_grad;
  const Network B = analyze_network(pruned);
  const Network A = matched_to(B, analyze_network(dense));
  const Alignment alignment = align_by_transport(A, B, {.unit_rows = false, .scaling = ColumnScaling::published});
  return weighted_average({carried_network(A, B, alignment.maps), B.graph}, {1 - lambda, lambda}, 1);
}

}  // namespace pare
