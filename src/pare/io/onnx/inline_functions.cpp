#include "pare/io/onnx/inline_functions.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "pare/error.h"
#include "pare/io/onnx/newer_fields.h"
#include "pare/io/onnx/subgraph.h"
#include "pare/io/onnx/versions.h"

namespace pare {

namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Name = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

constexpr size_t kMostNodes = 1 << 20;
constexpr size_t kDeepest = 100;
constexpr size_t kFreeBytes = 64 << 20;  // that calls may unfold to, besides four times the size of the file

// What the names and attributes of a body mean where it is called.
struct Call {
  std::map<std::string, std::string> names;  // of inputs and outputs
  std::map<std::string, const onnx::AttributeProto*> attributes;
  std::string prefix;  // of everything else

  std::string name(const std::string& inner) const {
    if (inner.empty()) return inner;
    const auto found = names.find(inner);
    return found != names.end() ? found->second : prefix + inner;
  }
};

void collect_names(const onnx::GraphProto& graph, std::set<std::string>& names) {
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& node : graph.node()) {
    names.insert(node.name());
    names.insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_names(attribute.g(), names);
      for (const auto& inner : attribute.graphs()) collect_names(inner, names);
    }
  }
}

void bind(onnx::GraphProto& graph, const Call& call);

// Names and attributes of a node of a body, as they are at the call.
void bind(onnx::NodeProto& node, const Call& call) {
  if (!node.name().empty()) node.set_name(call.prefix + node.name());
  for (auto& input : *node.mutable_input()) input = call.name(input);
  for (auto& output : *node.mutable_output()) output = call.name(output);
  onnx::NodeProto bound;
  for (auto& attribute : *node.mutable_attribute()) {
    if (!attribute.ref_attr_name().empty()) {
      const auto given = call.attributes.find(attribute.ref_attr_name());
      if (given == call.attributes.end()) continue;  // not given: the operator has its own default
      auto& own = *bound.add_attribute();
      own = *given->second;
      own.set_name(attribute.name());
      continue;
    }
    if (attribute.has_g()) bind(*attribute.mutable_g(), call);
    for (auto& graph : *attribute.mutable_graphs()) bind(graph, call);
    *bound.add_attribute() = std::move(attribute);
  }
  node.mutable_attribute()->Swap(bound.mutable_attribute());
}

void bind(onnx::GraphProto& graph, const Call& call) {
  for (auto& tensor : *graph.mutable_initializer()) tensor.set_name(call.name(tensor.name()));
  for (auto& tensor : *graph.mutable_sparse_initializer())
    tensor.mutable_values()->set_name(call.name(tensor.values().name()));
  for (auto* infos : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
    for (auto& info : *infos) info.set_name(call.name(info.name()));
  for (auto& node : *graph.mutable_node()) bind(node, call);
}

class Inliner {
 public:
  Inliner(onnx::ModelProto& model, const std::string& file)
      : model_(model), file_(file), bytes_left_(kFreeBytes + 4 * model.ByteSizeLong()) {
    for (const auto& function : model.functions())
      functions_.emplace(Name{plain_domain(function.domain()), function.name(), overload_of(function)}, &function);
    collect_names(model.graph(), taken_);
    for (const auto& import : model.opset_import()) opsets_.emplace(plain_domain(import.domain()), import.version());
  }

  void run() {
    expand(*model_.mutable_graph());
    for (const auto& [domain, version] : opsets_) {
      bool imported = false;
      for (const auto& import : model_.opset_import()) imported = imported || plain_domain(import.domain()) == domain;
      if (imported) continue;
      auto& import = *model_.add_opset_import();
      import.set_domain(domain);
      import.set_version(version);
    }
    model_.clear_functions();
  }

 private:
  void expand(onnx::GraphProto& graph) {
    Nodes expanded;
    for (auto& node : *graph.mutable_node()) expand(std::move(node), expanded);
    graph.mutable_node()->Swap(&expanded);
  }

  void expand(onnx::NodeProto node, Nodes& into) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) expand(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) expand(graph);
    }
    const auto found = functions_.find({plain_domain(node.domain()), node.op_type(), overload_of(node)});
    if (found == functions_.end()) {
      *into.Add() = std::move(node);
      return;
    }
    call(*found->second, node, into);
  }

  void call(const onnx::FunctionProto& function, const onnx::NodeProto& node, Nodes& into) {
    if (!active_.insert(&function).second)
      throw Error(ErrorKind::unsupported, file_, "has the function {}.{}, which calls itself", function.domain(),
                  function.name());
    if (active_.size() > kDeepest)
      throw Error(ErrorKind::unsupported, file_, "calls functions inside functions, more than {} deep", kDeepest);
    charge(function);
    import_opsets(function);
    const auto defaults = defaults_of(function);
    Call call{.prefix = fresh_prefix(node)};
    for (const auto& attribute : defaults) call.attributes[attribute.name()] = &attribute;
    for (const auto& attribute : node.attribute()) call.attributes[attribute.name()] = &attribute;
    for (int i = 0; i < function.input_size(); ++i)
      call.names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    std::vector<std::pair<std::string, std::string>> copies;  // outputs that are inputs, or another output again
    for (int i = 0; i < function.output_size() && i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      if (const auto [known, added] = call.names.emplace(function.output(i), node.output(i)); !added)
        copies.emplace_back(known->second, node.output(i));
    }
    for (onnx::NodeProto inner : function.node()) {
      bind(inner, call);
      expand(std::move(inner), into);
    }
    for (const auto& [from, to] : copies) {
      auto& copy = *into.Add();
      copy.set_op_type("Identity");
      copy.add_input(from);
      copy.add_output(to);
    }
    active_.erase(&function);
  }

  // Calls within calls grow by powers: what they unfold to is bounded.
  void charge(const onnx::FunctionProto& function) {
    const size_t bytes = function.ByteSizeLong();
    nodes_ += static_cast<size_t>(function.node_size());
    if (bytes > bytes_left_ || nodes_ > kMostNodes)
      throw Error(ErrorKind::memory, file_, "has functions that unfold to more than {} nodes or {} times its size",
                  kMostNodes, 4);
    bytes_left_ -= bytes;
  }

  void import_opsets(const onnx::FunctionProto& function) {
    for (const auto& import : function.opset_import()) {
      const std::string domain = plain_domain(import.domain());
      const auto [known, added] = opsets_.emplace(domain, import.version());
      if (added || known->second == import.version() || !domain.empty()) continue;
      for (const auto& node : function.node())
        if (plain_domain(node.domain()).empty() && form_differs(node.op_type(), import.version(), known->second))
          throw Error(ErrorKind::unsupported, file_,
                      "has the function {}.{} with {} of opset {} in a model of opset {}", function.domain(),
                      function.name(), node.op_type(), import.version(), known->second);
    }
  }

  std::string fresh_prefix(const onnx::NodeProto& node) {
    const std::string base = node.name().empty() ? node.op_type() : node.name();
    std::string prefix;
    do {
      prefix = base + "_" + std::to_string(++calls_) + "/";
      const auto next = taken_.lower_bound(prefix);
      if (next == taken_.end() || !next->starts_with(prefix)) break;
    } while (true);
    return prefix;
  }

  onnx::ModelProto& model_;
  const std::string& file_;
  std::map<Name, const onnx::FunctionProto*> functions_;
  std::map<std::string, int64_t> opsets_;
  std::set<const onnx::FunctionProto*> active_;
  std::set<std::string> taken_;
  size_t bytes_left_;
  size_t nodes_ = 0;
  size_t calls_ = 0;
};

}  // namespace

void inline_functions(onnx::ModelProto& model, const std::string& file) {
  if (model.functions_size() > 0) Inliner(model, file).run();
}

}  // namespace pare
