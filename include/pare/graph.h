// The graph: a list of ONNX operators in topological order over named values, with the tensors that it carries.
//
// A Graph is a value. Copies share tensor storage, so nothing may write into a tensor of a graph in place; a pass takes
// `const Graph&` and returns a new one. Every operator stands in one canonical form, that of ONNX opset 28, whatever
// opset the file had: reading raises operators to it, writing lowers them again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace pare {

// An attribute that pare never looks into (a subgraph, a type): kept as the bytes that were read, so that it can be
// written back.
struct OpaqueAttribute {
  int type = 0;       // onnx::AttributeProto::AttributeType
  std::string bytes;  // serialised AttributeProto
  bool operator==(const OpaqueAttribute&) const = default;
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, at::Tensor, OpaqueAttribute>;

struct Node {
  std::string name;
  std::string op;
  std::string domain;                // empty for ONNX's own operators
  std::vector<std::string> inputs;   // an empty name is an absent optional input
  std::vector<std::string> outputs;  // an empty name is an output nobody wants
  std::map<std::string, Attribute> attributes;
  std::vector<std::string> captures;            // values of this graph that the node's subgraphs read
  std::map<std::string, std::string> metadata;  // what exporters note about it; kept

  bool has(const std::string& attribute) const { return attributes.contains(attribute); }
  bool has_input(size_t index) const { return index < inputs.size() && !inputs[index].empty(); }
  // The attribute's value or the default; Error{format} when it has another type.
  int64_t integer(const std::string& attribute, int64_t otherwise) const;
  double real(const std::string& attribute, double otherwise) const;
  std::string text(const std::string& attribute, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& attribute, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> reals(const std::string& attribute, std::vector<double> otherwise = {}) const;
};

// One extent of a graph input or output: a number, or a name (or nothing) when it is not fixed.
struct Dim {
  int64_t size = -1;
  std::string symbol;
  bool assumed = false;  // it is open; `size` is what analyses and runs assume, and is not written
  bool fixed() const { return size >= 0; }
  bool operator==(const Dim&) const = default;
};

struct ValueInfo {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::optional<std::vector<Dim>> dims;  // nothing when even the rank is unknown
};

using TensorMap = std::map<std::string, at::Tensor>;

struct Graph {
  std::string name;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<Node> nodes;
  TensorMap tensors;                            // initialisers: parameters and constants
  std::map<std::string, std::string> metadata;  // ONNX metadata_props
  std::map<std::string, int64_t> domains;       // opsets of domains other than ONNX's own
  int64_t source_opset = 0;                     // of the file it came from; 0 when built here
  // Element types that ATen lacks (uint16, uint32, uint64, int4…), by ONNX's number: of inputs, outputs and
  // tensors that a wider integer type carries here.
  std::map<std::string, int32_t> carried;
  // What the file says about values that pare cannot type itself: those made by operators it does not know, by
  // subgraphs.
  std::map<std::string, ValueInfo> stated;

  bool is_constant(const std::string& value) const { return tensors.contains(value); }
  const at::Tensor& tensor(const std::string& value) const;  // Error{format} when there is none
};

// Who makes and who reads each value, by index into graph.nodes.
struct Usage {
  std::map<std::string, size_t, std::less<>> producer;
  std::map<std::string, std::vector<size_t>, std::less<>> consumers;
};
Usage usage_of(const Graph& graph);

// A name that no value and no node of the graph has yet: `base`, else `base_1`, `base_2`…
std::string fresh_name(const Graph& graph, const std::string& base);

// Throws Error{format} unless every node reads only what was made before it, every value is made once, names are not
// empty where they must not be, and every graph output exists.
void verify(const Graph& graph);

// The same graph with its nodes in topological order; Error{format} names a node on a cycle.
Graph sort_topologically(Graph graph);

// The same graph without nodes and tensors that no output needs.
Graph remove_unused(Graph graph);

// The same graph with every floating-point tensor, input and output in `dtype`; constants that operators need as
// integers stay.
Graph cast(Graph graph, at::ScalarType dtype);

// How an error names a node: "node 'conv1' (Conv)".
std::string describe(const Node& node);

}  // namespace pare
