#include "pare/passes/fuse_layer_norms.h"

#include <ATen/ATen.h>

#include <optional>

#include "pare/analysis/layer_norms.h"
#include "pare/analysis/shapes.h"
#include "pare/passes/nodes.h"

namespace pare {

namespace {

class Fusion {
 public:
  explicit Fusion(const Graph& graph) : graph_(graph), usage_(usage_of(graph)), shapes_(analysis_shapes(graph)) {}

  Graph run() const {
    Graph result = graph_;
    std::set<size_t> gone;
    for (const LayerNorm& norm : find_layer_norms(graph_))
      if (const auto node = fused(norm, result)) {
        const std::string kept = graph_.nodes[norm.last].outputs.at(0);
        result.nodes[norm.last] = *node;
        result.nodes[norm.last].outputs = {kept};
        gone.insert(norm.mean);
      }
    return gone.empty() ? graph_ : remove_unused(std::move(result));
  }

 private:
  // The operand of a node that is a constant, and what makes the other.
  struct Step {
    at::Tensor constant;
    const Node* maker = nullptr;
  };

  const Node* maker(const std::string& value) const {
    const auto found = usage_.producer.find(value);
    return found == usage_.producer.end() ? nullptr : &graph_.nodes[found->second];
  }

  Step step(const Node& node) const {
    for (const size_t i : {0, 1})
      if (graph_.is_constant(node.inputs.at(i))) return {graph_.tensor(node.inputs[i]), maker(node.inputs[1 - i])};
    return {};
  }

  std::optional<Node> fused(const LayerNorm& norm, Graph& result) const {
    const Node& mean = graph_.nodes[norm.mean];
    const TensorType* x = shapes_.find(mean.inputs.at(0));
    if (x == nullptr || x->rank() == 0 || !over_last_axis(mean, x->rank())) return {};
    const int64_t width = x->dims.back();
    const Node* node = &graph_.nodes[norm.last];
    const auto options = at::TensorOptions(x->dtype);
    at::Tensor shift, scale = at::ones({width}, options);
    for (const char* op : {"Add", "Mul"}) {
      if (node->op != op) continue;
      const Step found = step(*node);
      if (!found.constant.defined() || found.maker == nullptr || found.constant.numel() != width ||
          found.constant.size(-1) != width)
        return {};
      (node->op == "Add" ? shift : scale) = found.constant.reshape({width});
      node = found.maker;
    }
    if (node->op != "Div") return {};
    const Node* root = maker(node->inputs.at(1));
    const Node* sum = root == nullptr ? nullptr : maker(root->inputs.at(0));
    const Step epsilon = sum == nullptr ? Step{} : step(*sum);
    if (!epsilon.constant.defined() || epsilon.constant.numel() != 1) return {};
    Node whole{.name = graph_.nodes[norm.last].name, .op = "LayerNormalization", .inputs = {mean.inputs[0]}};
    whole.attributes = {{"axis", int64_t{-1}}, {"epsilon", epsilon.constant.item<double>()}};
    for (const at::Tensor& parameter : {scale, shift}) {
      if (!parameter.defined()) continue;
      whole.inputs.push_back(
          fresh_name(result, fmt::format("{}.{}", whole.name, whole.inputs.size() == 1 ? "scale" : "shift")));
      result.tensors[whole.inputs.back()] = parameter;
    }
    return whole;
  }

  bool over_last_axis(const Node& mean, int64_t rank) const {
    if (!mean.has_input(1) || !graph_.is_constant(mean.inputs[1]) || graph_.tensor(mean.inputs[1]).numel() != 1)
      return false;
    const int64_t axis = graph_.tensor(mean.inputs[1]).item<int64_t>();
    return axis == -1 || axis == rank - 1;
  }

  const Graph& graph_;
  const Usage usage_;
  const Shapes shapes_;
};

}  // namespace

Graph fuse_layer_norms(const Graph& graph) { return Fusion(graph).run(); }

}  // namespace pare
