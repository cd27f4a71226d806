#include "pare/analysis/parameters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

#include "pare/ops/op.h"

namespace pare {

namespace {

// Makes scores or sizes of features: a product of two computed values, say.
bool ends_features(OpKind kind) { return kind == OpKind::linear || kind == OpKind::softmax || kind == OpKind::extents; }

constexpr double kMaskedOut = 1e4;  // a magnitude that no parameter has, and every additive mask

// Added to or multiplied with features: a single number or a mask is not.
bool may_be_learned(const at::Tensor& tensor) {
  if (tensor.numel() == 1) return false;
  const at::Tensor values = tensor.to(at::kFloat);
  if (!(values.abs() < kMaskedOut).all().item<bool>()) return false;  // nor NaN and infinities
  const at::Tensor zero = values.eq(0);
  const at::Tensor one = values.eq(1);
  const bool both = zero.any().item<bool>() && one.any().item<bool>();
  return !both || !zero.logical_or(one).all().item<bool>();
}

class Parameters {
 public:
  explicit Parameters(const Graph& graph) : graph_(graph) {
    for (const auto& node : graph.nodes) visit(node);
  }

  std::vector<std::string> names() const { return {names_.begin(), names_.end()}; }

 private:
  bool is_floating_constant(const Node& node, size_t input) const {
    if (!node.has_input(input) || !graph_.is_constant(node.inputs[input])) return false;
    const at::Tensor& tensor = graph_.tensor(node.inputs[input]);
    return at::isFloatingType(tensor.scalar_type()) && tensor.numel() > 0;
  }

  void visit(const Node& node) {
    bool is_layer = false;
    const OpTraits& traits = traits_of(node);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (traits.learned.contains(i) && is_floating_constant(node, i)) {
        is_layer = true;
        if (at::isfinite(graph_.tensor(node.inputs[i])).all().item<bool>()) names_.insert(node.inputs[i]);
      }
    if (node.domain.empty() && (node.op == "Add" || node.op == "Mul"))
      for (const size_t i : {0, 1})
        if (is_floating_constant(node, i) && node.has_input(1 - i) && features_.contains(node.inputs[1 - i]) &&
            may_be_learned(graph_.tensor(node.inputs[i])))
          names_.insert(node.inputs[i]);
    join_tokens(node);
    const auto is_feature = [this](const std::string& value) { return features_.contains(value); };
    if (is_layer || (!ends_features(traits.kind) && std::any_of(node.inputs.begin(), node.inputs.end(), is_feature)))
      features_.insert(node.outputs.begin(), node.outputs.end());
  }

  // Tokens that are not made of the input (a class token), which lie beside features; perhaps repeated for each sample.
  void join_tokens(const Node& node) {
    const OpKind kind = kind_of(node);
    if (kind == OpKind::repetition && is_floating_constant(node, 0)) repeated_[node.outputs.at(0)] = node.inputs[0];
    const auto is_feature = [this](const std::string& value) { return features_.contains(value); };
    if (kind != OpKind::join || std::none_of(node.inputs.begin(), node.inputs.end(), is_feature)) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto repeated = repeated_.find(node.inputs[i]);
      if (repeated == repeated_.end() && !is_floating_constant(node, i)) continue;
      const std::string& name = repeated == repeated_.end() ? node.inputs[i] : repeated->second;
      const at::Tensor& tensor = graph_.tensor(name);
      if (may_be_learned(tensor) && !tensor.eq(tensor.flatten()[0]).all().item<bool>()) names_.insert(name);
    }
  }

  const Graph& graph_;
  std::map<std::string, std::string> repeated_;  // values that repeat a constant, and which
  std::set<std::string> features_;               // values computed out of a layer's output
  std::set<std::string> names_;
};

}  // namespace

std::vector<std::string> trained_tensors(const Graph& graph) { return Parameters(graph).names(); }

}  // namespace pare
