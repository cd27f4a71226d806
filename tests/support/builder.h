// Small graphs for tests, built node by node in canonical form.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "pare/graph.h"

namespace pare {

class TestGraph {
 public:
  explicit TestGraph(uint64_t seed = 1) { at::manual_seed(seed); }

  std::string input(const std::string& name, const std::vector<int64_t>& dims) {
    ValueInfo info{.name = name, .dtype = at::kDouble};
    info.dims.emplace();
    for (const int64_t dim : dims) info.dims->push_back({dim, dim < 0 ? "N" : ""});
    graph_.inputs.push_back(info);
    return name;
  }

  std::string tensor(const at::Tensor& value) {
    const std::string name = "t" + std::to_string(graph_.tensors.size());
    graph_.tensors[name] = value;
    return name;
  }
  std::string random(const std::vector<int64_t>& dims) { return tensor(at::randn(dims, at::kDouble) * 0.5); }
  std::string positive(const std::vector<int64_t>& dims) { return tensor(at::rand(dims, at::kDouble) + 0.5); }
  std::string integers(const std::vector<int64_t>& values) { return tensor(at::tensor(values, at::kLong)); }

  std::vector<std::string> node(const std::string& op, const std::vector<std::string>& inputs,
                                const std::map<std::string, Attribute>& attributes, size_t outputs) {
    Node node{.name = op + std::to_string(graph_.nodes.size()), .op = op, .inputs = inputs, .attributes = attributes};
    for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(node.name + "_" + std::to_string(i));
    graph_.nodes.push_back(node);
    return node.outputs;
  }
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::map<std::string, Attribute>& attributes = {}) {
    return node(op, inputs, attributes, 1)[0];
  }

  using Ints = std::vector<int64_t>;
  std::string conv(const std::string& x, int64_t in, int64_t out, int64_t kernel = 3, int64_t groups = 1) {
    const int64_t pad = kernel / 2;
    return node("Conv", {x, random({out, in / groups, kernel, kernel}), random({out})},
                {{"pads", Ints{pad, pad, pad, pad}}, {"group", groups}});
  }
  std::string batch_norm(const std::string& x, int64_t channels) {
    return node("BatchNormalization",
                {x, positive({channels}), random({channels}), random({channels}), positive({channels})});
  }
  std::string relu(const std::string& x) { return node("Relu", {x}); }
  // As a transformer has it: MatMul and Add.
  std::string projected(const std::string& x, int64_t in, int64_t out) {
    return node("Add", {node("MatMul", {x, random({in, out})}), random({out})});
  }
  std::string number(double value) { return tensor(at::scalar_tensor(value, at::kDouble)); }
  std::string linear(const std::string& x, int64_t in, int64_t out) {
    return node("Gemm", {x, random({out, in}), random({out})}, {{"transB", int64_t{1}}});
  }

  Graph finish(const std::string& output) {
    graph_.outputs = {{.name = output, .dtype = at::kDouble}};
    verify(graph_);
    return graph_;
  }

 private:
  Graph graph_;
};

}  // namespace pare
