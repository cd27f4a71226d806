#include "pare/zoo/init.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <map>
#include <set>

#include "pare/ops/op.h"
#include "pare/ops/traits.h"

namespace pare {
namespace {

class Initializer {
 public:
  Initializer(Graph& graph, uint64_t seed)
      : graph_(graph), generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  void node(const Node& node) {
    if (kind_of(node) == OpKind::linear) return layer(node);
    const OpTraits& traits = traits_of(node);
    if (traits.kind == OpKind::normalization && traits.learned.contains(1)) {
      fill(node, 1, 1.0);
      fill(node, 2, 0.0);
    }
    if (is_batch_norm(node)) {
      fill(node, 3, 0.0);
      fill(node, 4, 1.0);
    }
    if (node.op == "Add" && node.domain.empty()) bias_of_product(node);
    if (traits.kind == OpKind::selection || traits.kind == OpKind::repetition) table(node);
  }

 private:
  // The tensor of input `i`, or nullptr when the graph does not carry it or it has its values already.
  at::Tensor* fresh(const Node& node, size_t i) {
    if (!node.has_input(i)) return nullptr;
    const auto found = graph_.tensors.find(node.inputs[i]);
    if (found == graph_.tensors.end() || !found->second.is_floating_point()) return nullptr;
    return done_.insert(found->first).second ? &found->second : nullptr;
  }

  void layer(const Node& node) {
    const auto weight = node.has_input(1) ? graph_.tensors.find(node.inputs[1]) : graph_.tensors.end();
    if (weight == graph_.tensors.end()) return;
    const auto linear = linear_layer(node, 1, weight->second.dim());
    if (!linear) return;
    double fan_in = static_cast<double>(weight->second.size(linear->in_axis));
    for (int64_t axis = 2; axis < weight->second.dim(); ++axis)
      fan_in *= static_cast<double>(weight->second.size(axis));
    // PyTorch's own steps, so that the last bit agrees: gain(a) = √(2 / (1 + a²)), bound = √3 · gain / √fan_in.
    const double a = std::sqrt(5.0);
    const double gain = std::sqrt(2.0 / (1 + a * a));
    draw(node, 1, std::sqrt(3.0) * (gain / std::sqrt(fan_in)));
    draw(node, 2, 1 / std::sqrt(fan_in));
    if (!linear->takes_bias) bounds_[node.outputs.at(0)] = 1 / std::sqrt(fan_in);
  }

  // The bias that is added to a product whose fan-in is known by now.
  void bias_of_product(const Node& node) {
    if (const auto product = bounds_.find(node.inputs.at(0)); product != bounds_.end()) draw(node, 1, product->second);
  }

  void table(const Node& node) {
    at::Tensor* tensor = fresh(node, 0);
    if (tensor != nullptr && tensor->eq(0).all().item<bool>())
      *tensor = at::empty_like(*tensor).normal_(0, 0.02, generator_);
  }

  void draw(const Node& node, size_t i, double bound) {
    if (at::Tensor* tensor = fresh(node, i)) *tensor = at::empty_like(*tensor).uniform_(-bound, bound, generator_);
  }

  void fill(const Node& node, size_t i, double value) {
    if (at::Tensor* tensor = fresh(node, i)) *tensor = at::full_like(*tensor, value);
  }

  Graph& graph_;
  at::Generator generator_;
  std::set<std::string> done_;
  std::map<std::string, double> bounds_;  // of the biases that are added to these values
};

}  // namespace

Graph initialize(Graph graph, uint64_t seed) {
  Initializer initializer(graph, seed);
  for (const Node& node : graph.nodes) initializer.node(node);
  return graph;
}

}  // namespace pare
