#include "pare/workflow/output_distance.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/data/in_order.h"
#include "pare/error.h"
#include "pare/layerwise/pieces.h"
#include "pare/passes/working_form.h"
#include "pare/run.h"

namespace pare {

namespace {

// Of the first `count` samples of a piece, summed.
double summed_distance(const at::Tensor& z, const at::Tensor& other, int64_t count) {
  if (z.sizes() != other.sizes()) return static_cast<double>(count);
  if (z.dim() == 0 || z.size(0) < count) {  // not a row for each sample
    const double apart = (other - z).to(at::kDouble).norm().item<double>();
    return static_cast<double>(count) * apart / std::max(z.to(at::kDouble).norm().item<double>(), 1e-300);
  }
  const auto rows = [&](const at::Tensor& x) { return x.narrow(0, 0, count).reshape({count, -1}).to(at::kDouble); };
  const at::Tensor apart = (rows(other) - rows(z)).norm(2, {1});
  return (apart / rows(z).norm(2, {1}).clamp_min(1e-300)).sum().item<double>();
}

}  // namespace

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

double output_distance(const Graph& original, const Graph& other, const Samples& samples,
                       const std::function<void(int64_t done, int64_t all)>& progress) {
  constexpr int64_t kPiece = 4;
  const Program before(working_form(original)), after(working_form(other));
  const Pieces pieces = pieces_of(before.graph(), samples, kPiece);
  double sum = 0;
  int64_t done = 0;
  in_order<double>(
      pieces.count(),
      [&](size_t p) {
        const at::NoGradGuard no_grad;
        const auto inputs = pieces.inputs(p);
        const auto a = before.run(inputs).outputs, b = after.run(inputs).outputs;
        double apart = 0;
        int64_t outputs = 0;
        for (size_t i = 0; i < a.size(); ++i) {
          if (!a[i].is_floating_point()) continue;
          apart += summed_distance(a[i], b.at(i), pieces.real_in(p));
          ++outputs;
        }
        return apart / static_cast<double>(std::max<int64_t>(outputs, 1));
      },
      [&](double part) {
        sum += part;
        done = std::min(done + pieces.piece, samples.size);
        if (progress) progress(done, samples.size);
      });
  return sum / static_cast<double>(std::max<int64_t>(samples.size, 1));
}

}  // namespace pare
