// The one door through which operators are evaluated: element types that ATen lacks or has few kernels for, and what
// libraries throw.
#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "pare/core/memory.h"
#include "pare/ops/dtype.h"
#include "pare/ops/op.h"

namespace pare {

namespace {

// "float32 [2, 3], int64 [4]"
std::string input_types(const EvalContext& context) {
  std::vector<std::string> types;
  for (const auto& input : context.inputs)
    types.push_back(input.defined() ? to_string(TensorType{input.scalar_type(), input.sizes().vec()}) : "nothing");
  return fmt::format("{}", fmt::join(types, ", "));
}

// What a library said is not for the user, but it tells what kind of fault it was.
Error library_error(const EvalContext& context, std::string_view said) {
  const std::string where = describe(context.node);
  if (said.find("can't allocate memory") != said.npos || said.find("not enough memory") != said.npos)
    return {ErrorKind::memory, where, "there is not enough memory for its result"};
  if (said.find("overflow") != said.npos && said.find("numel") != said.npos)
    return {ErrorKind::memory, where, "its result would be larger than any memory"};
  if (said.find("not implemented for") != said.npos)
    return {ErrorKind::unsupported, where, "is not computed for inputs of type {}", input_types(context)};
  return {ErrorKind::shape, where, "cannot be computed from {}", input_types(context)};
}

bool is_half(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

bool takes_half_as_it_is(const OpTraits& traits) {
  return traits.own_types || moves_elements(traits.kind) || traits.kind == OpKind::same ||
         traits.kind == OpKind::extents;
}

std::vector<TensorType> types_of(std::span<const at::Tensor> tensors) {
  std::vector<TensorType> types;
  for (const auto& tensor : tensors)
    types.push_back(tensor.defined() ? TensorType{tensor.scalar_type(), tensor.sizes().vec()} : TensorType{});
  return types;
}

// What inference says of the outputs for inputs of these types; nothing where it cannot know.
std::vector<TensorType> inferred_types(const OpDef& op, const EvalContext& context,
                                       const std::vector<TensorType>& types) {
  const auto present = std::make_unique<bool[]>(types.size());
  for (size_t i = 0; i < types.size(); ++i) present[i] = context.inputs[i].defined();
  try {
    return op.infer({context.node, types, context.inputs, {present.get(), types.size()}});
  } catch (const UnknownValue&) {
  } catch (const Error&) {  // the evaluation went well: it knows better
  }
  return {};
}

// The element types that inference gives the outputs; where it cannot know, floating-point ones have that of the input
// that they are typed like.
std::vector<at::ScalarType> output_dtypes(const OpDef& op, const EvalContext& context,
                                          std::span<const at::Tensor> outputs) {
  const auto types = types_of(context.inputs);
  const auto inferred = inferred_types(op, context, types);
  at::ScalarType like = at::kFloat;
  for (size_t i = types.size(); i-- > op.traits.typed_like;)
    if (context.inputs[i].defined() && is_half(types[i].dtype)) like = types[i].dtype;
  std::vector<at::ScalarType> dtypes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::ScalarType own = outputs[i].defined() ? outputs[i].scalar_type() : like;
    dtypes.push_back(i < inferred.size() ? inferred[i].dtype : own == at::kFloat ? like : own);
  }
  return dtypes;
}

std::vector<at::Tensor> evaluate_widened(const OpDef& op, const EvalContext& context) {
  std::vector<at::Tensor> wide(context.inputs.begin(), context.inputs.end());
  for (auto& input : wide)
    if (input.defined() && is_half(input.scalar_type())) input = input.to(at::kFloat);
  EvalContext in_float = context;
  in_float.inputs = wide;
  in_float.may_overwrite = nullptr;
  auto outputs = op.evaluate(in_float);
  const auto dtypes = output_dtypes(op, context, outputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined() && outputs[i].scalar_type() == at::kFloat) outputs[i] = outputs[i].to(dtypes[i]);
  return outputs;
}

// The carried type of every output, 0 for others. An attribute may say it; else the inputs that are carried get a mark
// for a type, and outputs that inference gives the same mark are typed like the first of them.
std::vector<int32_t> carried_outputs(const OpDef& op, const EvalContext& context, std::span<const at::Tensor> outputs) {
  std::vector<int32_t> codes(outputs.size(), 0);
  if (const auto named = named_type(context.node)) {
    codes.assign(outputs.size(), *named);
    return codes;
  }
  constexpr at::ScalarType mark = at::kQInt32;
  auto types = types_of(context.inputs);
  int32_t first = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const int32_t code = context.carried_type_of(i);
    if (code == 0 || !context.inputs[i].defined()) continue;
    types[i].dtype = mark;
    if (first == 0 || i == op.traits.typed_like) first = code;
  }
  const auto inferred = inferred_types(op, context, types);
  for (size_t i = 0; i < outputs.size() && first != 0; ++i) {
    const bool like = outputs[i].defined() && outputs[i].scalar_type() == carried_type(first)->carrier;
    if (i < inferred.size() ? inferred[i].dtype == mark : like) codes[i] = first;
  }
  return codes;
}

void settle_carried(const OpDef& op, const EvalContext& context, std::vector<at::Tensor>& outputs) {
  if (context.made == nullptr) return;  // nobody follows such types
  const bool read = std::ranges::any_of(context.carried, [](int32_t code) { return code != 0; });
  if (!read && named_type(context.node).value_or(0) == 0) return;
  auto codes = carried_outputs(op, context, outputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (codes[i] != 0 && outputs[i].defined() && !outputs[i].is_floating_point())
      outputs[i] = wrapped(outputs[i], codes[i], context.node);
  *context.made = std::move(codes);
}

bool needs_widening(const OpDef& op, const EvalContext& context) {
  const auto half = [](const at::Tensor& input) { return input.defined() && is_half(input.scalar_type()); };
  return !takes_half_as_it_is(op.traits) && std::ranges::any_of(context.inputs, half);
}

}  // namespace

std::vector<at::Tensor> evaluate(const OpDef& op, const EvalContext& context) {
  try {
    auto outputs = needs_widening(op, context) ? evaluate_widened(op, context) : op.evaluate(context);
    settle_carried(op, context, outputs);
    return outputs;
  } catch (const Error&) {
    throw;
  } catch (const OutOfMemory& refused) {
    throw Error(ErrorKind::memory, describe(context.node), to_string(refused));
  } catch (const c10::Error& error) {
    throw library_error(context, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::memory, describe(context.node), "there is not enough memory for its result");
  } catch (const std::length_error&) {
    throw Error(ErrorKind::memory, describe(context.node), "its result would be larger than any memory");
  } catch (const std::exception& error) {
    throw library_error(context, error.what());
  }
}

}  // namespace pare
