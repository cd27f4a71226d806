// What pare knows about an operator. One OpDef per ONNX operator, listed in ops/registry.cpp:
//   evaluate  computes the outputs with ATen, so that autograd follows
//   infer     gives the outputs' types from the inputs' types (and the values of those that are known)
//   cost      counts multiply-accumulates and other operations from the types
//   labels    says which channels of the inputs are which channels of the outputs (ops/labels.h)
//   traits    say what kind of function it is (ops/traits.h)
//   rewrite   adapts attributes and constants of the node after channels were removed (only operators that need it)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pare/error.h"
#include "pare/graph.h"
#include "pare/ops/traits.h"

namespace pare {

using Shape = std::vector<int64_t>;

struct TensorType {
  at::ScalarType dtype = at::kFloat;
  Shape dims;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t count() const;  // elements
  bool operator==(const TensorType&) const = default;
};

// Evaluation of one node. Absent optional inputs are undefined tensors.
struct EvalContext {
  const Node& node;
  std::span<const at::Tensor> inputs;
  bool training = false;
  // May the node write its result into input i? (Nobody else will read it, nor will the backward pass.) Ask before
  // copying the tensor.
  std::function<bool(size_t)> may_overwrite;
  // Train-mode statistics: the node announces the new value of its constant input i (a running mean).
  std::function<void(size_t, at::Tensor)> update;
  // Runs the subgraph of an attribute on inputs; where it is not set, nodes with subgraphs are not evaluated.
  std::function<std::vector<at::Tensor>(const std::string& attribute, const std::vector<at::Tensor>& inputs)> body;
  // Where set, batch statistics are those of several processes: sums over all of them, differentiably.
  std::function<at::Tensor(const at::Tensor&)> sum_over_ranks;

  // ONNX's numbers of the inputs' element types where a wider type carries them (ops/dtype.h), 0 elsewhere; empty: none
  // is. `made` receives those of the outputs.
  std::span<const int32_t> carried;
  std::vector<int32_t>* made = nullptr;

  bool has(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
  const at::Tensor& in(size_t i) const;           // Error{format} when absent
  std::vector<int64_t> integers(size_t i) const;  // a small integer tensor as a list
  int32_t carried_type_of(size_t i) const { return i < carried.size() ? carried[i] : 0; }
  bool reusable(size_t i) const { return may_overwrite && may_overwrite(i); }
};

// Inference of one node. `values[i]` is defined where the content of input i is known.
struct InferContext {
  const Node& node;
  std::span<const TensorType> types;
  std::span<const at::Tensor> values;
  std::span<const bool> present;

  bool has(size_t i) const { return i < types.size() && present[i]; }
  const TensorType& in(size_t i) const;           // Error{format} when absent
  std::vector<int64_t> integers(size_t i) const;  // throws UnknownValue when the content is not known
};

// Thrown by InferContext::integers: the output type depends on data. Not an error: the type is just not known.
struct UnknownValue {};

struct CostContext {
  const Node& node;
  std::span<const TensorType> inputs;  // absent ones have no dims
  std::span<const TensorType> outputs;
};

struct Cost {
  int64_t macs = 0;   // multiply-accumulates of convolutions and matrix products
  int64_t flops = 0;  // 2·macs, or one per element-wise operation
};

class LabelContext;    // ops/labels.h
class RewriteContext;  // ops/labels.h

using EvaluateFunction = std::vector<at::Tensor> (*)(const EvalContext&);
using InferFunction = std::vector<TensorType> (*)(const InferContext&);
using CostFunction = Cost (*)(const CostContext&);
using LabelFunction = void (*)(LabelContext&);
using RewriteFunction = void (*)(RewriteContext&);

struct OpDef {
  std::string_view type;
  std::string_view attributes;  // those of its canonical form, separated by spaces
  int since = 1;                // the first opset whose form of the operator can carry the canonical node
  size_t min_inputs = 0;
  size_t max_inputs = SIZE_MAX;
  EvaluateFunction evaluate = nullptr;
  InferFunction infer = nullptr;
  CostFunction cost = nullptr;
  LabelFunction labels = nullptr;
  RewriteFunction rewrite = nullptr;
  OpTraits traits = {};

  // The same operator with these attributes.
  constexpr OpDef taking(std::string_view names) const {
    OpDef op = *this;
    op.attributes = names;
    return op;
  }
  // The same operator with these traits.
  constexpr OpDef being(const OpTraits& own) const {
    OpDef op = *this;
    op.traits = own;
    return op;
  }
  bool takes(std::string_view attribute) const;
};

// The operator of a node, or nullptr when there is none.
const OpDef* find_op(const Node& node);
// The same, but Error{unsupported} that names the node, also when its number of inputs is wrong (Error{format}).
const OpDef& require_op(const Node& node);
std::span<const OpDef* const> all_ops();

// Evaluates a node. Half precision (float16, bfloat16), for which ATen has few kernels, is computed in float and given
// back in the type that inference says; what only moves data takes it as it is. Whatever goes wrong inside is an Error
// that names the node in pare's own words: {memory} where its results do not fit, {unsupported} for element types
// without a kernel, {shape} for inputs that do not go together.
std::vector<at::Tensor> evaluate(const OpDef& op, const EvalContext& context);

// Error{memory} that names `where` unless a tensor of the type can be made: its bytes fit 64 bits, and the memory that
// is left (core/memory.h).
void check_size(const TensorType& type, const std::string& where);

// "float32 [1, 3, 224, 224]"
std::string to_string(const TensorType& type);
std::string to_string(std::span<const int64_t> dims);

}  // namespace pare
