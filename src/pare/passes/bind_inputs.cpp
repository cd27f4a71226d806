#include "pare/passes/bind_inputs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>

#include "pare/error.h"

namespace pare {

namespace {

struct Binding {
  std::string name;
  double value = 0;
};

Binding binding_of(const std::string& text) {
  const size_t equals = text.rfind('=');
  Binding binding{.name = text.substr(0, equals)};
  const std::string_view number = equals == std::string::npos ? "" : std::string_view(text).substr(equals + 1);
  const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), binding.value);
  if (binding.name.empty() || failed != std::errc() || end != number.data() + number.size())
    throw Error(ErrorKind::usage, OptionName{"bind"}, "expected NAME=NUMBER, found '{}'", text);
  return binding;
}

at::Tensor filled(const ValueInfo& input, double value) {
  if (!input.dims)
    throw Error(ErrorKind::usage, OptionName{"bind"}, "'{}' has extents that the model leaves open", input.name);
  std::vector<int64_t> shape;
  for (const Dim& dim : *input.dims) {
    if (!dim.fixed())
      throw Error(ErrorKind::usage, OptionName{"bind"}, "'{}' has extents that the model leaves open", input.name);
    shape.push_back(dim.size);
  }
  const at::Tensor constant = at::full(shape, value, at::TensorOptions(at::kDouble)).to(input.dtype);
  if (!at::isFloatingType(input.dtype) && constant.numel() > 0 &&
      constant.flatten()[0].to(at::kDouble).item<double>() != value)
    throw Error(ErrorKind::usage, OptionName{"bind"}, "'{}' takes {}, which {} is not", input.name,
                at::toString(input.dtype), value);
  return constant;
}

}  // namespace

Graph bind_inputs(const Graph& graph, const std::vector<std::string>& values) {
  Graph bound = graph;
  for (const auto& text : values) {
    const Binding binding = binding_of(text);
    const auto found = std::ranges::find(bound.inputs, binding.name, &ValueInfo::name);
    if (found == bound.inputs.end())
      throw Error(ErrorKind::usage, OptionName{"bind"}, "there is no input '{}'", binding.name);
    bound.tensors[binding.name] = filled(*found, binding.value);
    bound.inputs.erase(found);
  }
  return bound;
}

}  // namespace pare
