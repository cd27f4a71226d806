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

LatencyTable::LatencyTable(const Graph& graph, const ChannelMap& map, const std::vector<Candidate>& groups,
                           const LatencyMeter& meter, Observer& observer)
    : macs_(graph, map, Budget::macs) {
  struct Place {
    size_t node;
    double left;
  };
  std::vector<Place> places;
  std::vector<Graph> alone;
  for (const double left : {1.0, 0.75, 0.5, 0.25}) {
    const std::set<ChannelId> removed = removed_everywhere(groups, left);
    const Graph narrow = removed.empty() ? graph : remove_channels(graph, map, removed);
    const Shapes shapes = analysis_shapes(narrow, {.batch = meter.batch()});
    for (const auto& [node, part] : macs_.parts_left(removed)) {
      if (shapes.find(narrow.nodes[node].outputs.front()) == nullptr) continue;
      places.push_back({node, part});
      alone.push_back(layer_alone(narrow, shapes, node));
    }
  }
  if (places.empty()) throw Error(ErrorKind::unsupported, "latency", "no layer could be measured by itself");
  // What a call costs by itself is no layer's.
  Graph nothing{.name = "nothing", .inputs = {value_info("x", {at::kFloat, {1, 1}})}};
  nothing.nodes.push_back({.op = "Relu", .inputs = {"x"}, .outputs = {"y"}});
  nothing.outputs = {value_info("y", {at::kFloat, {1, 1}})};
  // A few at a time: the threads of many models at once get into each other's way.
  constexpr size_t kTogether = 6;
  std::vector<Latency> times;
  for (size_t begin = 0; begin < alone.size(); begin += kTogether) {
    const size_t end = std::min(begin + kTogether, alone.size());
    const std::vector<Graph> some(alone.begin() + static_cast<int64_t>(begin),
                                  alone.begin() + static_cast<int64_t>(end));
    const auto own = meter.measure(some, {.rounds = 40, .seconds = 3});
    times.insert(times.end(), own.begin(), own.end());
    observer.step("timing layers", static_cast<int64_t>(end), static_cast<int64_t>(alone.size()));
  }
  const auto both = meter.measure({nothing, graph}, {.rounds = 100, .seconds = 5});
  const double call = both[0].undisturbed();
  whole_ = both[1].undisturbed();
  std::map<size_t, std::vector<std::pair<double, double>>> points;
  for (size_t i = 0; i < places.size(); ++i)
    points[places[i].node].emplace_back(places[i].left, std::max(times[i].undisturbed() - call, 0.0));
  double sum = 0;
  for (auto& [node, own] : points) {
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
