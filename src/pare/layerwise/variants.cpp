#include "pare/layerwise/variants.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/data/in_order.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/sensitivity.h"
#include "pare/layerwise/side_by_side.h"

namespace pare {

namespace {

// Does the node of the variant read a constant that is not the original's?
bool has_other_constants(const Graph& original, const Graph& variant, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](const std::string& input) {
    const auto own = variant.tensors.find(input);
    if (own == variant.tensors.end()) return false;
    const auto old = original.tensors.find(input);
    return old == original.tensors.end() || !own->second.is_same(old->second);
  });
}

// What can't be told before a run counts as yes.
bool one_row_of_classes(const Graph& graph, const std::string& value) {
  const Shapes shapes = analysis_shapes(graph);
  const TensorType* type = shapes.find(value);
  return type == nullptr || type->rank() < 3 ||
         std::all_of(type->dims.begin() + 2, type->dims.end(), [](int64_t extent) { return extent == 1; });
}

// Of sample i of a piece of `count`; of the whole answer where it has no row for each sample.
double divergence_of(const at::Tensor& z, const at::Tensor& other, int64_t i, int64_t count, double temperature) {
  if (z.dim() == 0 || z.size(0) != count || other.dim() == 0 || other.size(0) != count)
    return z.sizes() == other.sizes() ? divergence(z.reshape({1, -1, 1, 1}), other.reshape({1, -1, 1, 1})) : 1;
  return divergence(z.narrow(0, i, 1), other.narrow(0, i, 1), temperature);
}

}  // namespace

TensorMap all_values(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  TensorMap values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs.at(i).name] = inputs[i];
  for (const Node& node : graph.nodes) {
    const auto outputs = evaluate_node(graph, node, values);
    for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
      if (!node.outputs[i].empty()) values[node.outputs[i]] = outputs[i];
  }
  return values;
}

std::vector<at::Tensor> changed_values(const Graph& original, const Graph& variant, const TensorMap& values,
                                       const std::vector<std::string>& wanted) {
  TensorMap fresh;
  std::map<std::string, size_t> last;
  for (size_t n = 0; n < variant.nodes.size(); ++n)
    for (const auto& input : variant.nodes[n].inputs) last[input] = n;
  for (const auto& name : wanted) last[name] = variant.nodes.size();
  std::set<std::string> missing(wanted.begin(), wanted.end());
  for (size_t n = 0; n < variant.nodes.size() && !missing.empty(); ++n) {
    const Node& node = variant.nodes[n];
    for (const auto& output : node.outputs) missing.erase(output);
    const bool reads_fresh =
        std::ranges::any_of(node.inputs, [&](const std::string& input) { return fresh.contains(input); });
    if (values.contains(node.outputs.front()) && !reads_fresh && !has_other_constants(original, variant, node))
      continue;
    TensorMap inputs;
    for (const auto& input : node.inputs) {
      if (const auto found = fresh.find(input); found != fresh.end())
        inputs[input] = found->second;
      else if (const auto kept = values.find(input); kept != values.end())
        inputs[input] = kept->second;
    }
    const auto outputs = evaluate_node(variant, node, inputs);
    for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
      if (!node.outputs[i].empty()) fresh[node.outputs[i]] = outputs[i];
    for (const auto& input : node.inputs)
      if (last[input] == n) fresh.erase(input);
  }
  std::vector<at::Tensor> result;
  for (const auto& name : wanted) {
    const auto found = fresh.find(name);
    result.push_back(found != fresh.end() ? found->second : values.at(name));
  }
  return result;
}

std::vector<std::string> answer_values(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& output : graph.outputs)
    if (at::isFloatingType(output.dtype)) names.push_back(output.name);
  if (names.size() > 1) return names;
  const std::string scores = score_value(graph);
  return {names.empty() || one_row_of_classes(graph, scores) ? scores : names.front()};
}

at::Tensor sample_divergences(const Graph& graph, const std::vector<Graph>& variants, const Samples& samples,
                              Observer& observer, const std::string& step, double temperature) {
  const auto answers = answer_values(graph);
  const Pieces pieces = pieces_of(graph, samples, piece_for(samples, 4));
  const auto count = static_cast<int64_t>(variants.size());
  std::vector<at::Tensor> parts = {at::empty({count, 0}, at::kDouble)};
  int64_t done = 0;
  in_order<at::Tensor>(
      pieces.count(),
      [&](size_t p) {
        const at::NoGradGuard no_grad;
        const TensorMap values = all_values(graph, pieces.inputs(p));
        at::Tensor part = at::zeros({count, pieces.real_in(p)}, at::kDouble);
        auto entry = part.accessor<double, 2>();
        for (int64_t v = 0; v < count; ++v) {
          const auto found = changed_values(graph, variants[static_cast<size_t>(v)], values, answers);
          for (size_t a = 0; a < answers.size(); ++a)
            for (int64_t i = 0; i < part.size(1); ++i)
              entry[v][i] +=
                  divergence_of(values.at(answers[a]), found[a], i, pieces.end(p) - pieces.begin(p), temperature) /
                  static_cast<double>(answers.size());
        }
        return part;
      },
      [&](const at::Tensor& part) {
        parts.push_back(part);
        done = std::min(done + pieces.piece, samples.size);
        observer.step(step, done, samples.size);
      });
  return at::cat(parts, 1);
}

std::vector<double> answer_divergences(const Graph& graph, const std::vector<Graph>& variants, const Samples& samples,
                                       Observer& observer, const std::string& step, double temperature) {
  const at::Tensor own = sample_divergences(graph, variants, samples, observer, step, temperature);
  const at::Tensor sums = at::cat({own.sum(1), at::full({1}, own.size(1), at::kDouble)});  // the last counts samples
  observer.ranks().sum(sums);
  const double* sum = sums.data_ptr<double>();
  std::vector<double> result;
  for (size_t v = 0; v < variants.size(); ++v) result.push_back(sum[v] / sum[variants.size()]);
  return result;
}

}  // namespace pare
