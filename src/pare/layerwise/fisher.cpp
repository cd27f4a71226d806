#include "pare/layerwise/fisher.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "pare/analysis/layers.h"
#include "pare/analysis/scores.h"
#include "pare/calibrate/moments.h"
#include "pare/data/in_order.h"
#include "pare/error.h"
#include "pare/layerwise/pieces.h"
#include "pare/layerwise/variants.h"
#include "pare/ops/op.h"
#include "pare/run.h"

namespace pare {

namespace {

at::Tensor random_signs(at::IntArrayRef dims, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randint(0, 2, dims, generator, at::TensorOptions(at::kFloat)) * 2 - 1;
}

// v·z for class scores [N, K], or for outputs of any other shape.
at::Tensor probe(const at::Tensor& z, uint64_t seed) {
  const at::Tensor sign = random_signs(z.sizes(), seed).to(z.scalar_type());
  if (z.dim() != 2 || z.size(1) < 2)
    return (z * sign).sum() / std::sqrt(static_cast<double>(z.numel()) / static_cast<double>(z.size(0)));
  const at::Tensor p = at::softmax(z.detach(), 1);
  const at::Tensor e = sign * p.sqrt();
  return (z * (e - p * e.sum(1, true))).sum();
}

at::Tensor scores_of(const at::Tensor& z) {
  // One row for each image where there is only one place; maps of scores are taken as they are.
  return z.dim() > 2 && z.numel() == z.size(0) * z.size(1) ? z.reshape({z.size(0), z.size(1)}) : z;
}

}  // namespace

std::map<size_t, at::Tensor> output_fisher(const Graph& graph, const std::vector<size_t>& layers,
                                           const Samples& samples, const FisherOptions& options, Observer& observer) {
  const auto answers = answer_values(graph);
  const Program program(answers.size() > 1 ? graph : scores_only(graph));
  RunOptions run;
  for (const size_t layer : layers) run.taps.push_back(graph.nodes[layer].outputs[0]);
  using Part = std::vector<at::Tensor>;
  Part sums(2 * layers.size());  // of each layer: F of gradients of one length, and the squares of their lengths
  int64_t done = 0;
  const Pieces pieces = pieces_of(graph, samples, options.piece);
  in_order<Part>(
      pieces.count(),
      [&](size_t p) {
        const at::AutoGradMode recording(true);
        auto inputs = pieces.inputs(p);
        for (auto& input : inputs)
          if (input.is_floating_point()) input = input.detach().clone().requires_grad_();
        const RunResult result = program.run(inputs, run);
        std::vector<at::Tensor> outputs;
        for (const auto& tap : run.taps) outputs.push_back(result.tapped.at(tap));
        at::Tensor probed;
        for (const at::Tensor& output : result.outputs) {
          if (!output.requires_grad()) continue;
          const at::Tensor own = probe(scores_of(output), options.seed * 1000003 + p);
          probed = probed.defined() ? probed + own : own;
        }
        const auto gradients = torch::autograd::grad({probed}, outputs, {}, /*retain_graph=*/false,
                                                     /*create_graph=*/false, /*allow_unused=*/true);
        const at::NoGradGuard no_grad;
        Part part;
        for (size_t l = 0; l < layers.size(); ++l) {
          const int64_t axis = layer_of(graph, layers[l])->value_axis;
          const at::Tensor g = gradients[l].defined() ? gradients[l] : at::zeros_like(outputs[l]);
          const at::Tensor size = g.flatten(1).square().sum(1);
          Shape dims(static_cast<size_t>(g.dim()), 1);
          dims[0] = -1;
          const at::Tensor rows = rows_of(g / size.clamp_min(1e-30).sqrt().reshape(dims), axis);
          part.push_back(at::mm(rows.t(), rows).to(at::kDouble));
          part.push_back(size.sum().to(at::kDouble));
        }
        return part;
      },
      [&](const Part& part) {
        for (size_t l = 0; l < part.size(); ++l) sums[l] = sums[l].defined() ? sums[l] + part[l] : part[l];
        done = std::min(done + pieces.piece, samples.size);
        observer.step("weighing outputs", done, samples.size);
      });
  at::Tensor count = at::full({1}, samples.size, at::kDouble);
  observer.ranks().sum(count);
  std::map<size_t, at::Tensor> fisher;
  for (at::Tensor& sum : sums) {
    observer.ranks().sum(sum);
    sum = sum / count.item<double>();
  }
  for (size_t l = 0; l < layers.size(); ++l) fisher[layers[l]] = sums[2 * l] * sums[2 * l + 1];
  return fisher;
}

at::Tensor fisher_root(const at::Tensor& F, double rho) {
  const auto [values, vectors] = at::linalg_eigh(F);
  const at::Tensor lambda = values.clamp_min(0);
  const double mean = lambda.mean().item<double>();
  if (!(mean > 0)) return at::eye(F.size(0), F.options());
  return at::mm(vectors * (lambda + rho * mean).sqrt(), vectors.t());
}

}  // namespace pare
