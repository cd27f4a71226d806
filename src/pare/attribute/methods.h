// The list of attribution methods. A method is one of three kinds: a class activation map at a layer, a gradient at the
// input, or a walk of relevance back to the input or a layer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pare/attribute/cam.h"
#include "pare/attribute/walk.h"
#include "pare/explain.h"
#include "pare/run.h"

namespace pare {

// How the channels of a map become one.
enum class Collapse { sum, positive, largest };

// What a gradient method gives: a tensor like x and, where the attribution should sum to something, by how much it
// fails to.
struct InputAttribution {
  at::Tensor attribution;
  at::Tensor delta;
};

struct AttributionMethod {
  using Gradient = InputAttribution (*)(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                                        const AttributionOptions& options);
  using Rule = LinearRule (*)(const AttributionOptions& options);

  std::string_view name;
  Collapse collapse = Collapse::sum;
  bool at_layer = false;  // maps are taken at a layer unless another value is named
  std::optional<CamKind> cam = {};
  Gradient gradient = nullptr;
  Rule rule = nullptr;      // of a walk
  Rule opposite = nullptr;  // of a second walk, which is subtracted
  bool from_score = false;  // the walk begins with the score, whose sign the map has; else with one
};

std::span<const AttributionMethod> attribution_method_list();
// Error{usage} for an unknown name.
const AttributionMethod& find_attribution_method(const std::string& name);

}  // namespace pare
