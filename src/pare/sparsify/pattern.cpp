#include "pare/sparsify/pattern.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "pare/error.h"
#include "pare/ops/op.h"

namespace pare {

Pattern parse_pattern(const std::string& text) {
  Pattern pattern;
  char extra = 0;
  if (std::sscanf(text.c_str(), "%ld:%ld%c", &pattern.keep, &pattern.block, &extra) != 2 || pattern.keep < 1 ||
      pattern.keep >= pattern.block)
    throw Error(ErrorKind::usage, OptionName{"pattern"}, "expected N:M with N < M as 2:4, found '{}'", text);
  return pattern;
}

namespace {

InputAxis axis_of(const Node& node, size_t input, int64_t rank) {
  const auto layer = linear_layer(node, input, rank);
  if (!layer) return {};
  return {.axis = layer->in_axis, .groups = layer->transposed ? layer->groups : 1};
}

// How many inputs an output has.
int64_t inputs_of(const at::Tensor& tensor, const InputAxis& along) { return tensor.size(along.axis) / along.groups; }

InputAxis find(const InputAxes& axes, const std::string& name) {
  const auto found = axes.find(name);
  return found != axes.end() ? found->second : InputAxis{};
}

}  // namespace

InputAxes input_axes(const Graph& graph, const std::vector<std::string>& tensors) {
  InputAxes axes;
  for (const auto& node : graph.nodes)
    for (size_t i = 0; i < std::min<size_t>(node.inputs.size(), 2); ++i) {
      const std::string& name = node.inputs[i];
      if (std::find(tensors.begin(), tensors.end(), name) == tensors.end()) continue;
      const InputAxis own = axis_of(node, i, graph.tensor(name).dim());
      if (const auto [known, is_new] = axes.try_emplace(name, own); !is_new && known->second != own)
        known->second.axis = -1;
    }
  return axes;
}

at::Tensor pattern_mask(const at::Tensor& score, const Pattern& pattern, const InputAxis& along) {
  const at::Tensor all = at::ones(score.sizes(), at::kBool);
  if (along.axis < 0 || along.axis >= score.dim()) return all;
  const int64_t inputs = inputs_of(score, along);
  const int64_t whole = inputs / pattern.block * pattern.block;
  if (whole == 0) return all;
  // Inputs last: […, groups, whole / M, M], without the rest.
  const at::Tensor moved = score.detach().movedim(along.axis, -1);
  auto apart = moved.sizes().vec();
  apart.back() = along.groups;
  apart.push_back(inputs);
  auto blocks = apart;
  blocks.back() = whole / pattern.block;
  blocks.push_back(pattern.block);
  const at::Tensor values = moved.reshape(apart).narrow(-1, 0, whole).reshape(blocks);
  const at::Tensor order = std::get<1>(values.sort(/*stable=*/true, -1, /*descending=*/true));
  const at::Tensor kept = at::zeros(blocks, at::kBool).scatter(-1, order.narrow(-1, 0, pattern.keep), true);
  at::Tensor mask = at::ones(apart, at::kBool);
  mask.narrow(-1, 0, whole).copy_(kept.flatten(-2));
  return mask.reshape(moved.sizes()).movedim(-1, along.axis).contiguous();
}

std::vector<std::string> left_dense(const TensorMap& tensors, const Pattern& pattern, const InputAxes& axes) {
  std::vector<std::string> notes;
  for (const auto& [name, tensor] : tensors) {
    const InputAxis along = find(axes, name);
    if (along.axis < 0) {
      notes.push_back(fmt::format("{} is read along two axes: it stays dense", name));
      continue;
    }
    if (along.axis >= tensor.dim()) continue;
    const int64_t inputs = inputs_of(tensor, along);
    if (const int64_t rest = inputs % pattern.block; rest != 0)
      notes.push_back(fmt::format("{}: the last {} of {} inputs fill no group of {}: they stay dense", name, rest,
                                  inputs, pattern.block));
  }
  return notes;
}

}  // namespace pare
