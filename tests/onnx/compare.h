// Are two graphs the same, up to the names of constants?
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "pare/graph.h"

namespace pare::testing_onnx {

inline bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

struct SameAttribute {
  const Attribute& other;
  template <typename T>
  bool operator()(const T& value) const {
    const T* twin = std::get_if<T>(&other);
    if constexpr (std::is_same_v<T, at::Tensor>)
      return twin != nullptr && same_tensor(value, *twin);
    else
      return twin != nullptr && (*twin == value || value != value);
  }
};

// Empty when they are, else the first difference.
inline std::string difference(const Graph& a, const Graph& b) {
  const auto names = [](const std::vector<ValueInfo>& infos) {
    std::string text;
    for (const auto& info : infos) text += info.name + ",";
    return text;
  };
  if (names(a.inputs) != names(b.inputs) || names(a.outputs) != names(b.outputs)) return "inputs or outputs";
  if (a.nodes.size() != b.nodes.size()) return fmt::format("{} nodes and {}", a.nodes.size(), b.nodes.size());
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node& m = a.nodes[i];
    const Node& n = b.nodes[i];
    const std::string where = describe(m) + " and " + describe(n) + ": ";
    if (m.op != n.op || m.domain != n.domain || m.name != n.name) return where + "operator or name";
    if (m.outputs != n.outputs || m.captures != n.captures || m.inputs.size() != n.inputs.size())
      return where + "values";
    for (size_t k = 0; k < m.inputs.size(); ++k) {
      const bool constant = a.is_constant(m.inputs[k]);
      if (constant != b.is_constant(n.inputs[k])) return where + "a constant and none";
      if (constant ? !same_tensor(a.tensor(m.inputs[k]), b.tensor(n.inputs[k])) : m.inputs[k] != n.inputs[k])
        return where + "input " + std::to_string(k);
    }
    if (m.attributes.size() != n.attributes.size()) return where + "number of attributes";
    for (const auto& [name, value] : m.attributes)
      if (!n.has(name) || !std::visit(SameAttribute{n.attributes.at(name)}, value)) return where + name;
  }
  return "";
}

}  // namespace pare::testing_onnx
