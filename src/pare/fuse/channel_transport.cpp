#include "pare/fuse/channel_transport.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "pare/error.h"
#include "pare/run.h"

namespace pare {

namespace {

using PlaceKey = std::tuple<int64_t, int64_t, int64_t>;

std::map<PlaceKey, int64_t> positions_of(const PlacedSlot& slot) {
  std::map<PlaceKey, int64_t> positions;
  for (size_t p = 0; p < slot.places.size(); ++p)
    positions[{slot.places[p].channel_class, slot.places[p].index, slot.places[p].occurrence}] =
        static_cast<int64_t>(p);
  return positions;
}

bool is_permuted(const PlacedSlot& slot, const ClassMaps& maps) {
  return std::all_of(slot.places.begin(), slot.places.end(), [&](const Place& place) {
    return place.channel_class < 0 || !maps[static_cast<size_t>(place.channel_class)].permutation.empty();
  });
}

// For every entry of the target's axis the one of the source's that it is.
at::Tensor permuted_along(const at::Tensor& x, const PlacedSlot& source, const PlacedSlot& target,
                          const ClassMaps& maps) {
  const auto positions = positions_of(source);
  std::vector<int64_t> from;
  for (const Place& place : target.places) {
    const int64_t index =
        place.channel_class < 0
            ? place.index
            : maps[static_cast<size_t>(place.channel_class)].permutation[static_cast<size_t>(place.index)];
    from.push_back(positions.at({place.channel_class, index, place.occurrence}));
  }
  return at::index_select(x, source.axis, at::tensor(from, at::kLong));
}

using Block = std::pair<int64_t, int64_t>;  // (class, occurrence)

// The entries of each block; what is no channel is one block.
std::map<Block, std::vector<int64_t>> blocks_of(const PlacedSlot& slot) {
  std::map<Block, std::vector<int64_t>> blocks;
  for (size_t p = 0; p < slot.places.size(); ++p) {
    const Place& place = slot.places[p];
    const Block block = place.channel_class < 0 ? Block{-1, 0} : Block{place.channel_class, place.occurrence};
    blocks[block].push_back(static_cast<int64_t>(p));
  }
  return blocks;
}

at::Tensor indices_of(const PlacedSlot& slot, const std::vector<int64_t>& entries) {
  std::vector<int64_t> indices;
  for (const int64_t p : entries) indices.push_back(slot.places[static_cast<size_t>(p)].index);
  return at::tensor(indices, at::kLong);
}

// Entries that are no channels go where they are counted the same.
at::Tensor by_occurrence(const at::Tensor& x, const PlacedSlot& source, const PlacedSlot& target,
                         const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::map<int64_t, int64_t> row;  // occurrence -> row of x
  for (size_t i = 0; i < from.size(); ++i)
    row[source.places[static_cast<size_t>(from[i])].occurrence] = static_cast<int64_t>(i);
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
  for (size_t j = 0; j < to.size(); ++j) {
    const auto found = row.find(target.places[static_cast<size_t>(to[j])].occurrence);
    if (found == row.end()) continue;
    rows.push_back(found->second);
    columns.push_back(static_cast<int64_t>(j));
  }
  at::Tensor result = at::zeros({static_cast<int64_t>(to.size()), x.size(1)}, x.scalar_type());
  return result.index_copy_(0, at::tensor(columns, at::kLong), x.index_select(0, at::tensor(rows, at::kLong)));
}

// The class's map between entries of the same occurrence, block by block: a matrix over all entries of a flattened map
// would have the pixels squared too many.
at::Tensor carried_along(const at::Tensor& x, const PlacedSlot& source, const PlacedSlot& target,
                         const ClassMaps& maps) {
  if (is_permuted(target, maps) && is_permuted(source, maps)) return permuted_along(x, source, target, maps);
  const at::Tensor rows = x.movedim(source.axis, 0);
  auto dims = rows.sizes().vec();
  dims[0] = static_cast<int64_t>(target.places.size());
  const at::Tensor flat = rows.reshape({rows.size(0), -1});
  at::Tensor result = at::zeros({dims[0], flat.size(1)}, x.scalar_type());
  const auto from = blocks_of(source);
  for (const auto& [block, to] : blocks_of(target)) {
    const auto found = from.find(block);
    if (found == from.end()) continue;
    const at::Tensor present = flat.index_select(0, at::tensor(found->second, at::kLong));
    at::Tensor moved;
    if (block.first < 0) {
      moved = by_occurrence(present, source, target, found->second, to);
    } else {
      const ClassMap& map = maps[static_cast<size_t>(block.first)];
      const at::Tensor M = (source.role == SlotRole::consumer ? map.columns : map.rows)
                               .index_select(0, indices_of(source, found->second))
                               .index_select(1, indices_of(target, to));
      moved = at::mm(M.to(x.scalar_type()).t(), present);
    }
    result.index_copy_(0, at::tensor(to, at::kLong), moved);
  }
  return result.reshape(dims).movedim(0, source.axis).contiguous();
}

// One of the lists of a slot that has several.
PlacedSlot part_of(const PlacedSlot& slot, int64_t part) {
  const auto width = static_cast<int64_t>(slot.places.size()) / slot.parts;
  return {.axis = slot.axis,
          .role = slot.role,
          .places = {slot.places.begin() + part * width, slot.places.begin() + (part + 1) * width}};
}

// The part of the source that becomes part `part` of the target, as any of its channels says that has a map; the same
// part where none does.
int64_t source_part(const ParameterUse& source, const ParameterUse& target, int64_t part, int64_t parts,
                    const ClassMaps& maps) {
  for (size_t s = 0; s < target.slots.size(); ++s) {
    if (target.slots[s].axis > 1) continue;
    PlacedSlot to = target.slots[s];  // the list of axis 0 falls into parts as well
    PlacedSlot from = source.slots[s];
    to.parts = from.parts = parts;
    for (const Place& place : part_of(to, part).places) {
      if (place.channel_class < 0 || !maps[static_cast<size_t>(place.channel_class)].defined()) continue;
      const int64_t index = maps[static_cast<size_t>(place.channel_class)].source_of(place.index);
      for (size_t p = 0; p < from.places.size(); ++p)
        if (from.places[p] == Place{place.channel_class, index, place.occurrence})
          return static_cast<int64_t>(p) / (static_cast<int64_t>(from.places.size()) / parts);
    }
  }
  return part;
}

// Along axis 1 of a weight whose groups have lists of their own. Its parts stand in the target's order when axis 0 has
// been carried, else in the source's. Without `along` they are only brought from the target's order into the source's.
at::Tensor carried_in_parts(const at::Tensor& x, const ParameterUse& source, const ParameterUse& target, size_t s,
                            const ClassMaps& maps, bool in_target_order, bool along) {
  const int64_t parts = target.slots[s].parts;
  const auto pieces = x.chunk(parts, 0);
  std::vector<at::Tensor> carried_pieces(static_cast<size_t>(parts));
  for (int64_t t = 0; t < parts; ++t) {
    const int64_t from = source_part(source, target, t, parts, maps);
    const int64_t here = in_target_order ? t : from;
    const at::Tensor& piece = pieces[static_cast<size_t>(here)];
    carried_pieces[static_cast<size_t>(along ? here : from)] =
        along ? carried_along(piece, part_of(source.slots[s], from), part_of(target.slots[s], t), maps) : piece;
  }
  return at::cat(carried_pieces, 0);
}

bool has_maps(const PlacedSlot& slot, const ClassMaps& maps) {
  return std::all_of(slot.places.begin(), slot.places.end(), [&](const Place& place) {
    return place.channel_class < 0 || maps[static_cast<size_t>(place.channel_class)].defined();
  });
}

// Where along any axis the target has channels that nothing is sent to.
bool leaves_gaps(const ParameterUse& target, const ClassMaps& maps) {
  for (const PlacedSlot& slot : target.slots)
    for (const Place& place : slot.places)
      if (place.channel_class >= 0 && maps[static_cast<size_t>(place.channel_class)].leaves_gaps) return true;
  return false;
}

}  // namespace

ClassMap make_map(const at::Tensor& plan, ColumnScaling scaling) {
  ClassMap map;
  map.plan = plan;
  const at::Tensor a = plan.sum(1, /*keepdim=*/true);
  const at::Tensor b = plan.sum(0, /*keepdim=*/true);
  const auto per = [&](const at::Tensor& marginal) { return at::where(marginal > 0, plan / marginal, plan); };
  map.leaves_gaps = plan.numel() > 0 && b.min().item<double>() == 0;
  map.rows = per(b);
  map.columns = scaling == ColumnScaling::published ? map.rows : per(a);
  if (plan.size(0) != plan.size(1)) return map;
  const auto one_partner = [&](int64_t axis) { return ((plan > 0).sum(axis) == 1).all().item<bool>(); };
  if (!one_partner(0) || !one_partner(1)) return map;
  const at::Tensor source = plan.argmax(0).contiguous();
  map.permutation.assign(source.data_ptr<int64_t>(), source.data_ptr<int64_t>() + source.numel());
  return map;
}

int64_t ClassMap::source_of(int64_t target) const {
  if (!permutation.empty()) return permutation[static_cast<size_t>(target)];
  const at::Tensor sent = plan.select(1, target);
  return sent.gt(0).any().item<bool>() ? sent.argmax().item<int64_t>() : -1;
}

ClassMap identity_map(int64_t size) {
  std::vector<int64_t> source(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) source[static_cast<size_t>(i)] = i;
  return matching_map(source, size);
}

ClassMap matching_map(const std::vector<int64_t>& source, int64_t sources) {
  const auto targets = static_cast<int64_t>(source.size());
  at::Tensor plan = at::zeros({sources, targets}, at::kDouble);
  for (int64_t j = 0; j < targets; ++j)
    if (source[static_cast<size_t>(j)] >= 0)
      plan.data_ptr<double>()[source[static_cast<size_t>(j)] * targets + j] = 1.0 / static_cast<double>(targets);
  return make_map(plan, ColumnScaling::published);
}

bool all_permutations(const ClassMaps& maps) {
  return std::all_of(maps.begin(), maps.end(), [](const ClassMap& map) { return !map.permutation.empty(); });
}

at::Tensor carried(const at::Tensor& parameter, const ParameterUse& source, const ParameterUse& target,
                   const ClassMaps& maps, int64_t skip) {
  at::Tensor x = parameter;
  for (size_t s = 0; s < target.slots.size(); ++s) {
    if (target.slots[s].axis == skip || target.slots[s].parts > 1) continue;
    if (!has_maps(target.slots[s], maps)) return {};
    x = carried_along(x, source.slots[s], target.slots[s], maps);
  }
  for (size_t s = 0; s < target.slots.size(); ++s) {
    if (target.slots[s].parts == 1) continue;
    const bool along = target.slots[s].axis != skip;
    if (along && !has_maps(target.slots[s], maps)) return {};
    x = carried_in_parts(x, source, target, s, maps, skip != 0, along);
  }
  return x;
}

Graph carried_network(const Network& source, const Network& target, const ClassMaps& maps) {
  Graph result = target.graph;
  // Parameters without channels (a scalar slope) are the source's own.
  for (size_t n = 0; n < result.nodes.size(); ++n)
    for (size_t i = 0; i < result.nodes[n].inputs.size(); ++i) {
      const auto to = result.tensors.find(result.nodes[n].inputs[i]);
      const auto from = source.graph.tensors.find(source.graph.nodes[n].inputs[i]);
      if (to == result.tensors.end() || from == source.graph.tensors.end()) continue;
      if (to->second.is_floating_point() && to->second.sizes() == from->second.sizes()) to->second = from->second;
    }
  for (size_t u = 0; u < target.uses.size(); ++u) {
    const ParameterUse& use = target.uses[u];
    const at::Tensor& own = target.parameter(use);
    if (!own.is_floating_point()) continue;
    const at::Tensor& from = source.parameter(source.uses[u]);
    at::Tensor x = carried(from, source.uses[u], use, maps).to(own.scalar_type());
    if (leaves_gaps(use, maps)) {
      const at::Tensor reached = carried(at::ones_like(from), source.uses[u], use, maps);
      x = at::where(reached > 0, x, own);
    }
    result.tensors[result.nodes[use.node].inputs[use.input]] = x;
  }
  return result;
}

void check_equivalent(const Graph& source, const Graph& permuted) {
  const at::NoGradGuard no_grad;
  const Graph a = cast(source, at::kDouble);
  const Graph b = cast(permuted, at::kDouble);
  const auto inputs = random_inputs(a, 2, 0);
  const auto expected = forward(a, inputs).outputs;
  const auto found = forward(b, inputs).outputs;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    const double largest = (found[i] - expected[i]).abs().max().item<double>();
    if (!(largest <= 1e-9 * std::max(1.0, scale)))
      throw Error(ErrorKind::verification, source.outputs[i].name,
                  "the permuted model is not equivalent: outputs of size {:.3g} differ by {:.3g}", scale, largest);
  }
}

}  // namespace pare
