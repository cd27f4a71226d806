#include "pare/fuse/points.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "pare/error.h"
#include "pare/run.h"

namespace pare {

namespace {

// More coordinates than this are thinned out evenly: distances hardly change, and memory stays bounded.
constexpr int64_t kMostCoordinates = 60000;

// [size, d]: the entries of a class along an axis, those of one channel side by side.
at::Tensor rows_of_class(const at::Tensor& x, int64_t axis, const std::vector<int64_t>& entries, int64_t size) {
  return at::index_select(x, axis, at::tensor(entries, at::kLong)).movedim(axis, 0).reshape({size, -1});
}

// [entries of the slot, other channels, the rest]: one slice of the parameter for each. Of a weight whose groups have
// lists of their own a slice is what lies in its group.
at::Tensor slices_of(const at::Tensor& x, const ParameterUse& use, const PlacedSlot& slot) {
  const auto entries = static_cast<int64_t>(slot.places.size());
  if (slot.parts > 1) {
    const int64_t rows = x.size(0) / slot.parts;
    const at::Tensor grouped = x.reshape({slot.parts, rows, x.size(1), -1});
    return grouped.transpose(1, 2).reshape({entries, rows, -1});
  }
  std::vector<int64_t> order = {slot.axis};
  int64_t others = 1;
  for (const PlacedSlot& other : use.slots)
    if (other.axis != slot.axis && std::ranges::find(order, other.axis) == order.end()) {
      order.push_back(other.axis);
      others *= x.size(other.axis);
    }
  for (int64_t axis = 0; axis < x.dim(); ++axis)
    if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
  return x.permute(order).reshape({entries, others, -1});
}

at::Tensor chosen(const at::Tensor& slices, const std::vector<int64_t>& entries, int64_t size) {
  return slices.index_select(0, at::tensor(entries, at::kLong)).reshape({size, -1});
}

PointPair joined(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  return from.empty() ? PointPair{} : PointPair{at::cat(from, 1), at::cat(to, 1)};
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

PointPair known_weight_points(const Network& source, const Network& target, size_t l, const ClassMaps& maps,
                              PointSides sides) {
  std::vector<at::Tensor> from;
  std::vector<at::Tensor> to;
  for (size_t u = 0; u < target.uses.size(); ++u) {
    const ParameterUse& use = target.uses[u];
    for (size_t s = 0; s < use.slots.size(); ++s) {
      const PlacedSlot& slot = use.slots[s];
      const at::Tensor& own = target.parameter(use);
      if (!own.is_floating_point() || !counts(slot, own.dim(), sides)) continue;
      const auto entries = entries_of(slot, l);
      const auto source_entries = entries_of(source.uses[u].slots[s], l);
      if (entries.empty() || source_entries.empty()) continue;
      const at::Tensor x = carried(source.parameter(source.uses[u]), source.uses[u], use, maps, slot.axis);
      if (!x.defined()) continue;
      from.push_back(
          chosen(slices_of(x, source.uses[u], source.uses[u].slots[s]), source_entries, source.classes[l].size));
      to.push_back(chosen(slices_of(own, use, slot), entries, target.classes[l].size));
    }
  }
  return joined(from, to);
}

PointPair weight_points(const Network& source, const Network& target, size_t channel_class, const ClassMaps& maps,
                        PointSides sides) {
  PointPair points = known_weight_points(source, target, channel_class, maps, sides);
  if (!points.defined())
    throw Error(ErrorKind::unsupported, describe(target.graph.nodes[target.classes[channel_class].node]),
                "its channels have no weights to compare");
  return points;
}

PointPair trace_points(const Network& source, const Network& target, size_t l) {
  std::vector<at::Tensor> from;
  std::vector<at::Tensor> to;
  for (size_t u = 0; u < target.uses.size(); ++u) {
    for (size_t s = 0; s < target.uses[u].slots.size(); ++s) {
      const auto trace = [&](const Network& network) -> at::Tensor {
        const ParameterUse& use = network.uses[u];
        const auto entries = entries_of(use.slots[s], l);
        const at::Tensor& x = network.parameter(use);
        if (entries.empty() || !x.is_floating_point()) return {};
        const at::Tensor sorted = std::get<0>(slices_of(x, use, use.slots[s]).to(at::kDouble).sort(1));
        return chosen(sorted, entries, network.classes[l].size);
      };
      const at::Tensor x = trace(source);
      const at::Tensor y = trace(target);
      if (!x.defined() || !y.defined() || x.size(1) != y.size(1)) continue;
      from.push_back(x);
      to.push_back(y);
    }
  }
  return joined(from, to);
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

at::Tensor ActivationPoints::points(size_t channel_class) const { return points_[channel_class]; }

}  // namespace pare
