#include "pare/compare.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "pare/analysis/cost.h"
#include "pare/error.h"

namespace pare {

namespace {

using Pairs = std::vector<std::pair<std::optional<size_t>, std::optional<size_t>>>;

int pair_weight(const Node& a, const Node& b) {
  if (a.op != b.op || a.domain != b.domain) return 0;
  return a.name == b.name ? 4 : 1;
}

// The table of a longest common subsequence by weight, from the back.
Pairs aligned(const Graph& a, const Graph& b) {
  const size_t rows = a.nodes.size();
  const size_t columns = b.nodes.size();
  if (rows * columns > size_t{100'000'000})
    throw Error(ErrorKind::failed, "diff", "{} and {} nodes are too many to be compared", rows, columns);
  std::vector<int> best((rows + 1) * (columns + 1), 0);
  const auto at = [&](size_t i, size_t j) -> int& { return best[i * (columns + 1) + j]; };
  for (size_t i = rows; i-- > 0;)
    for (size_t j = columns; j-- > 0;) {
      const int weight = pair_weight(a.nodes[i], b.nodes[j]);
      at(i, j) = std::max({at(i + 1, j), at(i, j + 1), weight > 0 ? weight + at(i + 1, j + 1) : 0});
    }
  Pairs pairs;
  for (size_t i = 0, j = 0; i < rows || j < columns;) {
    const bool both = i < rows && j < columns;
    const int weight = both ? pair_weight(a.nodes[i], b.nodes[j]) : 0;
    if (weight > 0 && at(i, j) == weight + at(i + 1, j + 1))
      pairs.emplace_back(i++, j++);
    else if (i < rows && (j == columns || at(i, j) == at(i + 1, j)))
      pairs.emplace_back(i++, std::nullopt);
    else
      pairs.emplace_back(std::nullopt, j++);
  }
  return pairs;
}

bool same_value(const at::Tensor& a, const at::Tensor& b) { return a.scalar_type() == b.scalar_type() && a.equal(b); }
template <typename T>
bool same_value(const T& a, const T& b) {
  return a == b;
}

bool same_attribute(const Attribute& a, const Attribute& b) {
  return std::visit(
      [&](const auto& value) {
        const auto* other = std::get_if<std::decay_t<decltype(value)>>(&b);
        return other != nullptr && same_value(value, *other);
      },
      a);
}

bool same_attributes(const Node& a, const Node& b) {
  return a.attributes.size() == b.attributes.size() &&
         std::all_of(a.attributes.begin(), a.attributes.end(), [&](const auto& entry) {
           const auto found = b.attributes.find(entry.first);
           return found != b.attributes.end() && same_attribute(entry.second, found->second);
         });
}

std::vector<at::Tensor> constants_of(const Graph& graph, const Node& node) {
  std::vector<at::Tensor> result;
  for (const auto& input : node.inputs)
    if (const auto found = graph.tensors.find(input); found != graph.tensors.end()) result.push_back(found->second);
  return result;
}

// The shapes differ: nothing. No constants at all: NaN. A number against none: infinite.
std::optional<double> distance_of(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return std::nullopt;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].sizes() != b[i].sizes() || a[i].scalar_type() != b[i].scalar_type()) return std::nullopt;
    const at::Tensor first = a[i].to(at::kDouble);
    const at::Tensor second = b[i].to(at::kDouble);
    const at::Tensor same = (first == second) | (at::isnan(first) & at::isnan(second));
    difference += at::where(same, at::zeros_like(first), first - second).square().sum().item<double>();
    norm += at::where(at::isfinite(first), first, at::zeros_like(first)).square().sum().item<double>();
  }
  if (a.empty()) return std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference / std::max(norm, 1e-300));
}

NodeSide side_of(const ModelCost& cost, size_t index) {
  const NodeCost& node = cost.nodes[index];
  return {index, node.name, node.output, node.parameters, node.macs};
}

// Do paired nodes read the same values? One that a node without a partner makes says nothing: that node is listed.
class Wiring {
 public:
  Wiring(const Graph& a, const Graph& b, const Pairs& pairs) : a_(a), b_(b) {
    for (size_t i = 0; i < std::min(a.inputs.size(), b.inputs.size()); ++i) pair(a.inputs[i].name, b.inputs[i].name);
    for (const auto& [first, second] : pairs) {
      if (!first || !second) continue;
      const auto& outputs = b.nodes[*second].outputs;
      for (size_t i = 0; i < a.nodes[*first].outputs.size(); ++i)
        pair(a.nodes[*first].outputs[i], i < outputs.size() ? outputs[i] : "");
    }
  }

  bool same(const Node& a, const Node& b) const {
    for (size_t i = 0; i < std::max(a.inputs.size(), b.inputs.size()); ++i) {
      const std::string first = computed_input(a_, a, i), second = computed_input(b_, b, i);
      if (first.empty() != second.empty()) return false;
      if (first.empty()) continue;
      const auto partner = partner_.find(first);
      if (partner != partner_.end() && paired_.contains(second) && partner->second != second) return false;
    }
    return true;
  }

 private:
  void pair(const std::string& a, const std::string& b) {
    partner_[a] = b;
    paired_.insert(b);
  }

  // Empty for constants, and for inputs that are left out.
  static std::string computed_input(const Graph& graph, const Node& node, size_t place) {
    if (place >= node.inputs.size() || graph.tensors.contains(node.inputs[place])) return "";
    return node.inputs[place];
  }

  const Graph& a_;
  const Graph& b_;
  std::map<std::string, std::string> partner_;  // of a value of a
  std::set<std::string> paired_;                // values of b that are one
};

void compare_nodes(const Graph& a, const Graph& b, const Wiring& wiring, NodeDiff& diff) {
  const Node& first = a.nodes[diff.a->index];
  const Node& second = b.nodes[diff.b->index];
  const auto distance = distance_of(constants_of(a, first), constants_of(b, second));
  if (distance) diff.weight_distance = *distance;
  const auto note = [&](bool changed, const char* what) {
    if (changed) diff.what += (diff.what.empty() ? "" : ", ") + std::string(what);
  };
  note(!same_attributes(first, second), "attributes");
  note(!wiring.same(first, second), "inputs");
  note(diff.a->output != diff.b->output, "output shape");
  note(!distance, "weight shape");
  note(distance && *distance != 0 && !std::isnan(*distance), "weights");
  if (!diff.what.empty()) diff.change = NodeChange::changed;
}

// "float32 ?x3x32x32": an extent that is not fixed is open, by whatever name.
std::string input_type(const ValueInfo& input) {
  std::string extents = input.dims ? "" : "?";
  if (input.dims)
    for (const Dim& dim : *input.dims)
      extents += (extents.empty() ? "" : "x") + (dim.fixed() && !dim.assumed ? std::to_string(dim.size) : "?");
  std::string type = to_string(TensorType{input.dtype, {}});
  return type.substr(0, type.find(' ')) + " " + extents;
}

// Names may differ: exporters choose them.
std::vector<InputDiff> changed_inputs(const Graph& a, const Graph& b) {
  std::vector<InputDiff> changed;
  for (size_t i = 0; i < std::max(a.inputs.size(), b.inputs.size()); ++i) {
    const auto type = [&](const Graph& graph) { return i < graph.inputs.size() ? input_type(graph.inputs[i]) : "-"; };
    if (type(a) == type(b)) continue;
    changed.push_back({i < a.inputs.size() ? a.inputs[i].name : b.inputs[i].name, type(a), type(b)});
  }
  return changed;
}

}  // namespace

std::string_view to_string(NodeChange change) {
  switch (change) {
    case NodeChange::same: return "same";
    case NodeChange::changed: return "changed";
    case NodeChange::added: return "added";
    case NodeChange::removed: return "removed";
  }
  return "";
}

size_t GraphDiff::count(NodeChange change) const {
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](const NodeDiff& node) { return node.change == change; }));
}

GraphDiff diff(const Graph& a, const Graph& b) {
  const ModelCost cost_a = cost_of(a);
  const ModelCost cost_b = cost_of(b);
  GraphDiff result;
  const Pairs pairs = aligned(a, b);
  const Wiring wiring(a, b, pairs);
  for (const auto& pair : pairs) {
    NodeDiff diff;
    if (pair.first) diff.a = side_of(cost_a, *pair.first);
    if (pair.second) diff.b = side_of(cost_b, *pair.second);
    diff.op = pair.first ? a.nodes[*pair.first].op : b.nodes[*pair.second].op;
    if (!pair.first)
      diff.change = NodeChange::added;
    else if (!pair.second)
      diff.change = NodeChange::removed;
    else
      compare_nodes(a, b, wiring, diff);
    result.nodes.push_back(std::move(diff));
  }
  result.inputs = changed_inputs(a, b);
  return result;
}

}  // namespace pare
