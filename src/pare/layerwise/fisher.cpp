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

// The upper triangle of the Cholesky factor of F + λ·I, λ = ρ·mean diagonal or as much more as it takes.
at::Tensor regular_root(at::Tensor F, double rho) {
  const double mean = std::max(F.diagonal().mean().item<double>(), 1e-300);
  for (double added = 0; rho < 1e6; rho *= 10) {
    F.diagonal().add_(rho * mean - added);
    added = rho * mean;
    const auto [factor, info] = at::linalg_cholesky_ex(F);
    if (info.item<int>() == 0) return factor.t();
  }
  throw Error(ErrorKind::failed, "fisher", "gradients of {} outputs are not finite", F.size(0));
}

// Gradients g of one piece as rows, or the sum of their g gᵀ where that is smaller.
struct GradientPart {
  at::Tensor rows, product, squares;
};

GradientPart gradient_part(const at::Tensor& g, int64_t axis) {
  const at::Tensor size = g.flatten(1).square().sum(1);
  Shape dims(static_cast<size_t>(g.dim()), 1);
  dims[0] = -1;
  const at::Tensor rows = rows_of(g / size.clamp_min(1e-30).sqrt().reshape(dims), axis);
  GradientPart part{.squares = size.sum().to(at::kDouble)};
  if (rows.size(0) < rows.size(1))
    part.rows = rows.to(at::kDouble);
  else
    part.product = at::mm(rows.t(), rows).to(at::kDouble);
  return part;
}

// The same of all pieces.
class GradientSum {
 public:
  void add(const GradientPart& part) {
    squares_ = squares_.defined() ? squares_ + part.squares : part.squares;
    if (part.rows.defined()) {
      rows_.push_back(part.rows);
      count_ += part.rows.size(0);
      if (product_.defined() || count_ >= part.rows.size(1)) multiply(part.rows.size(1));
    } else {
      multiply(part.product.size(0));
      product_ += part.product;
    }
  }

  // Of the images of all ranks, `images` together.
  at::Tensor root(double images, ProcessGroup& ranks) {
    ranks.sum(squares_);
    const double length = squares_.item<double>() / images;  // mean square of those of an image
    if (ranks.alone() && !product_.defined()) return at::cat(rows_) * std::sqrt(length / images);
    multiply(product_.defined() ? product_.size(0) : rows_.front().size(1));
    ranks.sum(product_);
    return regular_root(product_.mul_(length / images), 1e-12);
  }

 private:
  void multiply(int64_t outputs) {
    if (!product_.defined()) product_ = at::zeros({outputs, outputs}, at::kDouble);
    for (const at::Tensor& rows : rows_) product_.addmm_(rows.t(), rows);
    rows_.clear();
  }

  std::vector<at::Tensor> rows_;
  int64_t count_ = 0;
  at::Tensor product_, squares_;
};

}  // namespace

std::map<size_t, at::Tensor> output_fisher(const Graph& graph, const std::vector<size_t>& layers,
                                           const Samples& samples, const FisherOptions& options, Observer& observer) {
  const auto answers = answer_values(graph);
  const Program program(answers.size() > 1 ? graph : scores_only(graph));
  RunOptions run;
  for (const size_t layer : layers) run.taps.push_back(graph.nodes[layer].outputs[0]);
  using Part = std::vector<GradientPart>;
  std::vector<GradientSum> sums(layers.size());
  int64_t done = 0;
  const Pieces pieces = pieces_of(graph, samples, options.piece > 0 ? options.piece : piece_for(samples, 4));
  in_order<Part>(
      pieces.count(),
      [&](size_t p) {
        const at::AutoGradMode recording(true);
        auto inputs = pieces.inputs(p);
        for (auto& input : inputs)
          if (input.is_floating_point()) input = input.detach().clone(at::MemoryFormat::Contiguous).requires_grad_();
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
          const at::Tensor g = gradients[l].defined() ? gradients[l] : at::zeros_like(outputs[l]);
          part.push_back(gradient_part(g, layer_of(graph, layers[l])->value_axis));
        }
        return part;
      },
      [&](const Part& part) {
        for (size_t l = 0; l < part.size(); ++l) sums[l].add(part[l]);
        done = std::min(done + pieces.piece, samples.size);
        observer.step("weighing outputs", done, samples.size);
      });
  at::Tensor count = at::full({1}, samples.size, at::kDouble);
  observer.ranks().sum(count);
  std::map<size_t, at::Tensor> fisher;
  for (size_t l = 0; l < layers.size(); ++l) fisher[layers[l]] = sums[l].root(count.item<double>(), observer.ranks());
  return fisher;
}

at::Tensor weighed_by(const at::Tensor& root, const at::Tensor& weight, double rho) {
  at::Tensor F = at::mm(root.t(), root);
  if (!(F.diagonal().mean().item<double>() > 0)) return weight;
  return at::mm(regular_root(std::move(F), rho), weight.flatten(1)).reshape(weight.sizes());
}

}  // namespace pare
