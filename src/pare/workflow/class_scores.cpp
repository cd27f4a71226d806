#include "pare/workflow/class_scores.h"

#include <algorithm>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"

namespace pare {

bool gives_class_scores(const Graph& graph, const Samples& samples) {
  if (samples.size == 0) return true;
  ShapeOptions options;
  const auto inputs = samples.inputs(0, 1);
  for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i)
    options.inputs[graph.inputs[i].name] = inputs[i].sizes().vec();
  const Shapes shapes = infer_shapes(graph, options);
  const TensorType* type = shapes.find(score_value(graph));
  if (type == nullptr || type->dims.empty()) return true;
  return std::all_of(type->dims.begin() + std::min<int64_t>(2, type->rank()), type->dims.end(),
                     [](int64_t extent) { return extent == 1; });
}

}  // namespace pare
