#include "pare/zoo/builder.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

#include "pare/error.h"
#include "pare/io.h"

namespace pare {
namespace {

constexpr const char* kOutputName = "logits";

// The extent of a sliding window's output, or Error{shape} when the window does not fit.
int64_t window_extent(const std::string& name, int64_t extent, int64_t kernel, int64_t stride, int64_t pad) {
  if (extent + 2 * pad < kernel)
    throw Error(ErrorKind::shape, name, "a window of {} does not fit into {} pixels: the input is too small", kernel,
                extent + 2 * pad);
  return (extent + 2 * pad - kernel) / stride + 1;
}

std::vector<int64_t> require_image(const BuiltValue& x, const std::string& name) {
  if (x.shape.size() != 3)
    throw Error(ErrorKind::shape, name, "expected channels, height and width, found {} extents", x.shape.size());
  return x.shape;
}

struct NamedActivation {
  const char* name;
  const char* op;
  std::map<std::string, Attribute> attributes = {};
};
const NamedActivation kActivations[] = {
    {"relu", "Relu"},           {"tanh", "Tanh"},
    {"softsign", "Softsign"},   {"elu", "Elu", {{"alpha", 1.0}}},
    {"selu", "Selu"},           {"leaky-relu", "LeakyRelu", {{"alpha", 0.01}}},
    {"hardswish", "HardSwish"}, {"gelu", "Gelu"},
    {"relu6", "Clip"},
};

Node activation_node(const std::string& name, const std::string& kind) {
  for (const NamedActivation& activation : kActivations)
    if (kind == activation.name) return {.name = name, .op = activation.op, .attributes = activation.attributes};
  throw Error(ErrorKind::usage, OptionName{"activation"}, "'{}' is unknown, expected one of {}", kind,
              fmt::join(activation_names(), ", "));
}

}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const NamedActivation& activation : kActivations) names.emplace_back(activation.name);
  return names;
}

GraphBuilder::GraphBuilder(std::string name, std::vector<int64_t> input_shape, at::ScalarType type) {
  graph_.name = std::move(name);
  std::vector<Dim> dims = {{-1, "N"}};
  for (const int64_t extent : input_shape) dims.push_back({extent, ""});
  graph_.inputs.push_back({"input", type, std::move(dims)});
}

BuiltValue GraphBuilder::input() const {
  BuiltValue value{graph_.inputs.front().name, {}};
  for (const Dim& dim : *graph_.inputs.front().dims)
    if (dim.fixed()) value.shape.push_back(dim.size);
  return value;
}

BuiltValue GraphBuilder::append(Node node, std::vector<int64_t> shape) {
  node.outputs = {node.name};
  graph_.nodes.push_back(std::move(node));
  return {graph_.nodes.back().name, std::move(shape)};
}

std::string GraphBuilder::parameter(const std::string& name, const std::vector<int64_t>& shape) {
  graph_.tensors[name] = at::zeros(shape, at::kFloat);
  return name;
}

std::string GraphBuilder::constant(const std::string& name, const std::vector<int64_t>& values) {
  return constant(name, at::tensor(values, at::kLong));
}

std::string GraphBuilder::constant(const std::string& name, const at::Tensor& value) {
  graph_.tensors[name] = value;
  return name;
}

BuiltValue GraphBuilder::conv(const BuiltValue& x, const std::string& name, int64_t out, int64_t kernel,
                              ConvOptions options) {
  const auto shape = require_image(x, name);
  const auto [stride, pad, groups, bias] = options;
  if (x.channels() % groups != 0 || out % groups != 0)
    throw Error(ErrorKind::shape, name, "{} groups divide neither {} nor {} channels", groups, x.channels(), out);
  Node node{.name = name, .op = "Conv"};
  node.inputs = {x.name, parameter(name + ".weight", {out, x.channels() / groups, kernel, kernel})};
  if (bias) node.inputs.push_back(parameter(name + ".bias", {out}));
  node.attributes = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                     {"strides", std::vector<int64_t>{stride, stride}},
                     {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                     {"dilations", std::vector<int64_t>{1, 1}},
                     {"group", groups}};
  return append(std::move(node), {out, window_extent(name, shape[1], kernel, stride, pad),
                                  window_extent(name, shape[2], kernel, stride, pad)});
}

BuiltValue GraphBuilder::batch_norm(const BuiltValue& x, const std::string& name) {
  Node node{.name = name, .op = "BatchNormalization", .inputs = {x.name}};
  for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"})
    node.inputs.push_back(parameter(name + part, {x.channels()}));
  node.attributes = {{"epsilon", 1e-5}, {"momentum", 0.9}};  // ONNX keeps 0.9 of the old statistics, PyTorch's 0.1
  return append(std::move(node), x.shape);
}

BuiltValue GraphBuilder::linear(const BuiltValue& x, const std::string& name, int64_t out, bool bias) {
  if (x.shape.size() != 1)
    throw Error(ErrorKind::shape, name, "expected features, found {} extents: flatten first", x.shape.size());
  Node node{.name = name, .op = "Gemm"};
  node.inputs = {x.name, parameter(name + ".weight", {out, x.channels()})};
  if (bias) node.inputs.push_back(parameter(name + ".bias", {out}));
  node.attributes = {{"transB", int64_t{1}}};
  return append(std::move(node), {out});
}

BuiltValue GraphBuilder::activation(const BuiltValue& x, const std::string& name, const std::string& kind) {
  Node node = activation_node(name, kind);
  node.inputs = {x.name};
  if (kind == "relu6")
    for (const double bound : {0.0, 6.0})
      node.inputs.push_back(constant(fmt::format("{}.bound{}", name, bound), at::full({}, bound, at::kFloat)));
  return append(std::move(node), x.shape);
}

BuiltValue GraphBuilder::pool(const BuiltValue& x, const std::string& name, std::string_view op, PoolOptions options) {
  const auto shape = require_image(x, name);
  const auto [kernel, stride, pad] = options;
  Node node{.name = name, .op = std::string(op), .inputs = {x.name}};
  node.attributes = {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                     {"strides", std::vector<int64_t>{stride, stride}},
                     {"pads", std::vector<int64_t>{pad, pad, pad, pad}}};
  return append(std::move(node), {x.channels(), window_extent(name, shape[1], kernel, stride, pad),
                                  window_extent(name, shape[2], kernel, stride, pad)});
}

BuiltValue GraphBuilder::max_pool(const BuiltValue& x, const std::string& name, PoolOptions options) {
  return pool(x, name, "MaxPool", options);
}

BuiltValue GraphBuilder::average_pool(const BuiltValue& x, const std::string& name, PoolOptions options) {
  return pool(x, name, "AveragePool", options);
}

BuiltValue GraphBuilder::global_average_pool(const BuiltValue& x, const std::string& name) {
  return append({.name = name, .op = "GlobalAveragePool", .inputs = {x.name}}, {require_image(x, name)[0], 1, 1});
}

BuiltValue GraphBuilder::flatten(const BuiltValue& x, const std::string& name) {
  int64_t features = 1;
  for (const int64_t extent : x.shape) features *= extent;
  return append({.name = name, .op = "Flatten", .inputs = {x.name}, .attributes = {{"axis", int64_t{1}}}}, {features});
}

BuiltValue GraphBuilder::dropout(const BuiltValue& x, const std::string& name, double ratio) {
  if (ratio == 0.0) return x;
  graph_.tensors[name + ".ratio"] = at::full({}, ratio, at::kFloat);
  return append({.name = name, .op = "Dropout", .inputs = {x.name, name + ".ratio"}}, x.shape);
}

BuiltValue GraphBuilder::add(const BuiltValue& a, const BuiltValue& b, const std::string& name) {
  if (a.shape != b.shape)
    throw Error(ErrorKind::shape, name, "Add joins [{}] with [{}]", fmt::join(a.shape, ", "), fmt::join(b.shape, ", "));
  return append({.name = name, .op = "Add", .inputs = {a.name, b.name}}, a.shape);
}

BuiltValue GraphBuilder::subsample(const BuiltValue& x, const std::string& name, int64_t stride) {
  const auto shape = require_image(x, name);
  constexpr int64_t end = std::numeric_limits<int64_t>::max();
  Node node{.name = name, .op = "Slice"};
  node.inputs = {x.name, constant(name + ".starts", {0, 0}), constant(name + ".ends", {end, end}),
                 constant(name + ".axes", {2, 3}), constant(name + ".steps", {stride, stride})};
  return append(std::move(node), {shape[0], (shape[1] - 1) / stride + 1, (shape[2] - 1) / stride + 1});
}

BuiltValue GraphBuilder::pad_channels(const BuiltValue& x, const std::string& name, int64_t before, int64_t after) {
  const auto shape = require_image(x, name);
  Node node{.name = name, .op = "Pad", .attributes = {{"mode", std::string("constant")}}};
  node.inputs = {x.name, constant(name + ".pads", {0, before, 0, 0, 0, after, 0, 0})};
  return append(std::move(node), {before + shape[0] + after, shape[1], shape[2]});
}

BuiltValue GraphBuilder::concat(const std::vector<BuiltValue>& parts, const std::string& name, size_t axis) {
  Node node{.name = name, .op = "Concat", .attributes = {{"axis", static_cast<int64_t>(axis) + 1}}};
  auto shape = parts.at(0).shape;
  shape.at(axis) = 0;
  for (const BuiltValue& part : parts) {
    shape[axis] += part.shape.at(axis);
    node.inputs.push_back(part.name);
  }
  return append(std::move(node), std::move(shape));
}

Graph GraphBuilder::finish(const BuiltValue& x) && {
  for (Node& node : graph_.nodes)
    for (auto* names : {&node.inputs, &node.outputs})
      for (std::string& name : *names)
        if (name == x.name) name = kOutputName;
  std::vector<Dim> dims = {{-1, "N"}};
  for (const int64_t extent : x.shape) dims.push_back({extent, ""});
  graph_.outputs = {{kOutputName, at::kFloat, std::move(dims)}};
  return std::move(graph_);
}

}  // namespace pare
