#include "pare/workflow/latency_table.h"

#include <algorithm>

#include "pare/analysis/layers.h"
#include "pare/analysis/shapes.h"
#include "pare/error.h"
#include "pare/ops/traits.h"
#include "pare/passes/remove_channels.h"

namespace pare {

namespace {

ValueInfo value_info(const std::string& name, const TensorType& type) {
  ValueInfo info{.name = name, .dtype = type.dtype, .dims = std::vector<Dim>{}};
  for (const int64_t extent : type.dims) info.dims->push_back({.size = extent});
  return info;
}

// Channels of all groups that may be cut, so that about this part of each is left.
std::set<ChannelId> removed_everywhere(const std::vector<Candidate>& groups, double left) {
  std::set<ChannelId> removed;
  for (const auto& group : groups) {
    if (!group.open()) continue;
    const int64_t kept = kept_count(group.plan.total, 1 - left, group.unit);
    const auto count = std::min<int64_t>(group.plan.total - kept, static_cast<int64_t>(group.removable.size()));
    removed.insert(group.removable.begin(), group.removable.begin() + count);
  }
  return removed;
}

}  // namespace

double LatencyCurve::at(double part) const {
  if (left.size() == 1) return seconds[0] * part / left[0];
  size_t next = 1;
  while (next + 1 < left.size() && left[next] < part) ++next;
  const double t = (part - left[next - 1]) / (left[next] - left[next - 1]);
  return std::max(0.0, seconds[next - 1] + t * (seconds[next] - seconds[next - 1]));
}

LatencyCurve latency_curve(std::vector<std::pair<double, double>> points) {
  std::sort(points.begin(), points.end());
  LatencyCurve curve;
  for (const auto& [left, seconds] : points) {
    if (!curve.left.empty() && left - curve.left.back() < 1e-9) {
      curve.seconds.back() = std::min(curve.seconds.back(), seconds);
      continue;
    }
    curve.left.push_back(left);
    curve.seconds.push_back(seconds);
  }
  for (size_t i = curve.seconds.size(); i-- > 1;)
    curve.seconds[i - 1] = std::min(curve.seconds[i - 1], curve.seconds[i]);
  return curve;
}

Graph layer_alone(const Graph& graph, const Shapes& shapes, size_t node) {
  Graph alone{.name = "layer"};
  const auto take = [&](const Node& own) {
    for (const auto& input : own.inputs) {
      if (input.empty() || alone.is_constant(input)) continue;
      const bool made = std::any_of(alone.nodes.begin(), alone.nodes.end(),
                                    [&](const Node& other) { return other.outputs.front() == input; });
      if (graph.is_constant(input))
        alone.tensors.emplace(input, graph.tensor(input));
      else if (!made)
        alone.inputs.push_back(value_info(input, shapes.types.at(input)));
    }
    alone.nodes.push_back(own);
  };
  take(graph.nodes[node]);
  const Usage usage = usage_of(graph);
  if (const auto reader = only_reader(graph, usage, node);
      reader && kind_of(graph.nodes[*reader]) == OpKind::activation)
    take(graph.nodes[*reader]);
  const std::string& output = alone.nodes.back().outputs.front();
  alone.outputs.push_back(value_info(output, shapes.types.at(output)));
  return alone;
}

namespace {

// By node: the part of its multiply-accumulates that is left, and the seconds that it takes then.
using LayerTimes = std::map<size_t, std::vector<std::pair<double, double>>>;

Graph narrowed(const Graph& graph, const ChannelMap& map, const std::set<ChannelId>& removed) {
  return removed.empty() ? graph : remove_channels(graph, map, removed);
}

// The layer that a node which was timed is, or to which the runtime joined it: what goes before it through activations
// and sums.
std::optional<size_t> layer_of(const Graph& graph, const Usage& usage, const std::map<size_t, double>& layers,
                               const NodeTime& timed) {
  size_t node = timed.node;
  while (!layers.contains(node)) {
    const Node& own = graph.nodes[node];
    const OpKind kind = kind_of(own);
    if (own.op == timed.op || (kind != OpKind::activation && kind != OpKind::sum)) return {};
    std::optional<size_t> before;  // the last that makes something of what it reads
    for (const auto& input : own.inputs)
      if (const auto maker = usage.producer.find(input); maker != usage.producer.end())
        before = std::max(before.value_or(0), maker->second);
    if (!before) return {};
    node = *before;
  }
  return node;
}

LayerTimes times_in_place(const Graph& graph, const ChannelMap& map, const std::vector<Candidate>& groups,
                          const PrunedCost& macs, const LatencyMeter& meter, Observer& observer) {
  const std::vector<double> widths = {1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25};
  const Usage usage = usage_of(graph);
  LayerTimes times;
  for (size_t w = 0; w < widths.size(); ++w) {
    const std::set<ChannelId> removed = removed_everywhere(groups, widths[w]);
    const std::map<size_t, double> parts = macs.parts_left(removed);
    std::map<size_t, double> seconds;
    for (const auto& timed : meter.node_times(narrowed(graph, map, removed)))
      if (const auto layer = layer_of(graph, usage, parts, timed)) seconds[*layer] += timed.seconds;
    for (const auto& [layer, own] : seconds) times[layer].emplace_back(parts.at(layer), own);
    observer.step("timing layers", static_cast<int64_t>(w) + 1, static_cast<int64_t>(widths.size()));
  }
  return times;
}

LayerTimes times_by_themselves(const Graph& graph, const ChannelMap& map, const std::vector<Candidate>& groups,
                               const PrunedCost& macs, const LatencyMeter& meter, Observer& observer) {
  struct Place {
    size_t node;
    double left;
  };
  std::vector<Place> places;
  // What a call costs by itself is no layer's.
  Graph nothing{.name = "nothing", .inputs = {value_info("x", {at::kFloat, {1, 1}})}};
  nothing.nodes.push_back({.op = "Relu", .inputs = {"x"}, .outputs = {"y"}});
  nothing.outputs = {value_info("y", {at::kFloat, {1, 1}})};
  std::vector<Graph> alone = {nothing};
  for (const double left : {1.0, 0.75, 0.5, 0.25}) {
    const std::set<ChannelId> removed = removed_everywhere(groups, left);
    const Graph narrow = narrowed(graph, map, removed);
    const Shapes shapes = analysis_shapes(narrow, {.batch = meter.batch()});
    for (const auto& [node, part] : macs.parts_left(removed)) {
      if (shapes.find(narrow.nodes[node].outputs.front()) == nullptr) continue;
      places.push_back({node, part});
      alone.push_back(layer_alone(narrow, shapes, node));
    }
  }
  // A few at a time: the threads of many models at once get into each other's way.
  constexpr size_t kTogether = 6;
  std::vector<Latency> taken;
  for (size_t begin = 0; begin < alone.size(); begin += kTogether) {
    const size_t end = std::min(begin + kTogether, alone.size());
    const std::vector<Graph> some(alone.begin() + static_cast<int64_t>(begin),
                                  alone.begin() + static_cast<int64_t>(end));
    const auto own = meter.measure(some, {.rounds = 10, .seconds = 3});
    taken.insert(taken.end(), own.begin(), own.end());
    observer.step("timing layers", static_cast<int64_t>(end), static_cast<int64_t>(alone.size()));
  }
  LayerTimes times;
  for (size_t i = 0; i < places.size(); ++i)
    times[places[i].node].emplace_back(places[i].left,
                                       std::max(taken[i + 1].undisturbed() - taken[0].undisturbed(), 0.0));
  return times;
}

}  // namespace

LatencyTable::LatencyTable(const Graph& graph, const ChannelMap& map, const std::vector<Candidate>& groups,
                           const LatencyMeter& meter, Observer& observer)
    : macs_(graph, map, Budget::macs) {
  LayerTimes times = times_in_place(graph, map, groups, macs_, meter, observer);
  if (times.empty()) times = times_by_themselves(graph, map, groups, macs_, meter, observer);
  if (times.empty()) throw Error(ErrorKind::unsupported, "latency", "no layer could be measured");
  whole_ = meter.measure({graph}, {.rounds = 60, .seconds = 5})[0].undisturbed();
  double sum = 0;
  for (auto& [node, own] : times) {
    layers_[node] = latency_curve(std::move(own));
    sum += layers_[node].at(1);
  }
  scale_ = sum > whole_ ? whole_ / sum : 1;
}

double LatencyTable::operator()(const std::set<ChannelId>& removed) const {
  double saved = 0;
  for (const auto& [node, part] : macs_.parts_left(removed))
    if (const auto layer = layers_.find(node); layer != layers_.end())
      saved += layer->second.at(1) - layer->second.at(part);
  return whole_ - scale_ * saved;
}

}  // namespace pare
