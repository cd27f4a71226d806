#include "pare/compensate/merge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "pare/analysis/layers.h"
#include "pare/passes/remove_channels.h"

namespace pare {

MergeProblem merge_problem(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                           const std::set<ChannelId>& removed) {
  MergeProblem problem{graph, map, group, {}, {}};
  for (size_t i = 0; i < group.channels.size(); ++i)
    (removed.contains(group.channels[i]) ? problem.removed : problem.kept).push_back(static_cast<int64_t>(i));
  return problem;
}

at::Tensor identity_merge(const MergeProblem& problem) {
  const auto channels = static_cast<int64_t>(problem.group.channels.size());
  at::Tensor Z = at::zeros({channels, static_cast<int64_t>(problem.kept.size())}, at::kDouble);
  auto entry = Z.accessor<double, 2>();
  for (size_t k = 0; k < problem.kept.size(); ++k) entry[problem.kept[k]][static_cast<int64_t>(k)] = 1;
  return Z;
}

namespace {

// Where a slot has the channels of a group: places[j][i] is the place of channel i's j-th occurrence, −1 for none.
std::vector<std::vector<int64_t>> occurrences(const Slot& slot, const ChannelGroup& group) {
  std::map<int64_t, size_t> index;
  for (size_t i = 0; i < group.channels.size(); ++i) index[static_cast<int64_t>(group.channels[i])] = i;
  std::vector<size_t> seen(group.channels.size(), 0);
  std::vector<std::vector<int64_t>> places;
  for (size_t p = 0; p < slot.ids.size(); ++p) {
    const auto found = index.find(slot.ids[p]);
    if (found == index.end()) continue;
    const size_t j = seen[found->second]++;
    if (j == places.size()) places.emplace_back(group.channels.size(), -1);
    places[j][found->second] = static_cast<int64_t>(p);
  }
  return places;
}

// Zᵀ·rows, of the rows' type. Where a row of Z has one number at most, as merging makes it, rows are taken as they are
// and those that have another to go to are scaled and added there.
at::Tensor fold_rows(const at::Tensor& Z, const at::Tensor& rows) {
  const auto product = [&] { return at::mm(Z.t(), rows.to(at::kDouble)).to(rows.scalar_type()); };
  std::vector<int64_t> own(static_cast<size_t>(Z.size(1)), -1);  // the row that a column takes unscaled
  std::vector<int64_t> added;
  std::vector<int64_t> to;
  std::vector<double> scale;
  const auto entry = Z.accessor<double, 2>();
  for (int64_t r = 0; r < Z.size(0); ++r) {
    bool found = false;
    for (int64_t k = 0; k < Z.size(1); ++k) {
      if (entry[r][k] == 0) continue;
      if (std::exchange(found, true)) return product();
      if (int64_t& row = own[static_cast<size_t>(k)]; entry[r][k] == 1 && row < 0) {
        row = r;
        continue;
      }
      added.push_back(r);
      to.push_back(k);
      scale.push_back(entry[r][k]);
    }
  }
  if (std::find(own.begin(), own.end(), -1) != own.end()) return product();
  const auto list = [](const std::vector<int64_t>& v) { return at::tensor(v, at::kLong); };
  at::Tensor result = rows.index_select(0, list(own));
  if (added.empty()) return result;
  const at::Tensor factor = at::tensor(scale, at::kDouble).to(rows.scalar_type()).unsqueeze(1);
  return result.index_add_(0, list(to), rows.index_select(0, list(added)) * factor);
}

class MergeFold {
 public:
  MergeFold(const Graph& graph, const ChannelMap& map) : graph_(graph), map_(map), result_(graph) {}

  void fold(const MergeProblem& problem, const Merge& merge) {
    for (const size_t s : problem.group.consumers) fold_reader(map_.slots[s], problem, merge);
    if (merge.filters.defined()) replace_filters(problem, merge);
  }

  Graph remove(const std::set<ChannelId>& removed) {
    Graph pruned = remove_channels(result_, map_, removed);
    // From the last node on: a new node must not move those that are still to come.
    for (auto entry = offsets_.rbegin(); entry != offsets_.rend(); ++entry) {
      const auto& [node, offset] = *entry;
      add_to(pruned, graph_.nodes[node].outputs.front(), offset.index_select(0, kept_outputs(node, removed)));
    }
    return pruned;
  }

 private:
  void fold_reader(const Slot& slot, const MergeProblem& problem, const Merge& merge) {
    const at::Tensor weight = result_.tensor(result_.nodes[slot.node].inputs[slot.input]).movedim(slot.axis, 0);
    at::Tensor folded = weight.clone(at::MemoryFormat::Contiguous);
    at::Tensor offset;  // Σ over channels and kernel positions, by output
    for (const auto& places : occurrences(slot, problem.group)) {
      std::vector<int64_t> rows;     // channels that are there
      std::vector<int64_t> columns;  // kept ones of them, as columns of Z
      std::vector<int64_t> from;
      std::vector<int64_t> to;
      for (size_t i = 0; i < places.size(); ++i) {
        if (places[i] < 0) continue;
        rows.push_back(static_cast<int64_t>(i));
        from.push_back(places[i]);
      }
      for (int64_t k = 0; k < merge.Z.size(1); ++k) {
        const int64_t place = places[static_cast<size_t>(problem.kept[static_cast<size_t>(k)])];
        if (place < 0) continue;
        columns.push_back(k);
        to.push_back(place);
      }
      const auto list = [](const std::vector<int64_t>& v) { return at::tensor(v, at::kLong); };
      const at::Tensor present = weight.index_select(0, list(from)).flatten(1);
      const at::Tensor Z = merge.Z.index_select(0, list(rows)).index_select(1, list(columns));
      auto dims = weight.sizes().vec();
      dims[0] = static_cast<int64_t>(to.size());
      folded.index_copy_(0, list(to), fold_rows(Z, present).reshape(dims));
      if (!merge.c.defined()) continue;
      const at::Tensor part = at::mv(present.t().to(at::kDouble), merge.c.index_select(0, list(rows)));
      offset = offset.defined() ? offset + part : part;
    }
    replace_constant(result_, slot.node, slot.input, folded.movedim(0, slot.axis).contiguous());
    if (offset.defined()) note_offset(slot, weight, offset);
  }

  // `offset` has the shape of the weight without its input axis: sum over what is not the output axis.
  void note_offset(const Slot& slot, const at::Tensor& weight, const at::Tensor& offset) {
    const auto layer = layer_of(graph_, slot.node);
    if (!layer || layer->in_axis != slot.axis || (layer->transposed && layer->groups > 1)) return;
    auto dims = weight.sizes().vec();
    dims.erase(dims.begin());
    const int64_t out_axis = layer->out_axis < layer->in_axis ? layer->out_axis : layer->out_axis - 1;
    at::Tensor sum =
        offset.reshape(dims).movedim(out_axis, 0).reshape({dims[static_cast<size_t>(out_axis)], -1}).sum(1);
    if (const auto found = offsets_.find(slot.node); found != offsets_.end()) sum = sum + found->second;
    offsets_[slot.node] = sum;
  }

  at::Tensor kept_outputs(size_t node, const std::set<ChannelId>& removed) const {
    std::vector<int64_t> kept;
    for (const auto& slot : map_.slots) {
      if (slot.node != node || slot.input != 1 || slot.role != SlotRole::producer) continue;
      for (size_t i = 0; i < slot.ids.size(); ++i)
        if (slot.ids[i] == kUnlabelled || !removed.contains(ChannelId{slot.ids[i]}))
          kept.push_back(static_cast<int64_t>(i));
      return at::tensor(kept, at::kLong);
    }
    return at::arange(offsets_.at(node).numel());
  }

  static void add_to(Graph& graph, const std::string& value, const at::Tensor& offset) {
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (graph.nodes[n].outputs.front() == value)
        if (const auto layer = layer_of(graph, n)) return add_offset(graph, *layer, offset);
  }

  void replace_filters(const MergeProblem& problem, const Merge& merge) {
    for (const size_t s : problem.group.producers) {
      const Slot& slot = map_.slots[s];
      const at::Tensor old = result_.tensor(slot.tensor);
      if (old.dim() < 2 || slot.ids.size() != problem.group.channels.size()) continue;
      const at::Tensor rows = old.to(at::kDouble).movedim(slot.axis, 0);
      auto dims = rows.sizes().vec();
      dims[0] = merge.filters.size(0);
      const at::Tensor fresh = rows.index_copy(0, at::tensor(problem.kept, at::kLong), merge.filters.reshape(dims));
      replace_constant(result_, slot.node, slot.input, fresh.movedim(0, slot.axis).contiguous().to(old.scalar_type()));
    }
  }

  const Graph& graph_;
  const ChannelMap& map_;
  Graph result_;
  std::map<size_t, at::Tensor> offsets_;  // by node: double [outputs]
};

}  // namespace

Graph remove_and_merge(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                       const std::map<size_t, Merge>& merges) {
  MergeFold fold(graph, map);
  for (const auto& [index, merge] : merges) fold.fold(merge_problem(graph, map, map.groups[index], removed), merge);
  return fold.remove(removed);
}

}  // namespace pare
