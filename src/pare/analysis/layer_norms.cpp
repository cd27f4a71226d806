#include "pare/analysis/layer_norms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

namespace pare {

namespace {

class LayerNormFinder {
 public:
  explicit LayerNormFinder(const Graph& graph) : graph_(graph), usage_(usage_of(graph)) {}

  std::optional<LayerNorm> ending_in(size_t div) const {
    const Node& node = graph_.nodes[div];
    const Node* difference = maker(node, 0, "Sub");
    const Node* root = maker(node, 1, "Sqrt");
    const Node* shifted = root != nullptr ? maker(*root, 0, "Add") : nullptr;
    if (node.op != "Div" || difference == nullptr || shifted == nullptr) return std::nullopt;
    const Node* mean = maker(*difference, 1, "ReduceMean");
    const Node* variance = maker(*shifted, is_number(*shifted, 1) ? 0 : 1, "ReduceMean");
    if (mean == nullptr || variance == nullptr || mean->inputs[0] != difference->inputs[0] ||
        !squares_of(*variance, *difference))
      return std::nullopt;
    return LayerNorm{.mean = index(*mean), .variance = index(*variance), .last = after(after(div, "Mul"), "Add")};
  }

 private:
  size_t index(const Node& node) const { return static_cast<size_t>(&node - graph_.nodes.data()); }

  // The node that makes an input, if it is of this operator.
  const Node* maker(const Node& node, size_t input, const char* op) const {
    if (!node.has_input(input)) return nullptr;
    const auto made = usage_.producer.find(node.inputs[input]);
    if (made == usage_.producer.end()) return nullptr;
    const Node& found = graph_.nodes[made->second];
    return found.op == op && found.domain.empty() ? &found : nullptr;
  }

  bool is_number(const Node& node, size_t input) const {
    return node.has_input(input) && graph_.is_constant(node.inputs[input]) &&
           graph_.tensor(node.inputs[input]).numel() == 1;
  }

  bool squares_of(const Node& variance, const Node& difference) const {
    const auto same = [&](const Node& node, size_t input) {
      const Node* other = maker(node, input, "Sub");
      return other != nullptr && other->inputs == difference.inputs;
    };
    if (const Node* power = maker(variance, 0, "Pow"))
      return same(*power, 0) && is_number(*power, 1) && graph_.tensor(power->inputs[1]).item<double>() == 2;
    const Node* product = maker(variance, 0, "Mul");
    return product != nullptr && same(*product, 0) && same(*product, 1);
  }

  // The only reader of what a node makes, if it is of this operator and its other operand is a constant; else itself.
  size_t after(size_t node, const char* op) const {
    const auto readers = usage_.consumers.find(graph_.nodes[node].outputs.at(0));
    if (readers == usage_.consumers.end() || readers->second.size() != 1) return node;
    const Node& next = graph_.nodes[readers->second[0]];
    const auto constant = [&](const std::string& name) { return graph_.is_constant(name); };
    return next.op == op && std::ranges::any_of(next.inputs, constant) ? readers->second[0] : node;
  }

  const Graph& graph_;
  const Usage usage_;
};

}  // namespace

std::vector<LayerNorm> find_layer_norms(const Graph& graph) {
  std::vector<LayerNorm> norms;
  const LayerNormFinder finder(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (const auto norm = finder.ending_in(i)) norms.push_back(*norm);
  return norms;
}

}  // namespace pare
