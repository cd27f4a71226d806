// The nodes and tensors of a random graph, one after the other.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "pare/data/random.h"
#include "pare/graph.h"

namespace pare {

struct RandomValue {
  std::string name;
  std::vector<int64_t> dims;
  int64_t channels() const { return dims[1]; }
};

class RandomNodes {
 public:
  using Ints = std::vector<int64_t>;
  using Attributes = std::map<std::string, Attribute>;

  explicit RandomNodes(uint64_t seed) : random_(seed), weights_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  int64_t below(int64_t count) { return random_.below(count); }
  bool coin() { return random_.coin(); }
  template <typename T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }

  std::string constant(const at::Tensor& tensor) {
    const std::string name = "t" + std::to_string(graph_.tensors.size());
    graph_.tensors[name] = tensor;
    return name;
  }
  std::string normal(const Ints& dims, double scale) {
    return constant(at::randn(dims, weights_, at::TensorOptions(at::kFloat)) * scale);
  }
  std::string positive(const Ints& dims) {
    return constant(at::rand(dims, weights_, at::TensorOptions(at::kFloat)) + 0.5);
  }
  std::string integers(const Ints& values) { return constant(at::tensor(values, at::kLong)); }

  std::vector<std::string> nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 const Attributes& attributes, size_t outputs) {
    Node node{.name = op + std::to_string(graph_.nodes.size()), .op = op, .inputs = inputs, .attributes = attributes};
    for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(node.name + "_" + std::to_string(i));
    graph_.nodes.push_back(node);
    return node.outputs;
  }
  RandomValue node(const std::string& op, const std::vector<std::string>& inputs, const Ints& dims,
                   const Attributes& attributes = {}) {
    return {nodes(op, inputs, attributes, 1)[0], dims};
  }

 protected:
  Random random_;
  at::Generator weights_;
  Graph graph_;
};

}  // namespace pare
