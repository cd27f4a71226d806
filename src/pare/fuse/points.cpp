#include "pare/fuse/points.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/core/error.h"
#include "pare/exec/program.h"

namespace pare {

namespace {

// More coordinates than this are thinned out evenly: distances hardly change, and memory stays bounded.
constexpr int64_t kMostCoordinates = 60000;

// [size, d]: the entries of a class along an axis, those of one channel side by side.
at::Tensor rows_of_class(const at::Tensor& x, int64_t axis, const std::vector<int64_t>& entries, int64_t size) {
  return at::index_select(x, axis, at::tensor(entries, at::kLong)).movedim(axis, 0).reshape({size, -1});
}

bool counts(const PlacedSlot& slot, int64_t rank, PointSides sides) {
  switch (slot.role) {
    case SlotRole::producer: return true;
    case SlotRole::consumer: return sides == PointSides::both;
    case SlotRole::pass: return rank >= 2;  // a depthwise layer's weights; not the vectors of a batch norm
  }
  return false;
}

// The columns of all ranks, in their order.
at::Tensor beside_those_of_all(const at::Tensor& own, ProcessGroup& ranks) {
  if (ranks.alone()) return own;
  const at::Tensor widths = at::zeros({ranks.size()}, at::kDouble);
  widths[ranks.rank()] = static_cast<double>(own.size(1));
  ranks.sum(widths);
  const auto width = [&](int first, int last) { return widths.slice(0, first, last).sum().item<int64_t>(); };
  at::Tensor all = at::zeros({own.size(0), width(0, ranks.size())}, own.options());
  all.narrow(1, width(0, ranks.rank()), own.size(1)).copy_(own);
  ranks.sum(all);
  return all;
}

}  // namespace

PointPair weight_points(const Network& source, const Network& target, size_t channel_class, const ClassMaps& maps,
                        PointSides sides) {
  std::vector<at::Tensor> from;
  std::vector<at::Tensor> to;
  for (size_t u = 0; u < target.uses.size(); ++u) {
    const ParameterUse& use = target.uses[u];
    for (size_t s = 0; s < use.slots.size(); ++s) {
      const PlacedSlot& slot = use.slots[s];
      const at::Tensor& own = target.parameter(use);
      if (!own.is_floating_point() || !counts(slot, own.dim(), sides)) continue;
      const auto entries = entries_of(slot, channel_class);
      const auto source_entries = entries_of(source.uses[u].slots[s], channel_class);
      if (entries.empty() || source_entries.empty()) continue;
      const at::Tensor x = carried(source.parameter(source.uses[u]), source.uses[u], use, maps, slot.axis);
      if (!x.defined()) continue;
      from.push_back(rows_of_class(x, slot.axis, source_entries, source.classes[channel_class].size));
      to.push_back(rows_of_class(own, slot.axis, entries, target.classes[channel_class].size));
    }
  }
  if (from.empty())
    throw Error(ErrorKind::unsupported, describe(target.graph.nodes[target.classes[channel_class].node]),
                "its channels have no weights to compare");
  return {at::cat(from, 1), at::cat(to, 1)};
}

ActivationPoints::ActivationPoints(const Network& network, const std::vector<at::Tensor>& samples, ProcessGroup& ranks)
    : points_(network.classes.size()) {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<ClassView>> views(network.classes.size());
  std::set<std::string> taps;
  for (size_t c = 0; c < network.classes.size(); ++c) {
    if (network.classes[c].fixed || network.classes[c].size == 0) continue;
    views[c] = views_of(network, c);
    for (const ClassView& view : views[c]) taps.insert(view.value);
  }
  RunOptions options;
  options.taps.assign(taps.begin(), taps.end());
  const TensorMap tapped = forward(network.graph, samples, options).tapped;
  for (size_t c = 0; c < network.classes.size(); ++c) {
    std::vector<at::Tensor> parts;
    for (const ClassView& view : views[c]) {
      at::Tensor rows = rows_of_class(tapped.at(view.value), view.axis, view.entries, network.classes[c].size);
      const int64_t stride = (rows.size(1) + kMostCoordinates - 1) / kMostCoordinates;
      parts.push_back(stride > 1 ? rows.slice(1, 0, rows.size(1), stride).contiguous() : rows);
    }
    if (!parts.empty()) points_[c] = beside_those_of_all(at::cat(parts, 1), ranks);
  }
}

at::Tensor ActivationPoints::points(size_t channel_class) const {
  const at::Tensor& found = points_[channel_class];
  if (!found.defined())
    throw Error(ErrorKind::unsupported, fmt::format("channel class {}", channel_class),
                "its channels show in no value of the graph");
  return found;
}

}  // namespace pare
