#include "pare/distill/match.h"

#include <ATen/ATen.h>

#include <map>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/attribute/explained.h"
#include "pare/core/error.h"
#include "pare/distill/attention.h"
#include "pare/distill/gradient_attention.h"
#include "pare/distill/sensitivity.h"

namespace pare {

const std::vector<MatchMethod>& match_methods() {
  using Layers = MatchMethod::Layers;
  using Gradients = MatchMethod::Gradients;
  static const std::vector<MatchMethod> list = {
      {"at", 1000, Layers::stages, Gradients::none, match_attention},
      {"at-grad", 1, Layers::none, Gradients::input, match_loss_gradients},
      {"ewa", 100, Layers::last, Gradients::none, match_attention},
      {"swa", 100, Layers::last, Gradients::layers, match_sensitivity},
      {"sswa", 100, Layers::last, Gradients::layers, match_stochastic_sensitivity},
  };
  return list;
}

const MatchMethod* find_match_method(const std::string& name) {
  if (name == "none") return nullptr;
  std::vector<std::string_view> names = {"none"};
  for (const auto& method : match_methods()) {
    if (method.name == name) return &method;
    names.push_back(method.name);
  }
  throw Error(ErrorKind::usage, "--match", "'{}' is not one of {}", name, fmt::join(names, ", "));
}

namespace {

// The last value of each spatial extent on the way to the scores.
std::map<std::pair<int64_t, int64_t>, std::string> stage_ends(const Graph& network) {
  std::map<std::pair<int64_t, int64_t>, std::string> ends;
  const Graph graph = scores_only(network);
  const Shapes shapes = infer_shapes(graph, {.batch = 1, .open = 224});
  for (const auto& node : graph.nodes) {
    const TensorType* type = node.outputs.empty() ? nullptr : shapes.find(node.outputs[0]);
    if (type != nullptr && type->rank() == 4 && at::isFloatingType(type->dtype) && type->dims[2] * type->dims[3] > 1)
      ends[{type->dims[2], type->dims[3]}] = node.outputs[0];
  }
  return ends;
}

}  // namespace

std::vector<std::string> teacher_layers(const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const auto& entry : wanted) names.push_back(entry.substr(entry.find('=') + 1));  // npos + 1: the whole
  return names;
}

std::vector<LayerPair> matched_layers(const Graph& teacher, const Graph& student, const MatchMethod& method,
                                      const std::vector<std::string>& wanted) {
  std::vector<LayerPair> pairs;
  if (method.layers == MatchMethod::Layers::none) {
    if (!wanted.empty()) throw Error(ErrorKind::usage, "--match-layers", "{} matches the input", method.name);
    return pairs;
  }
  const auto theirs = teacher_layers(wanted);
  for (size_t i = 0; i < wanted.size(); ++i)
    pairs.push_back({find_value(teacher, theirs[i]), find_value(student, wanted[i].substr(0, wanted[i].find('=')))});
  if (!wanted.empty()) return pairs;
  if (method.layers == MatchMethod::Layers::last) return {{last_spatial_value(teacher), last_spatial_value(student)}};
  const auto own = stage_ends(student);
  for (const auto& [extent, value] : stage_ends(teacher))
    if (const auto found = own.find(extent); found != own.end()) pairs.push_back({value, found->second});
  if (pairs.empty())
    throw Error(ErrorKind::shape, student.name, "no layer has the spatial extent of a layer of the teacher");
  return pairs;
}

}  // namespace pare
