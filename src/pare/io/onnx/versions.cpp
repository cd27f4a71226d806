#include "pare/io/onnx/versions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string_view>

#include "pare/error.h"
#include "pare/io/onnx/upgrade.h"

namespace pare {

namespace {

struct OperatorSince {
  std::string_view op;
  int64_t opset;
};

// Operators that came after opset 11.
constexpr OperatorSince kSince[] = {
    {"Celu", 12},
    {"Einsum", 12},
    {"GreaterOrEqual", 12},
    {"LessOrEqual", 12},
    {"NegativeLogLikelihoodLoss", 12},
    {"SoftmaxCrossEntropyLoss", 12},
    {"HardSwish", 14},
    {"Trilu", 14},
    {"Bernoulli", 15},
    {"CastLike", 15},
    {"Optional", 15},
    {"OptionalGetElement", 15},
    {"OptionalHasElement", 15},
    {"GridSample", 16},
    {"BlackmanWindow", 17},
    {"HammingWindow", 17},
    {"HannWindow", 17},
    {"LayerNormalization", 17},
    {"MelWeightMatrix", 17},
    {"SequenceMap", 17},
    {"STFT", 17},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"CenterCropPad", 18},
    {"Col2Im", 18},
    {"Mish", 18},
    {"AffineGrid", 20},
    {"DFT", 20},  // 17 had the axis as an attribute
    {"Gelu", 20},
    {"ImageDecoder", 20},
    {"RegexFullMatch", 20},
    {"StringConcat", 20},
    {"StringSplit", 20},
    {"Attention", 23},
    {"RMSNormalization", 23},
    {"RotaryEmbedding", 23},
    {"Swish", 24},
    {"TensorScatter", 24},
    {"BitCast", 26},
    {"CumProd", 26},
    {"CausalConvWithState", 27},
    {"LinearAttention", 27},
    {"SwiGLU", 28},
};

struct AttributeSince {
  std::string_view op;
  std::string_view attribute;
  int64_t opset;
  std::string_view harmless;  // with this value the attribute can be left out below the opset
};

constexpr AttributeSince kAttributes[] = {
    {"ArgMax", "select_last_index", 12, "0"},
    {"ArgMin", "select_last_index", 12, "0"},
    {"QuantizeLinear", "axis", 13, ""},
    {"DequantizeLinear", "axis", 13, ""},
    {"BatchNormalization", "training_mode", 14, "0"},
    {"Reshape", "allowzero", 14, "0"},
    {"RNN", "layout", 14, "0"},
    {"GRU", "layout", 14, "0"},
    {"LSTM", "layout", 14, "0"},
    {"Shape", "start", 15, "0"},
    {"Shape", "end", 15, ""},
    {"ScatterElements", "reduction", 16, "none"},
    {"ScatterND", "reduction", 16, "none"},
    {"LpPool", "ceil_mode", 18, "0"},
    {"LpPool", "dilations", 18, "1"},
    {"Resize", "antialias", 18, "0"},
    {"Resize", "axes", 18, ""},
    {"Resize", "keep_aspect_ratio_policy", 18, "stretch"},
    {"AveragePool", "dilations", 19, "1"},
    {"Cast", "saturate", 19, "1"},
    {"CastLike", "saturate", 19, "1"},
    {"QuantizeLinear", "saturate", 19, "1"},
    {"QuantizeLinear", "block_size", 21, "0"},
    {"QuantizeLinear", "output_dtype", 21, "0"},
    {"DequantizeLinear", "block_size", 21, "0"},
    {"QuantizeLinear", "precision", 23, "0"},
    {"DequantizeLinear", "output_dtype", 23, "0"},
    {"Cast", "round_mode", 24, "up"},
    {"CastLike", "round_mode", 24, "up"},
    {"Attention", "left_window_size", 25, "-1"},
    {"Attention", "right_window_size", 25, "-1"},
    {"Range", "stash_type", 27, "1"},
};

// How an attribute is written in the table; a list of equal numbers is one number.
std::string attribute_text(const Attribute& attribute) {
  if (const auto* integer = std::get_if<int64_t>(&attribute)) return std::to_string(*integer);
  if (const auto* text = std::get_if<std::string>(&attribute)) return *text;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute); list != nullptr && !list->empty())
    if (std::ranges::count(*list, list->front()) == std::ssize(*list)) return std::to_string(list->front());
  return "?";
}

// Where the form of an operator changes: the rules of upgrade.cpp from opset 11 on, and before it for subgraphs.
constexpr OperatorSince kChanges[] = {
    {"Slice", 10},
    {"TopK", 10},
    {"Upsample", 10},
    {"Resize", 11},
    {"Clip", 11},
    {"Pad", 11},
    {"Scatter", 11},
    {"Dropout", 12},
    {"Softmax", 13},
    {"LogSoftmax", 13},
    {"Hardmax", 13},
    {"Squeeze", 13},
    {"Unsqueeze", 13},
    {"Split", 13},
    {"ReduceSum", 13},
    {"ReduceL1", 18},
    {"ReduceL2", 18},
    {"ReduceMax", 18},
    {"ReduceMean", 18},
    {"ReduceMin", 18},
    {"ReduceProd", 18},
    {"ReduceLogSum", 18},
    {"Split", 18},
    {"ReduceSumSquare", 18},
    {"ReduceLogSumExp", 18},
    {"BatchNormalization", 9},
    {"BatchNormalization", 14},
    {"RoiAlign", 16},
    {"GridSample", 20},
    {"DFT", 20},
    {"GroupNormalization", 21},
    {"Scan", 9},
};

bool softmax_like(const std::string& op) { return op == "Softmax" || op == "LogSoftmax" || op == "Hardmax"; }

// The axes of a reduction can be an attribute when they are constant. Without axes, `noop_with_empty_axes` matters.
int64_t needed_by_reduction(const Node& node, const Graph& graph) {
  const int64_t as_input = node.op == "ReduceSum" ? 13 : 18;
  const bool noop = node.integer("noop_with_empty_axes", 0) != 0;
  if (!node.has_input(1)) return noop ? as_input : kOldestWritten;
  const auto axes = constant_integers(node, 1, graph);
  return !axes || (axes->empty() && noop) ? as_input : kOldestWritten;
}

int64_t needed_by_split(const Node& node, const Graph& graph) {
  if (node.has_input(1)) return constant_integers(node, 1, graph) ? kOldestWritten : 13;
  // Files of opset 18 may split unevenly into num_outputs parts.
  return graph.source_opset >= 18 ? 18 : kOldestWritten;
}

int64_t needed_by_pad(const Node& node, const Graph& graph) {
  if (node.text("mode", "constant") == "wrap") return 19;
  if (!node.has_input(3)) return kOldestWritten;
  const bool known =
      stated_rank(node.inputs[0], graph) && constant_integers(node, 1, graph) && constant_integers(node, 3, graph);
  return known ? kOldestWritten : 18;
}

int64_t needed_by_dropout(const Node& node, const Graph& graph) {
  const bool ratio = !node.has_input(1) || graph.is_constant(node.inputs[1]);
  return ratio && !node.has_input(2) ? kOldestWritten : 12;
}

// Below 13 the axis splits the tensor in two, which is the same only at the last one.
int64_t needed_by_softmax(const Node& node, const Graph& graph) {
  return node.integer("flatten", 0) != 0 || node.integer("axis", -1) == -1 ? kOldestWritten : 13;
}

int64_t needed_by_resize(const Node& node, const Graph& graph) {
  return node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel_symmetric" ? 19 : kOldestWritten;
}

int64_t needed_by_scatter(const Node& node, const Graph&) {
  const std::string reduction = node.text("reduction", "none");
  return reduction == "max" || reduction == "min" ? 18 : kOldestWritten;
}

int64_t needed_by_group_norm(const Node& node, const Graph&) { return node.has("per_group") ? kOldestWritten : 21; }

int64_t needed_by_batch_norm(const Node& node, const Graph&) {
  return node.integer("training_mode", 0) != 0 || node.outputs.size() > 1 ? 14 : kOldestWritten;
}

int64_t needed_by_roi_align(const Node& node, const Graph&) {
  return node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel" ? 16 : kOldestWritten;
}

// Opset 24 gave it the lengths of a cache that something else fills.
int64_t needed_by_attention(const Node& node, const Graph&) { return node.has_input(6) ? 24 : 23; }

int64_t needed_by_squeeze(const Node& node, const Graph& graph) {
  return !node.has_input(1) || constant_integers(node, 1, graph) ? kOldestWritten : 13;
}

std::optional<at::ScalarType> stated_dtype(const std::string& value, const Graph& graph) {
  if (graph.is_constant(value)) return graph.tensor(value).scalar_type();
  for (const auto* infos : {&graph.inputs, &graph.outputs})
    for (const auto& info : *infos)
      if (info.name == value) return info.dtype;
  return std::nullopt;
}

// Opset 14 gave arithmetic the narrow integers. The type is seen where an operand or the result is stated.
int64_t needed_by_arithmetic(const Node& node, const Graph& graph) {
  const auto narrow = [&](const std::string& value) {
    const auto dtype = stated_dtype(value, graph);
    return dtype == at::kChar || dtype == at::kShort || dtype == at::kByte;
  };
  const bool any = std::ranges::any_of(node.inputs, narrow) || std::ranges::any_of(node.outputs, narrow);
  return any ? 14 : kOldestWritten;
}

int64_t needed_by_form(const Node& node, const Graph& graph) {
  const std::string& op = node.op;
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div") return needed_by_arithmetic(node, graph);
  if (is_reduction(op)) return needed_by_reduction(node, graph);
  if (op == "Squeeze" || op == "Unsqueeze") return needed_by_squeeze(node, graph);
  if (op == "Split") return needed_by_split(node, graph);
  if (op == "Pad") return needed_by_pad(node, graph);
  if (op == "Dropout") return needed_by_dropout(node, graph);
  if (softmax_like(op)) return needed_by_softmax(node, graph);
  if (op == "Resize") return needed_by_resize(node, graph);
  if (op == "ScatterElements" || op == "ScatterND") return needed_by_scatter(node, graph);
  if (op == "GroupNormalization") return needed_by_group_norm(node, graph);
  if (op == "BatchNormalization") return needed_by_batch_norm(node, graph);
  if (op == "RoiAlign") return needed_by_roi_align(node, graph);
  if (op == "Attention") return needed_by_attention(node, graph);
  return kOldestWritten;
}

}  // namespace

bool is_reduction(const std::string& op) {
  return op.starts_with("Reduce") && std::ranges::any_of(kChanges, [&](const auto& change) { return change.op == op; });
}

std::optional<std::vector<int64_t>> constant_integers(const Node& node, size_t input, const Graph& graph) {
  if (!node.has_input(input) || !graph.is_constant(node.inputs[input])) return std::nullopt;
  const at::Tensor tensor = graph.tensor(node.inputs[input]).to(at::kLong).contiguous();
  const auto* values = tensor.data_ptr<int64_t>();
  return std::vector<int64_t>(values, values + tensor.numel());
}

std::optional<int64_t> stated_rank(const std::string& value, const Graph& graph) {
  if (graph.is_constant(value)) return graph.tensor(value).dim();
  for (const auto* infos : {&graph.inputs, &graph.outputs})
    for (const auto& info : *infos)
      if (info.name == value && info.dims) return static_cast<int64_t>(info.dims->size());
  return std::nullopt;
}

void check_written_opset(int64_t opset) {
  if (opset < kOldestWritten || opset > kCanonicalOpset)
    throw Error(ErrorKind::usage, "opset", "{} cannot be written, expected {} to {}", opset, kOldestWritten,
                kCanonicalOpset);
}

int64_t needed_opset(const Node& node, const Graph& graph) {
  if (!node.domain.empty()) return kOldestWritten;
  int64_t opset = needed_by_form(node, graph);
  for (const auto& since : kSince)
    if (since.op == node.op) opset = std::max(opset, since.opset);
  for (const auto& since : kAttributes)
    if (since.op == node.op)
      if (const auto found = node.attributes.find(std::string(since.attribute));
          found != node.attributes.end() && attribute_text(found->second) != since.harmless)
        opset = std::max(opset, since.opset);
  return opset;
}

void drop_newer_attributes(Node& node, int64_t opset) {
  for (const auto& since : kAttributes)
    if (since.op == node.op && opset < since.opset) node.attributes.erase(std::string(since.attribute));
}

bool form_differs(const std::string& op, int64_t opset, int64_t other) {
  const int64_t low = std::min(opset, other);
  const int64_t high = std::max(opset, other);
  const auto between = [&](const OperatorSince& change) {
    return change.op == op && low < change.opset && change.opset <= high;
  };
  return std::ranges::any_of(kChanges, between) || std::ranges::any_of(kSince, between);
}

bool may_have_newer_attributes(const std::string& op, int64_t opset, int64_t older) {
  return std::ranges::any_of(
      kAttributes, [&](const auto& since) { return since.op == op && older < since.opset && since.opset <= opset; });
}

int64_t ir_version_of(int64_t opset) {
  if (opset <= 11) return 6;
  if (opset <= 14) return 7;
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  return std::min<int64_t>(opset - 12, 13);
}

}  // namespace pare
