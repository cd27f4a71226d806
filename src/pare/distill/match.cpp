#include "pare/distill/match.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "pare/attribute/explained.h"
#include "pare/distill/attention.h"
#include "pare/distill/gradient_attention.h"
#include "pare/distill/sensitivity.h"
#include "pare/error.h"

namespace pare {

namespace {

// A deque: methods stay where they are when one is added.
std::deque<MatchMethod>& method_list() {
  using Layers = MatchMethod::Layers;
  using Gradients = MatchMethod::Gradients;
  static std::deque<MatchMethod> list = {
      {"at", 1000, Layers::stages, Gradients::none, match_attention},
      {"at-grad", 1, Layers::none, Gradients::input, match_loss_gradients},
      {"ewa", 100, Layers::last, Gradients::none, match_attention},
      {"swa", 100, Layers::last, Gradients::layers, match_sensitivity},
      {"sswa", 100, Layers::last, Gradients::layers, match_stochastic_sensitivity},
  };
  return list;
}

}  // namespace

const std::deque<MatchMethod>& match_methods() { return method_list(); }

void add_match_method(MatchMethod method) {
  const auto taken = [&](const MatchMethod& known) { return known.name == method.name; };
  if (method.name == "none" || std::ranges::any_of(method_list(), taken))
    throw Error(ErrorKind::usage, method.name, "there is already a matching of this name");
  if (!method.penalty) throw Error(ErrorKind::usage, method.name, "has no penalty");
  method_list().push_back(std::move(method));
}

const MatchMethod* find_match_method(const std::string& name) {
  if (name == "none") return nullptr;
  std::vector<std::string> names = {"none"};
  for (const auto& method : match_methods()) {
    if (method.name == name) return &method;
    names.push_back(method.name);
  }
  throw Error(ErrorKind::usage, OptionName{"match"}, "'{}' is not one of {}", name, fmt::join(names, ", "));
}

namespace {

// The last value of each spatial extent that everything passes through: not what the next stage's first block makes
// before its stride. Where there is none, the last of any.
std::map<std::pair<int64_t, int64_t>, std::string> stage_ends(const Graph& graph) {
  std::map<std::pair<int64_t, int64_t>, SpatialPlace> ends;
  for (const auto& place : spatial_places(graph)) {
    SpatialPlace& end = ends[{place.height, place.width}];
    if (place.alone || !end.alone) end = place;
  }
  std::map<std::pair<int64_t, int64_t>, std::string> values;
  for (const auto& [extent, place] : ends) values[extent] = place.value;
  return values;
}

}  // namespace

std::vector<LayerPair> matched_layers(const Graph& teacher, const Graph& student, const MatchMethod& method,
                                      const std::vector<std::string>& wanted) {
  std::vector<LayerPair> pairs;
  if (method.layers == MatchMethod::Layers::none) {
    if (!wanted.empty()) throw Error(ErrorKind::usage, OptionName{"match-layers"}, "{} matches the input", method.name);
    return pairs;
  }
  for (const auto& entry : wanted) {
    const size_t equals = entry.find('=');
    pairs.push_back({find_value(teacher, entry.substr(equals + 1)),  // npos + 1: the whole
                     find_value(student, entry.substr(0, equals))});
  }
  if (!wanted.empty()) return pairs;
  const Graph folded = explained_graph(teacher);
  if (method.layers == MatchMethod::Layers::last) return {{last_spatial_value(folded), last_spatial_value(student)}};
  const auto own = stage_ends(student);
  for (const auto& [extent, value] : stage_ends(folded))
    if (const auto found = own.find(extent); found != own.end()) pairs.push_back({value, found->second});
  if (pairs.empty())
    throw Error(ErrorKind::shape, student.name, "no layer has the spatial extent of a layer of the teacher");
  return pairs;
}

}  // namespace pare
