#include "pare/graph.h"

#include <ATen/ATen.h>

#include <set>

#include "pare/error.h"

namespace pare {

namespace {

template <typename T>
T attribute_or(const Node& node, const std::string& name, T otherwise, std::string_view type) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return otherwise;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  throw Error(ErrorKind::format, describe(node), "attribute '{}' is not of type {}", name, type);
}

}  // namespace

int64_t Node::integer(const std::string& a, int64_t otherwise) const {
  return attribute_or(*this, a, otherwise, "int");
}
double Node::real(const std::string& a, double otherwise) const { return attribute_or(*this, a, otherwise, "float"); }
std::string Node::text(const std::string& a, const std::string& otherwise) const {
  return attribute_or(*this, a, otherwise, "string");
}
std::vector<int64_t> Node::integers(const std::string& a, std::vector<int64_t> otherwise) const {
  return attribute_or(*this, a, std::move(otherwise), "list of int");
}
std::vector<double> Node::reals(const std::string& a, std::vector<double> otherwise) const {
  return attribute_or(*this, a, std::move(otherwise), "list of float");
}

const at::Tensor& Graph::tensor(const std::string& value) const {
  const auto found = tensors.find(value);
  if (found == tensors.end()) throw Error(ErrorKind::format, name, "there is no tensor '{}'", value);
  return found->second;
}

std::string describe(const Node& node) {
  std::string name = node.name;
  if (name.empty() && !node.outputs.empty()) name = node.outputs.front();
  return fmt::format("node '{}' ({}{}{})", name, node.domain, node.domain.empty() ? "" : ".", node.op);
}

Usage usage_of(const Graph& graph) {
  Usage usage;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const auto& input : graph.nodes[i].inputs)
      if (!input.empty()) usage.consumers[input].push_back(i);
    for (const auto& capture : graph.nodes[i].captures) usage.consumers[capture].push_back(i);
    for (const auto& output : graph.nodes[i].outputs)
      if (!output.empty()) usage.producer.emplace(output, i);
  }
  return usage;
}

std::string fresh_name(const Graph& graph, const std::string& base) {
  std::set<std::string_view> taken;
  for (const auto& [name, tensor] : graph.tensors) taken.insert(name);
  for (const auto& input : graph.inputs) taken.insert(input.name);
  for (const auto& node : graph.nodes) {
    taken.insert(node.name);
    for (const auto& output : node.outputs) taken.insert(output);
    for (const auto& input : node.inputs) taken.insert(input);
  }
  if (!taken.contains(base)) return base;
  for (int i = 1;; ++i) {
    std::string name = fmt::format("{}_{}", base, i);
    if (!taken.contains(name)) return name;
  }
}

void verify(const Graph& graph) {
  std::set<std::string_view> known;
  for (const auto& [name, tensor] : graph.tensors) {
    if (!tensor.defined()) throw Error(ErrorKind::format, graph.name, "tensor '{}' is empty", name);
    known.insert(name);
  }
  for (const auto& input : graph.inputs)
    if (!known.insert(input.name).second)
      throw Error(ErrorKind::format, graph.name, "the name '{}' of a graph input is taken", input.name);
  for (const auto& node : graph.nodes) {
    if (node.op.empty()) throw Error(ErrorKind::format, describe(node), "has no operator");
    for (const auto& input : node.inputs)
      if (!input.empty() && !known.contains(input))
        throw Error(ErrorKind::format, describe(node), "reads '{}', which nothing before it makes", input);
    for (const auto& output : node.outputs)
      if (!output.empty() && !known.insert(output).second)
        throw Error(ErrorKind::format, describe(node), "makes '{}', which exists already", output);
  }
  for (const auto& output : graph.outputs)
    if (!known.contains(output.name))
      throw Error(ErrorKind::format, graph.name, "nothing makes the graph output '{}'", output.name);
}

Graph sort_topologically(Graph graph) {
  const Usage usage = usage_of(graph);
  std::vector<size_t> missing(graph.nodes.size(), 0);  // inputs of a node that are not made yet
  std::vector<size_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const auto& input : graph.nodes[i].inputs)
      if (!input.empty() && usage.producer.contains(input)) ++missing[i];
    for (const auto& capture : graph.nodes[i].captures)
      if (usage.producer.contains(capture)) ++missing[i];
    if (missing[i] == 0) ready.push_back(i);
  }
  std::vector<Node> sorted;
  sorted.reserve(graph.nodes.size());
  std::set<size_t> open(ready.begin(), ready.end());  // smallest first: a sorted graph stays as it is
  while (!open.empty()) {
    const size_t i = *open.begin();
    open.erase(open.begin());
    for (const auto& output : graph.nodes[i].outputs) {
      const auto readers = usage.consumers.find(output);
      if (output.empty() || readers == usage.consumers.end() || usage.producer.at(output) != i) continue;
      for (const size_t reader : readers->second)
        if (--missing[reader] == 0) open.insert(reader);
    }
    sorted.push_back(graph.nodes[i]);
  }
  if (sorted.size() != graph.nodes.size())
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (missing[i] > 0)
        throw Error(ErrorKind::format, describe(graph.nodes[i]), "is on a cycle of nodes, or comes after one");
  graph.nodes = std::move(sorted);
  return graph;
}

Graph remove_unused(Graph graph) {
  std::set<std::string> needed;
  for (const auto& output : graph.outputs) needed.insert(output.name);
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    bool used = false;
    for (const auto& output : node.outputs) used = used || (!output.empty() && needed.contains(output));
    if (!used) continue;
    needed.insert(node.inputs.begin(), node.inputs.end());
    needed.insert(node.captures.begin(), node.captures.end());
    kept.push_back(std::move(node));
  }
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(graph.tensors, [&](const auto& entry) { return !needed.contains(entry.first); });
  return graph;
}

Graph cast(Graph graph, at::ScalarType dtype) {
  for (auto& [name, tensor] : graph.tensors)
    if (tensor.is_floating_point()) tensor = tensor.to(dtype);
  for (auto* infos : {&graph.inputs, &graph.outputs})
    for (auto& info : *infos)
      if (at::isFloatingType(info.dtype)) info.dtype = dtype;
  for (auto& node : graph.nodes)
    for (auto& [name, attribute] : node.attributes)
      if (auto* tensor = std::get_if<at::Tensor>(&attribute); tensor != nullptr && tensor->is_floating_point())
        *tensor = tensor->to(dtype);
  return graph;
}

}  // namespace pare
