#include "pare/analysis/expression_laws.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

namespace pare {

namespace {

struct NamedLaw {
  const char* op;
  Law law;
};

constexpr std::array kElementwise = {
    NamedLaw{"Relu", Law::homogeneous},  NamedLaw{"LeakyRelu", Law::homogeneous},
    NamedLaw{"PRelu", Law::homogeneous}, NamedLaw{"Abs", Law::homogeneous},
    NamedLaw{"Identity", Law::average},  NamedLaw{"Dropout", Law::average},
    NamedLaw{"Elu", Law::rigid},         NamedLaw{"Selu", Law::rigid},
    NamedLaw{"Celu", Law::rigid},        NamedLaw{"Gelu", Law::rigid},
    NamedLaw{"Sigmoid", Law::rigid},     NamedLaw{"HardSigmoid", Law::rigid},
    NamedLaw{"HardSwish", Law::rigid},   NamedLaw{"Mish", Law::rigid},
    NamedLaw{"Tanh", Law::rigid},        NamedLaw{"Softplus", Law::rigid},
    NamedLaw{"Softsign", Law::rigid},    NamedLaw{"ThresholdedRelu", Law::rigid},
    NamedLaw{"Clip", Law::rigid},        NamedLaw{"Erf", Law::rigid},
    NamedLaw{"Exp", Law::rigid},         NamedLaw{"Sqrt", Law::rigid},
    NamedLaw{"Sin", Law::rigid},         NamedLaw{"Cos", Law::rigid},
    NamedLaw{"Shrink", Law::rigid},      NamedLaw{"Log", Law::rigid},
};

constexpr std::array kWindows = {NamedLaw{"MaxPool", Law::order},
                                 NamedLaw{"GlobalMaxPool", Law::order},
                                 NamedLaw{"GlobalAveragePool", Law::average},
                                 NamedLaw{"LpPool", Law::homogeneous},
                                 NamedLaw{"GlobalLpPool", Law::homogeneous},
                                 NamedLaw{"ReduceMean", Law::average},
                                 NamedLaw{"ReduceSum", Law::linear},
                                 NamedLaw{"ReduceMax", Law::order},
                                 NamedLaw{"ReduceMin", Law::order},
                                 NamedLaw{"ReduceL1", Law::homogeneous},
                                 NamedLaw{"ReduceL2", Law::homogeneous},
                                 NamedLaw{"InstanceNormalization", Law::rigid}};

std::optional<Law> find_law(std::span<const NamedLaw> laws, const Node& node) {
  if (!node.domain.empty()) return {};
  const auto found = std::find_if(laws.begin(), laws.end(), [&](const NamedLaw& law) { return node.op == law.op; });
  return found == laws.end() ? std::nullopt : std::optional(found->law);
}

bool any_pads(const Node& node) {
  const auto pads = node.integers("pads");
  const std::string automatic = node.text("auto_pad", "NOTSET");
  return std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; }) ||
         (automatic != "NOTSET" && automatic != "VALID");
}

// A constant input that is a single number; nothing when it is computed.
std::optional<double> number_of(const Graph& graph, const Node& node, size_t input, double otherwise) {
  if (!node.has_input(input)) return otherwise;
  if (!graph.is_constant(node.inputs[input]) || graph.tensor(node.inputs[input]).numel() != 1) return {};
  return graph.tensor(node.inputs[input]).to(at::kDouble).item<double>();
}

Law average_pool_law(const Node& node) {
  const bool counts_zeros = node.integer("count_include_pad", 0) != 0;
  return counts_zeros && (any_pads(node) || node.integer("ceil_mode", 0) != 0) ? Law::linear : Law::average;
}

std::optional<Law> pad_law(const Graph& graph, const Node& node) {
  if (node.text("mode", "constant") != "constant") return Law::average;
  return number_of(graph, node, 2, 0) == 0.0 ? Law::linear : Law::rigid;
}

}  // namespace

bool pads_with_zeros(const Node& node) {
  // A transposed convolution leaves out terms at the border, and between its strides.
  return any_pads(node) || node.op == "ConvTranspose";
}

std::optional<Law> elementwise_law(const Graph& graph, const Node& node) {
  if (node.op == "Dropout" && number_of(graph, node, 2, 0) != 0.0) return {};  // it is training
  if (node.op == "Clip") {
    const auto low = number_of(graph, node, 1, -1), high = number_of(graph, node, 2, -1);
    if (!low || !high) return {};
    if (*low == 0 && !node.has_input(2)) return Law::homogeneous;
  }
  return find_law(kElementwise, node);
}

std::optional<Law> window_law(const Graph& graph, const Node& node) {
  if (node.domain.empty() && node.op == "AveragePool") return average_pool_law(node);
  if (node.domain.empty() && node.op == "Pad") return pad_law(graph, node);
  if (node.domain.empty() && node.op == "Resize")
    return node.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" ? Law::linear
                                                                                             : Law::average;
  return find_law(kWindows, node);
}

}  // namespace pare
