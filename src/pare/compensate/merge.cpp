#include "pare/compensate/merge.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "pare/analysis/layers.h"
#include "pare/passes/remove_channels.h"

namespace pare {

at::Tensor index_of(const std::vector<int64_t>& places) { return at::tensor(places, at::kLong); }

MergeProblem merge_problem(const Graph& graph, const ChannelMap& map, const ChannelGroup& group,
                           const std::set<ChannelId>& removed) {
  MergeProblem problem{graph, map, group, {}, {}};
  for (size_t i = 0; i < group.channels.size(); ++i)
    (removed.contains(group.channels[i]) ? problem.removed : problem.kept).push_back(static_cast<int64_t>(i));
  return problem;
}

GroupFilters filters_of(const MergeProblem& problem, at::ScalarType type) {
  if (problem.reader != nullptr) return problem.reader->filters;
  return group_filters(problem.graph, problem.map, problem.group, type);
}

at::Tensor identity_merge(const MergeProblem& problem) {
  at::Tensor Z = at::zeros({problem.size(), static_cast<int64_t>(problem.kept.size())}, at::kDouble);
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
  at::Tensor result = rows.index_select(0, index_of(own));
  if (added.empty()) return result;
  const at::Tensor factor = at::tensor(scale, at::kDouble).to(rows.scalar_type()).unsqueeze(1);
  return result.index_add_(0, index_of(to), rows.index_select(0, index_of(added)) * factor);
}

// The group of a transposed convolution that a place of its input axis belongs to; 0 for other readers.
int64_t transposed_part(const Graph& graph, const Slot& slot, int64_t place) {
  const auto layer = layer_of(graph, slot.node);
  return layer && layer->transposed ? place * layer->groups / static_cast<int64_t>(slot.ids.size()) : 0;
}

// The same Z for every occurrence of the channels along the reader's axis.
std::vector<ReaderMerge> for_every_occurrence(const Graph& graph, const ChannelMap& map, size_t s,
                                              const MergeProblem& problem, const Merge& merge) {
  std::map<std::pair<size_t, int64_t>, std::vector<int64_t>> parts;  // (occurrence, group) -> channels that are there
  const auto all = occurrences(map.slots[s], problem.group);
  for (size_t j = 0; j < all.size(); ++j)
    for (size_t i = 0; i < all[j].size(); ++i)
      if (all[j][i] >= 0)
        parts[{j, transposed_part(graph, map.slots[s], all[j][i])}].push_back(static_cast<int64_t>(i));
  std::vector<ReaderMerge> result;
  for (const auto& [where, rows] : parts) {
    std::vector<int64_t> columns;  // kept ones of them, as columns of Z
    ReaderMerge part{.slot = s, .part = where.second > 0 ? where.second : kAllParts};
    for (size_t i = 0; i < rows.size(); ++i) {
      part.places.push_back(all[where.first][static_cast<size_t>(rows[i])]);
      const auto kept = std::lower_bound(problem.kept.begin(), problem.kept.end(), rows[i]);
      if (kept == problem.kept.end() || *kept != rows[i]) continue;
      part.kept.push_back(static_cast<int64_t>(i));
      columns.push_back(kept - problem.kept.begin());
    }
    part.Z = merge.Z.index_select(0, index_of(rows)).index_select(1, index_of(columns));
    if (merge.c.defined()) part.c = merge.c.index_select(0, index_of(rows));
    result.push_back(std::move(part));
  }
  return result;
}

class MergeFold {
 public:
  MergeFold(const Graph& graph, const ChannelMap& map) : graph_(graph), map_(map), result_(graph) {}

  void fold(const MergeProblem& problem, const Merge& merge) {
    std::map<size_t, std::vector<ReaderMerge>> by_slot;
    for (const ReaderMerge& part : merge.readers) by_slot[part.slot].push_back(part);
    if (merge.readers.empty())
      for (const size_t s : problem.group.consumers) by_slot[s] = for_every_occurrence(graph_, map_, s, problem, merge);
    for (const auto& [s, parts] : by_slot) fold_reader(map_.slots[s], parts);
    if (merge.filters.defined()) replace_filters(problem, merge);
  }

  Graph folded() const { return result_; }

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
  // The entries of a weight, input axis first, that one group of a convolution has: of a plain one some of the outputs.
  at::Tensor part_of(const at::Tensor& weight, const Slot& slot, int64_t part) const {
    const auto layer = layer_of(graph_, slot.node);
    if (!layer || layer->transposed || layer->groups == 1 || part == kAllParts) return weight;
    const int64_t outputs = weight.size(1) / layer->groups;
    return weight.narrow(1, part * outputs, outputs);
  }

  void fold_reader(const Slot& slot, const std::vector<ReaderMerge>& parts) {
    const at::Tensor whole = result_.tensor(result_.nodes[slot.node].inputs[slot.input]).movedim(slot.axis, 0);
    const at::Tensor folded = whole.clone(at::MemoryFormat::Contiguous);
    for (const ReaderMerge& part : parts) {
      const at::Tensor weight = part_of(whole, slot, part.part);
      const at::Tensor present = weight.index_select(0, index_of(part.places)).flatten(1);
      std::vector<int64_t> to;
      for (const int64_t row : part.kept) to.push_back(part.places[static_cast<size_t>(row)]);
      auto dims = weight.sizes().vec();
      dims[0] = static_cast<int64_t>(to.size());
      if (!to.empty())
        part_of(folded, slot, part.part).index_copy_(0, index_of(to), fold_rows(part.Z, present).reshape(dims));
      if (part.c.defined()) note_offset(slot, part, weight, at::mv(present.t().to(at::kDouble), part.c));
    }
    replace_constant(result_, slot.node, slot.input, folded.movedim(0, slot.axis).contiguous());
  }

  // `offset` has the shape of the weight without its input axis: sum over what is not the output axis.
  void note_offset(const Slot& slot, const ReaderMerge& part, const at::Tensor& weight, const at::Tensor& offset) {
    if (!offset_refusal(graph_, slot).empty()) return;
    const auto layer = *scaled_layer_of(graph_, slot.node);
    auto dims = weight.sizes().vec();
    dims.erase(dims.begin());
    const int64_t out_axis = layer.out_axis < layer.in_axis ? layer.out_axis : layer.out_axis - 1;
    const int64_t outputs = dims[static_cast<size_t>(out_axis)];
    const at::Tensor sum = offset.reshape(dims).movedim(out_axis, 0).reshape({outputs, -1}).sum(1);
    at::Tensor& all = offsets_[slot.node];
    const bool some = layer.groups > 1 && (layer.transposed || part.part != kAllParts);  // outputs of one group
    if (!all.defined()) all = at::zeros({some ? outputs * layer.groups : outputs}, at::kDouble);
    all.narrow(0, some ? std::max<int64_t>(part.part, 0) * outputs : 0, outputs).add_(sum);
  }

  at::Tensor kept_outputs(size_t node, const std::set<ChannelId>& removed) const {
    std::vector<int64_t> kept;
    const int64_t outputs = offsets_.at(node).numel();
    for (const auto& slot : map_.slots) {
      if (slot.node != node || slot.input != 1 || slot.role != SlotRole::producer) continue;
      for (int64_t i = 0; i < outputs; ++i) {
        const int64_t id =
            slot.ids[static_cast<size_t>(i) % slot.ids.size()];  // of a ConvTranspose: those of one group
        if (id == kUnlabelled || !removed.contains(ChannelId{id})) kept.push_back(i);
      }
      return index_of(kept);
    }
    return at::arange(outputs);
  }

  static void add_to(Graph& graph, const std::string& value, const at::Tensor& offset) {
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      if (graph.nodes[n].outputs.front() == value)
        if (const auto layer = scaled_layer_of(graph, n)) return add_offset(graph, *layer, offset);
  }

  void replace_filters(const MergeProblem& problem, const Merge& merge) {
    for (const size_t s : problem.group.producers) {
      const Slot& slot = map_.slots[s];
      const at::Tensor old = result_.tensor(slot.tensor);
      if (old.dim() < 2 || slot.ids.size() != problem.group.channels.size()) continue;
      const at::Tensor rows = old.to(at::kDouble).movedim(slot.axis, 0);
      auto dims = rows.sizes().vec();
      dims[0] = merge.filters.size(0);
      const at::Tensor fresh = rows.index_copy(0, index_of(problem.kept), merge.filters.reshape(dims));
      replace_constant(result_, slot.node, slot.input, fresh.movedim(0, slot.axis).contiguous().to(old.scalar_type()));
    }
  }

  const Graph& graph_;
  const ChannelMap& map_;
  Graph result_;
  std::map<size_t, at::Tensor> offsets_;  // by node: double [outputs]
};

// All channels stay: those that are copies give their weights to others.
ReaderMerge without_removal(const ReaderMerge& merge) {
  ReaderMerge result = merge;
  result.c = at::Tensor();
  const auto count = static_cast<int64_t>(merge.places.size());
  result.kept.resize(merge.places.size());
  std::iota(result.kept.begin(), result.kept.end(), 0);
  result.Z = at::eye(count, at::kDouble);
  for (const int64_t row : merge.copies) {
    result.Z[row].zero_();
    for (size_t k = 0; k < merge.kept.size(); ++k) result.Z[row][merge.kept[k]] = merge.Z[row][static_cast<int64_t>(k)];
  }
  return result;
}

}  // namespace

std::string offset_refusal(const Graph& graph, const Slot& slot) {
  const auto layer = scaled_layer_of(graph, slot.node);
  if (layer && layer->in_axis == slot.axis && slot.input == 1) return {};
  return fmt::format("{} has no bias that an offset could go into", describe(graph.nodes[slot.node]));
}

Graph fold_copies(const Graph& graph, const ChannelMap& map, const std::map<size_t, Merge>& merges) {
  MergeFold fold(graph, map);
  for (const auto& [index, merge] : merges) {
    Merge copied;
    for (const ReaderMerge& part : merge.readers) copied.readers.push_back(without_removal(part));
    if (!copied.readers.empty()) fold.fold({graph, map, map.groups[index], {}, {}}, copied);
  }
  return fold.folded();
}

Graph remove_and_merge(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed,
                       const std::map<size_t, Merge>& merges) {
  MergeFold fold(graph, map);
  for (const auto& [index, merge] : merges) fold.fold(merge_problem(graph, map, map.groups[index], removed), merge);
  return fold.remove(removed);
}

}  // namespace pare
