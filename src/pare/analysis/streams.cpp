#include "pare/analysis/streams.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "pare/ops/traits.h"

namespace pare {

namespace {

// The ids of a value where they vary along one axis alone.
struct AlongAxis {
  int64_t axis = -1;
  std::vector<int64_t> ids;
};

AlongAxis along_axis(const at::Tensor& ids) {
  AlongAxis found;
  for (int64_t axis = 0; axis < ids.dim(); ++axis) {
    if (ids.size(axis) == 1) continue;
    if (found.axis >= 0) return {};
    found.axis = axis;
  }
  const at::Tensor flat = ids.contiguous();
  if (found.axis >= 0) found.ids.assign(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel());
  return found;
}

class StreamSearch {
 public:
  StreamSearch(const Graph& graph, const ChannelMap& map, Stream& stream) : graph_(graph), map_(map), stream_(stream) {
    members_.insert(stream.ids.begin(), stream.ids.end());
  }

  void run() {
    if (map_.sets.fixed(stream_.ids.front())) return refuse(map_.sets.reason(stream_.ids.front()));
    for (const int64_t id : stream_.ids)
      if (map_.sets.fixed(id)) return refuse(map_.sets.reason(id));
    for (size_t s = 0; s < map_.slots.size(); ++s)
      if (holds(map_.slots[s].ids)) slots_[map_.slots[s].node].push_back(s);
    for (size_t n = 0; n < graph_.nodes.size() && stream_.reason.empty(); ++n)
      if (touches(graph_.nodes[n])) visit(n);
    if (stream_.reason.empty() && kinds_ == 3) refuse("some of its norms subtract the mean and others don't");
    if (stream_.reason.empty() && kinds_ == 2 && !read_plainly_.empty())
      refuse(fmt::format("{} reads it without the norm that subtracts its mean", read_plainly_));
    stream_.centred = kinds_ == 2;
  }

 private:
  void refuse(const std::string& reason) {
    if (stream_.reason.empty()) stream_.reason = reason;
  }

  bool holds(const std::vector<int64_t>& ids) const {
    return std::any_of(ids.begin(), ids.end(), [&](int64_t id) { return members_.contains(id); });
  }

  // Where the stream's channels lie in a value: nullopt-like empty list where it carries none of them.
  AlongAxis in_value(const std::string& value) const {
    const auto found = map_.values.find(value);
    if (found == map_.values.end()) return {};
    const AlongAxis along = along_axis(found->second);
    return holds(along.ids) ? along : AlongAxis{};
  }

  bool carries(const std::string& value) const {
    const auto found = map_.values.find(value);
    if (found == map_.values.end()) return false;
    const at::Tensor flat = found->second.contiguous();
    return std::any_of(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel(),
                       [&](int64_t id) { return members_.contains(id); });
  }

  bool touches(const Node& node) const {
    const auto is = [&](const std::string& value) { return carries(value); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is);
  }

  void visit(size_t n) {
    const Node& node = graph_.nodes[n];
    for (const auto& output : node.outputs)
      if (carries(output) && places_of(in_value(output).ids, stream_.ids).empty())
        return refuse(fmt::format("{} parts its channels", describe(node)));
    const OpKind kind = kind_of(node);
    if (is_stream_norm(node) && carries(node.inputs[0])) return norm(n);
    if (kind == OpKind::linear) return linear(n);
    if (kind == OpKind::sum) return sum(n);
    const bool moves = moves_elements(kind) || kind == OpKind::same;
    const bool scaled = kind == OpKind::product && by_one_number(node);
    if (!moves && !scaled && kind != OpKind::average && kind != OpKind::extents)
      return refuse(fmt::format("{} treats its channels one by one", describe(node)));
    if (kind == OpKind::padding && !pads_with_zeros(node))
      return refuse(fmt::format("{} pads it with other numbers than zero", describe(node)));
    if (keeps_shift(kind, node)) keep_shift(node);
    for (const size_t s : slots_[n])
      if (kind == OpKind::selection || kind == OpKind::join || kind == OpKind::repetition)
        stream_.writers.push_back(s);  // a table of embeddings, tokens that are joined
      else
        return refuse(fmt::format("{} has a number for each of its channels", describe(node)));
    pass_on(node);
  }

  // A norm's result is itself on its way: only to linear layers.
  void pass_on(const Node& node) {
    for (const auto& input : node.inputs)
      if (const auto from = normed_.find(input); from != normed_.end())
        for (const auto& output : node.outputs) normed_.emplace(output, from->second);
  }

  void norm(size_t n) {
    const Node& node = graph_.nodes[n];
    if (normed_.contains(node.inputs[0])) return refuse(fmt::format("{} follows another norm", describe(node)));
    const AlongAxis x = in_value(node.inputs[0]);
    const auto places = places_of(x.ids, stream_.ids);
    const auto rank = map_.values.at(node.inputs[0]).dim();
    if (places.empty() || x.axis != rank - 1 || std::ssize(x.ids) != std::ssize(places) * stream_.width())
      return refuse(fmt::format("{} normalises it together with others", describe(node)));
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (node.has_input(i) && !graph_.is_constant(node.inputs[i]))
        return refuse(fmt::format("the scale of {} is computed", describe(node)));
    if (places.size() > 1 && node.op == "LayerNormalization")
      return refuse(fmt::format("{} subtracts one mean of the channels of {} tokens", describe(node), places.size()));
    kinds_ |= node.op == "LayerNormalization" ? 2 : 1;
    stream_.norms.push_back(n);
    normed_.emplace(node.outputs.at(0), n);
  }

  void linear(size_t n) {
    const Node& node = graph_.nodes[n];
    const bool writes =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& value) { return carries(value); });
    bool through = writes;  // along another axis
    for (const size_t s : slots_[n]) {
      const Slot& slot = map_.slots[s];
      if (slot.parts > 1 || node.integer("group", 1) != 1)
        return refuse(fmt::format("{} treats its channels in groups", describe(node)));
      if (slot.role == SlotRole::producer) {
        stream_.writers.push_back(s);
        through = false;
        continue;
      }
      if (slot.role != SlotRole::consumer)
        return refuse(fmt::format("{} has a number for each of its channels", describe(node)));
      if (places_of(slot.ids, stream_.ids).empty())
        return refuse(fmt::format("{} reads some of its channels", describe(node)));
      stream_.readers.push_back(s);
      const std::string& value = node.inputs.at(1 - std::min<size_t>(slot.input, 1));
      if (!normed_.contains(value)) read_plainly_ = describe(node);
    }
    if (through && std::any_of(node.inputs.begin(), node.inputs.end(),
                               [&](const std::string& value) { return normed_.contains(value); }))
      keep_shift(node);
    if (through) pass_on(node);
  }

  void sum(size_t n) {
    const Node& node = graph_.nodes[n];
    for (const auto& input : node.inputs) {
      if (normed_.contains(input))
        return refuse(fmt::format("what its norm {} gives goes on into a sum: its scale has no layer to go to",
                                  describe(graph_.nodes[normed_.at(input)])));
      if (!graph_.is_constant(input) && !carries(input))
        return refuse(fmt::format("{} adds to it what has no channels", describe(node)));
    }
    size_t constants = 0;
    for (const auto& input : node.inputs) constants += graph_.is_constant(input) ? 1 : 0;
    if (slots_[n].size() < constants)
      return refuse(fmt::format("{} adds one number to all of its channels", describe(node)));
    for (const size_t s : slots_[n]) stream_.writers.push_back(s);
  }

  // A shift that a norm adds to all tokens is not the same after this: it can't go to the reader's bias.
  void keep_shift(const Node& node) {
    for (const auto& input : node.inputs) {
      const auto from = normed_.find(input);
      if (from == normed_.end()) continue;
      const Node& norm = graph_.nodes[from->second];
      if (norm.has_input(2) && graph_.tensor(norm.inputs[2]).ne(0).any().item<bool>())
        return refuse(fmt::format("{} lies between the shift of {} and its readers", describe(node), describe(norm)));
    }
  }

  bool keeps_shift(OpKind kind, const Node& node) const {
    const bool mean = node.op == "ReduceMean" || node.op == "GlobalAveragePool";
    return (kind == OpKind::padding && !pads_nothing(node)) || (kind == OpKind::average && !mean) ||
           kind == OpKind::product || kind == OpKind::join;
  }

  bool pads_nothing(const Node& node) const {
    return node.has_input(1) && graph_.is_constant(node.inputs[1]) &&
           graph_.tensor(node.inputs[1]).eq(0).all().item<bool>();
  }

  bool pads_with_zeros(const Node& node) const {
    return node.text("mode", "constant") == "constant" &&
           (!node.has_input(2) ||
            (graph_.is_constant(node.inputs[2]) && graph_.tensor(node.inputs[2]).eq(0).all().item<bool>()));
  }

  bool by_one_number(const Node& node) const {
    const size_t constant = graph_.is_constant(node.inputs.at(0)) ? 0 : 1;
    return graph_.is_constant(node.inputs.at(constant)) && graph_.tensor(node.inputs[constant]).numel() == 1 &&
           (constant == 1 || node.op == "Mul");
  }

  const Graph& graph_;
  const ChannelMap& map_;
  Stream& stream_;
  std::set<int64_t> members_;
  std::map<size_t, std::vector<size_t>> slots_;  // of the stream, by node
  std::map<std::string, size_t> normed_;         // what a norm gives, moved or not, and which
  int kinds_ = 0;                                // 1: norms that don't subtract the mean; 2: that do
  std::string read_plainly_;                     // a linear layer that reads the stream itself
};

// The group that norms read along the last axis, once for each place that it lies in.
std::vector<Stream> candidates(const Graph& graph, const ChannelMap& map) {
  std::map<int64_t, size_t> group_of;
  for (size_t g = 0; g < map.groups.size(); ++g)
    for (const ChannelId id : map.groups[g].channels) group_of.emplace(static_cast<int64_t>(id), g);
  std::map<std::set<int64_t>, Stream> found;
  for (const Node& node : graph.nodes) {
    if (!is_stream_norm(node)) continue;
    const auto ids = map.values.find(node.inputs.at(0));
    if (ids == map.values.end()) continue;
    const AlongAxis along = along_axis(ids->second);
    const std::set<int64_t> members(along.ids.begin(), along.ids.end());
    if (members.size() < 2 || members.contains(kUnlabelled) || found.contains(members)) continue;
    Stream stream;
    stream.name = map.groups[group_of.at(*members.begin())].name;
    for (const int64_t id : along.ids)
      if (std::find(stream.ids.begin(), stream.ids.end(), id) == stream.ids.end()) stream.ids.push_back(id);
    found.emplace(members, std::move(stream));
  }
  std::vector<Stream> all;
  for (auto& [members, stream] : found) all.push_back(std::move(stream));
  return all;
}

}  // namespace

bool is_stream_norm(const Node& node) {
  const bool own = node.domain.empty() && (node.op == "LayerNormalization" || node.op == "RMSNormalization");
  return own && node.integer("axis", -1) == -1 && node.outputs.size() == 1;
}

std::vector<std::vector<int64_t>> places_of(const std::vector<int64_t>& listed, const std::vector<int64_t>& ids) {
  std::map<int64_t, std::vector<int64_t>> at;
  for (size_t i = 0; i < listed.size(); ++i) at[listed[i]].push_back(static_cast<int64_t>(i));
  const auto first = at.find(ids.front());
  if (first == at.end()) return {};
  std::vector<std::vector<int64_t>> places(first->second.size());
  for (const int64_t id : ids) {
    const auto found = at.find(id);
    if (found == at.end() || found->second.size() != places.size()) return {};
    for (size_t k = 0; k < places.size(); ++k) places[k].push_back(found->second[k]);
  }
  return places;
}

Streams find_streams(const Graph& graph) {
  Streams streams{.map = analyze_channels(graph, {}, ChannelUse::exchange), .all = {}};
  streams.all = candidates(graph, streams.map);
  for (Stream& stream : streams.all) StreamSearch(graph, streams.map, stream).run();
  return streams;
}

}  // namespace pare
