#include "pare/fuse/compensate_by_transport.h"

#include <ATen/ATen.h>

#include "pare/fuse/average.h"
#include "pare/fuse/cut_network.h"
#include "pare/fuse/optimal_transport.h"

namespace pare {

Graph compensate_by_transport(const Graph& dense, const std::set<ChannelId>& removed, double lambda) {
  const at::NoGradGuard no_grad;
  const Network A = analyze_network(dense);
  const Network B = cut_network(A, removed);
  const Alignment alignment = align_by_transport(A, B, {.unit_rows = false, .scaling = ColumnScaling::published});
  return weighted_average({carried_network(A, B, alignment.maps), B.graph}, {1 - lambda, lambda}, 1);
}

}  // namespace pare
