#include "pare/compensate/readers.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "pare/analysis/expression_laws.h"
#include "pare/analysis/layers.h"

namespace pare {

namespace {

constexpr int kMostGuesses = 8;  // pairs that are compared without an angle that speaks for them

// Equal up to rounding, as directions without a sign; one that is not a number may be anything.
bool same_angle(double a, double b) {
  const double apart = std::abs(a - b);
  return !(std::min(apart, std::abs(std::numbers::pi - apart)) > 1e-3);
}

// Of the node whose weight the slot is in.
std::optional<LinearLayer> layer_at(const Graph& graph, const Slot& slot) {
  const Node& node = graph.nodes[slot.node];
  return linear_layer(node, slot.input, graph.tensor(node.inputs[slot.input]).dim());
}

bool is_finite(const ReaderFilters& reader) {
  const GroupFilters& f = reader.filters;
  return at::isfinite(f.weight).all().item<bool>() && at::isfinite(f.folded().select(1, -1)).all().item<bool>();
}

}  // namespace

// What arrives along the axis of the reader's input that its weight sums over.
std::vector<ExpressionId> ReaderMerging::expressions_at(const Slot& slot) const {
  const std::string& value = graph_.nodes[slot.node].inputs[slot.input == 0 ? 1 : 0];
  const auto rank = static_cast<int64_t>(map_.shapes.find(value)->dims.size());
  const auto layer = layer_at(graph_, slot);
  const int64_t axis = layer ? (layer->value_axis + rank) % rank : 1;
  return expressions_.along(value, axis, map_.shapes.find(value)->dims[static_cast<size_t>(axis)]);
}

std::vector<ReaderMerging::Part> ReaderMerging::parts_of(const ChannelGroup& group, size_t s) {
  const Slot& slot = map_.slots[s];
  const auto arriving = expressions_at(slot);
  std::map<int64_t, int64_t> index;
  for (size_t i = 0; i < group.channels.size(); ++i)
    index[static_cast<int64_t>(group.channels[i])] = static_cast<int64_t>(i);
  const auto layer = layer_at(graph_, slot);
  const int64_t groups = layer ? layer->groups : 1;
  const size_t width = arriving.size() / static_cast<size_t>(groups);
  std::map<std::tuple<int64_t, int64_t, int64_t>, Part> parts;           // (part, skeleton, how often before)
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> occurrences;  // (part, skeleton, channel)
  for (size_t i = 0; i < arriving.size(); ++i) {
    const size_t place = i % slot.ids.size();  // the weight of a grouped convolution has the places of one group
    const auto channel = index.find(slot.ids[place]);
    if (channel == index.end()) continue;
    const auto part = static_cast<int64_t>(i / width);
    const int64_t skeleton = skeletons_.of(arriving[i]);
    Part& to = parts[{part, skeleton, occurrences[{part, skeleton, channel->second}]++}];
    to.slot = s;
    to.part = groups > 1 ? part : kAllParts;
    to.channels.push_back(channel->second);
    to.places.push_back(static_cast<int64_t>(place));
    to.expressions.push_back(arriving[i]);
  }
  std::vector<Part> result;
  for (auto& [where, part] : parts) result.push_back(std::move(part));
  return result;
}

void ReaderMerging::find_copies(const Part& part, const std::vector<int64_t>& removed, Solved& solved) {
  std::vector<double> angles;
  for (const int64_t row : solved.kept) angles.push_back(copies_.angle(part.expressions[static_cast<size_t>(row)]));
  for (const int64_t r : removed) {
    const ExpressionId own = part.expressions[static_cast<size_t>(r)];
    const double angle = copies_.angle(own);
    bool found = false;
    int guesses = 0;
    for (size_t k = 0; k < solved.kept.size() && !found; ++k) {
      if (!same_angle(angle, angles[k])) continue;
      if (std::isnan(angle - angles[k]) && ++guesses > kMostGuesses) continue;
      const auto relation = copies_.relation(own, part.expressions[static_cast<size_t>(solved.kept[k])]);
      if (!relation) continue;
      solved.Z[r][static_cast<int64_t>(k)] = relation->scale;
      solved.c[r] = relation->offset;
      solved.copies.push_back(r);
      found = true;
    }
    if (!found) solved.left.insert(r);
  }
}

void ReaderMerging::apply_method(const ChannelGroup& group, const Part& part, const MergeFunction& method,
                                 Solved& solved) {
  // Copies are settled: the method sees the kept ones and those that are left.
  std::vector<int64_t> rows;
  for (size_t i = 0; i < part.expressions.size(); ++i)
    if (!std::binary_search(solved.copies.begin(), solved.copies.end(), static_cast<int64_t>(i)))
      rows.push_back(static_cast<int64_t>(i));
  std::vector<ExpressionId> channels;
  for (const int64_t row : rows) channels.push_back(part.expressions[static_cast<size_t>(row)]);
  const ReaderFilters reader = reader_filters(graph_, expressions_, channels);
  solved.reason = reader.reason.empty() && !is_finite(reader) ? "its weights are not finite" : reader.reason;
  if (!solved.reason.empty()) return;
  MergeProblem problem{graph_, map_, group, {}, {}, &reader};
  for (size_t i = 0; i < rows.size(); ++i)
    (solved.left.contains(rows[i]) ? problem.removed : problem.kept).push_back(static_cast<int64_t>(i));
  const Merge merge = method(problem);
  const at::Tensor ones = at::ones({problem.size()}, at::kDouble);
  const at::Tensor scale = reader.scale.defined() ? reader.scale : ones;
  const at::Tensor shift = reader.shift.defined() ? reader.shift : at::zeros_like(ones);
  const at::Tensor at_kept = scale.index_select(0, index_of(problem.kept));
  // v = scale·a + shift with a ≈ Z a_kept + c.
  const at::Tensor inverse = at::where(at_kept == 0, at_kept, 1 / at_kept);
  const at::Tensor Z = merge.Z * scale.unsqueeze(1) * inverse.unsqueeze(0);
  const at::Tensor c = (merge.c.defined() ? scale * merge.c : at::zeros_like(ones)) + shift -
                       at::mv(Z, shift.index_select(0, index_of(problem.kept)));
  for (const int64_t i : problem.removed) {
    if (!merge.Z[i].any().item<bool>() && !(merge.c.defined() && merge.c[i].item<double>() != 0)) continue;
    const int64_t row = rows[static_cast<size_t>(i)];
    solved.Z[row].copy_(Z[i]);
    solved.c[row] = c[i];
    solved.left.erase(row);
  }
  solved.reason = merge.reason;
}

ReaderMerging::Solved ReaderMerging::solve(const ChannelGroup& group, const Part& part, const MergeFunction& method) {
  Solved solved;
  std::vector<int64_t> removed;
  for (size_t i = 0; i < part.channels.size(); ++i)
    (removed_.contains(group.channels[static_cast<size_t>(part.channels[i])]) ? removed : solved.kept)
        .push_back(static_cast<int64_t>(i));
  const auto count = static_cast<int64_t>(part.channels.size());
  solved.Z = at::zeros({count, static_cast<int64_t>(solved.kept.size())}, at::kDouble);
  for (size_t k = 0; k < solved.kept.size(); ++k) solved.Z[solved.kept[k]][static_cast<int64_t>(k)] = 1;
  solved.c = at::zeros({count}, at::kDouble);
  if (solved.kept.empty()) {
    solved.left = {removed.begin(), removed.end()};
    solved.reason = "no kept channel reaches it by the same path";
    return solved;
  }
  find_copies(part, removed, solved);
  if (!solved.left.empty()) apply_method(group, part, method, solved);
  return solved;
}

void ReaderMerging::take(const Part& part, const Solved& solved, Merge& merge, Outcome& outcome) const {
  for (const int64_t row : solved.left) outcome.left.insert(part.channels[static_cast<size_t>(row)]);
  ReaderMerge reader{.slot = part.slot,
                     .part = part.part,
                     .places = part.places,
                     .kept = solved.kept,
                     .Z = solved.Z,
                     .c = {},
                     .copies = solved.copies};
  const Slot& slot = map_.slots[part.slot];
  const Node& node = graph_.nodes[slot.node];
  if (solved.c.any().item<bool>()) {
    reader.c = solved.c;
    if (const std::string refusal = offset_refusal(graph_, slot); !refusal.empty()) outcome.refusals.insert(refusal);
    const bool copied = !solved.copies.empty() && solved.c.index_select(0, index_of(solved.copies)).any().item<bool>();
    if (copied && pads_with_zeros(node))
      outcome.refusals.insert(fmt::format("{} pads with zeros: an offset is exact inside only", describe(node)));
  }
  merge.readers.push_back(std::move(reader));
}

Merge ReaderMerging::merge(const ChannelGroup& group, const MergeFunction& method) {
  Merge merge;
  Outcome outcome;
  std::map<std::vector<ExpressionId>, Solved> known;  // by what arrives, wherever it is read
  std::vector<int64_t> removed;
  for (size_t i = 0; i < group.channels.size(); ++i)
    if (removed_.contains(group.channels[i])) removed.push_back(static_cast<int64_t>(i));
  for (const size_t s : group.consumers)
    for (const Part& part : parts_of(group, s)) {
      std::vector<ExpressionId> key;
      for (ExpressionId id : part.expressions) {
        while (expressions_[id].kind == ExpressionKind::at) id = expressions_[id].operands[0];
        key.push_back(id);
      }
      key.insert(key.end(), part.channels.begin(), part.channels.end());
      auto found = known.find(key);
      if (found == known.end()) found = known.emplace(key, solve(group, part, method)).first;
      take(part, found->second, merge, outcome);
      if (found->second.left.empty()) continue;
      if (outcome.reason.empty()) outcome.reason = found->second.reason;
      if (!found->second.reason.empty())
        outcome.refusals.insert(
            fmt::format("{}: {}", describe(graph_.nodes[map_.slots[s].node]), found->second.reason));
    }
  for (const int64_t i : removed) {
    const auto unfolded = expressions_.unfolded.find(static_cast<int64_t>(group.channels[static_cast<size_t>(i)]));
    if (unfolded == expressions_.unfolded.end()) continue;
    outcome.left.insert(i);
    outcome.refusals.insert(fmt::format("{} reads it without a weight", unfolded->second));
  }
  merge.merged = std::count_if(removed.begin(), removed.end(), [&](int64_t i) { return !outcome.left.contains(i); });
  merge.reason = fmt::format("{}", fmt::join(outcome.refusals, "; "));
  return merge;
}

}  // namespace pare
