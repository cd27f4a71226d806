#include "pare/attribute/explained.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/error.h"
#include "pare/ops/op.h"
#include "pare/passes/fold_batch_norm.h"
#include "pare/passes/precision.h"

namespace pare {

namespace {

bool is_spatial(const TensorType* type) {
  return type != nullptr && type->rank() == 4 && at::isFloatingType(type->dtype) && type->dims[2] * type->dims[3] > 1;
}

bool is_pool(OpKind kind) { return kind == OpKind::average || kind == OpKind::maximum; }

// One place is left of the picture: after it an extent is one of channels, as where these come last.
bool is_collapsed(const Node& node, const TensorType* type) {
  if (type == nullptr || type->rank() != 4) return false;
  return type->dims[2] * type->dims[3] == 1 || (is_pool(kind_of(node)) && type->dims[1] * type->dims[2] == 1);
}

// What the node reads of the image's content; extents are none of it.
std::vector<std::string> content_read(const Node& node, const std::set<std::string>& content) {
  std::vector<std::string> read;
  if (kind_of(node) == OpKind::extents) return read;
  for (const auto* names : {&node.inputs, &node.captures})
    for (const auto& name : *names)
      if (content.contains(name)) read.push_back(name);
  return read;
}

}  // namespace

std::vector<SpatialPlace> spatial_places(const Graph& original) {
  const Graph graph = scores_only(original);
  // Networks that take images of any size have the layers they have at a usual one.
  const Shapes shapes = analysis_shapes(graph, {.batch = 1});
  std::set<std::string> content = {graph.inputs.at(0).name};
  std::map<std::string, size_t> last_read;  // of what depends on the image's content
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto read = content_read(graph.nodes[i], content);
    if (read.empty()) continue;
    for (const auto& name : read) last_read[name] = i;
    content.insert(graph.nodes[i].outputs.begin(), graph.nodes[i].outputs.end());
  }
  for (const auto& output : graph.outputs) last_read[output.name] = graph.nodes.size();
  std::vector<SpatialPlace> places;
  std::set<std::string> open = {graph.inputs[0].name};  // made, and still to be read
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const auto& output : node.outputs)
      if (last_read.contains(output) && content.contains(output)) open.insert(output);
    std::erase_if(open, [&](const auto& name) { return last_read[name] <= i; });
    const std::string& value = node.outputs.at(0);
    if (!open.contains(value)) continue;
    const TensorType* type = shapes.find(value);
    if (open.size() == 1 && is_collapsed(node, type)) break;
    if (is_spatial(type))
      places.push_back({value, type->dims[2], type->dims[3], kind_of(node) == OpKind::activation, open.size() == 1});
  }
  return places;
}

Graph explained_graph(const Graph& original, const std::vector<std::string>& observed) {
  if (original.inputs.size() != 1)
    throw Error(ErrorKind::shape, original.name, "has {} inputs, expected one that takes images",
                original.inputs.size());
  Graph graph = widened(original);
  // Outputs are not folded away.
  for (const auto& name : observed)
    graph.outputs.push_back({.name = find_value(original, name), .dtype = graph.inputs[0].dtype});
  graph = scores_only(fold_batch_norm(graph));
  const auto made = usage_of(graph).producer;
  for (const auto& name : observed)
    if (const std::string value = find_value(original, name); value != original.inputs[0].name && !made.contains(value))
      throw Error(ErrorKind::usage, name, "the scores do not depend on it");
  return graph;
}

// Where an activation is one branch of several, as before a Concat, in a residual block without one after its sum, or
// in x · sigmoid(x), the branches' join takes its place.
std::string last_spatial_activation(const Graph& graph) {
  const auto places = spatial_places(graph);
  const auto last =
      std::find_if(places.rbegin(), places.rend(), [](const SpatialPlace& place) { return place.activation; });
  if (last == places.rend()) return last_spatial_value(graph);
  const auto join = std::find_if(last.base() - 1, places.end(), [](const SpatialPlace& place) { return place.alone; });
  if (join != places.end()) return join->value;
  const auto whole = std::find_if(last, places.rend(), [](const SpatialPlace& p) { return p.activation && p.alone; });
  return whole != places.rend() ? whole->value : last_spatial_value(graph);
}

std::string last_spatial_value(const Graph& graph) {
  const auto places = spatial_places(graph);
  const auto found =
      std::find_if(places.rbegin(), places.rend(), [](const SpatialPlace& place) { return place.alone; });
  if (found != places.rend()) return found->value;
  throw Error(ErrorKind::shape, graph.name, "no layer {} to take a map at",
              places.empty() ? "has a spatial extent" : "that everything passes through has a spatial extent");
}

std::string find_value(const Graph& graph, const std::string& name) {
  if (name == "input" || name == graph.inputs.at(0).name) return graph.inputs[0].name;
  for (const auto& node : graph.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end()) return name;
  for (const auto& node : graph.nodes)
    if (node.name == name && !node.outputs.empty()) return node.outputs[0];
  throw Error(ErrorKind::usage, name, "the model has no layer and no value of this name");
}

Cut cut_after(const Graph& graph, const std::string& value) {
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

const at::Tensor& with_gradient(const at::Tensor& scores, const std::string& layer) {
  if (!scores.requires_grad())
    throw Error(ErrorKind::unsupported, layer,
                "no gradient comes to it from the scores: what lies between rounds or chooses, as quantized layers do");
  return scores;
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
