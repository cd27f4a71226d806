#include "pare/attribute/explained.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/core/error.h"
#include "pare/passes/fold_batch_norm.h"

namespace pare {

namespace {

const std::set<std::string_view> kActivations = {
    "Relu",        "LeakyRelu", "PRelu", "Elu",      "Selu",     "Celu", "Gelu", "Sigmoid",
    "HardSigmoid", "HardSwish", "Mish",  "Softplus", "Softsign", "Tanh", "Clip", "ThresholdedRelu"};

bool is_spatial(const TensorType* type) {
  return type != nullptr && type->rank() == 4 && at::isFloatingType(type->dtype) && type->dims[2] * type->dims[3] > 1;
}

// The outputs of nodes that depend on the graph's input and that the scores depend on, in order.
std::vector<const Node*> nodes_on_the_way(const Graph& graph) {
  std::set<std::string> made = {graph.inputs.at(0).name};
  std::vector<const Node*> way;
  for (const auto& node : graph.nodes) {
    const bool reads =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& i) { return made.contains(i); });
    if (!reads) continue;
    made.insert(node.outputs.begin(), node.outputs.end());
    way.push_back(&node);
  }
  return way;
}

// x · sigmoid(x) and x · clip(x + 3) / 6 are activations whose last node is the product.
std::string with_product(const Graph& graph, const Node& node) {
  if (node.op != "Sigmoid" && node.op != "HardSigmoid" && node.op != "Clip") return node.outputs[0];
  std::string gate = node.outputs[0];
  for (const auto& reader : graph.nodes) {
    const auto at = std::find(reader.inputs.begin(), reader.inputs.end(), gate);
    if (at == reader.inputs.end() || (reader.op != "Mul" && reader.op != "Div")) continue;
    const std::string& other = reader.inputs.at(at == reader.inputs.begin() ? 1 : 0);
    if (graph.is_constant(other))
      gate = reader.outputs[0];
    else if (reader.op == "Mul")
      return reader.outputs[0];
  }
  return node.outputs[0];
}

std::string last_spatial(const Graph& graph, bool activation) {
  // Networks that take images of any size have the layers they have at a usual one.
  const Shapes shapes = infer_shapes(graph, {.batch = 1, .open = 224});
  const auto way = nodes_on_the_way(graph);
  for (auto node = way.rbegin(); node != way.rend(); ++node)
    if ((!activation || kActivations.contains((*node)->op)) && is_spatial(shapes.find((*node)->outputs.at(0))))
      return activation ? with_product(graph, **node) : (*node)->outputs[0];
  return "";
}

}  // namespace

Graph explained_graph(const Graph& original, const std::vector<std::string>& observed) {
  if (original.inputs.size() != 1)
    throw Error(ErrorKind::shape, original.name, "has {} inputs, expected one that takes images",
                original.inputs.size());
  Graph graph = original;
  // Outputs are not folded away.
  for (const auto& name : observed)
    graph.outputs.push_back({.name = find_value(original, name), .dtype = original.inputs[0].dtype});
  graph = fold_batch_norm(graph);
  graph.outputs.at(0).name = score_value(graph);
  graph.outputs.resize(1);
  return remove_unused(std::move(graph));
}

std::string last_spatial_activation(const Graph& graph) {
  const std::string found = last_spatial(graph, true);
  return found.empty() ? last_spatial_value(graph) : found;
}

std::string last_spatial_value(const Graph& graph) {
  std::string found = last_spatial(graph, false);
  if (found.empty()) throw Error(ErrorKind::shape, graph.name, "no layer has a spatial extent to take a map at");
  return found;
}

std::string find_value(const Graph& graph, const std::string& name) {
  if (name == "input" || name == graph.inputs.at(0).name) return graph.inputs[0].name;
  for (const auto& node : graph.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end()) return name;
  for (const auto& node : graph.nodes)
    if (node.name == name && !node.outputs.empty()) return node.outputs[0];
  throw Error(ErrorKind::usage, name, "the model has no layer and no value of this name");
}

Cut cut_behind(const Graph& graph, const std::string& value) {
  const auto usage = usage_of(graph);
  const auto made = usage.producer.find(value);
  if (made == usage.producer.end()) throw Error(ErrorKind::usage, value, "no layer of the model makes it");
  const auto split = static_cast<std::ptrdiff_t>(made->second) + 1;
  std::set<std::string> before, needed;
  for (const auto& input : graph.inputs) before.insert(input.name);
  for (auto node = graph.nodes.begin(); node != graph.nodes.begin() + split; ++node)
    before.insert(node->outputs.begin(), node->outputs.end());
  for (auto node = graph.nodes.begin() + split; node != graph.nodes.end(); ++node) {
    needed.insert(node->inputs.begin(), node->inputs.end());
    needed.insert(node->captures.begin(), node->captures.end());
  }
  for (const auto& output : graph.outputs) needed.insert(output.name);
  Cut cut{.front = graph, .back = graph, .boundary = {value}};
  for (const auto& name : before)
    if (!name.empty() && name != value && needed.contains(name)) cut.boundary.push_back(name);
  cut.front.nodes.resize(static_cast<size_t>(split));
  cut.back.nodes.erase(cut.back.nodes.begin(), cut.back.nodes.begin() + split);
  cut.front.outputs.clear();
  cut.back.inputs.clear();
  for (const auto& name : cut.boundary) {
    cut.front.outputs.push_back({.name = name, .dtype = graph.inputs[0].dtype});
    cut.back.inputs.push_back({.name = name, .dtype = graph.inputs[0].dtype});
  }
  cut.front = remove_unused(std::move(cut.front));
  cut.back = remove_unused(std::move(cut.back));
  return cut;
}

at::Tensor top_classes(const at::Tensor& scores) { return scores.argmax(1); }

at::Tensor class_scores(const at::Tensor& scores, const at::Tensor& classes) {
  if (scores.dim() != 2 || classes.dim() != 1 || classes.size(0) != scores.size(0))
    throw Error(ErrorKind::shape, "attribution", "{} classes for scores of {}", classes.numel(),
                fmt::join(scores.sizes(), "x"));
  if (classes.numel() > 0 && (classes.min().item<int64_t>() < 0 || classes.max().item<int64_t>() >= scores.size(1)))
    throw Error(ErrorKind::usage, "class", "{} is out of range, the model has {} classes",
                classes.min().item<int64_t>() < 0 ? classes.min().item<int64_t>() : classes.max().item<int64_t>(),
                scores.size(1));
  return scores.gather(1, classes.unsqueeze(1)).squeeze(1);
}

}  // namespace pare
