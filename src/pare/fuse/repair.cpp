#include "pare/fuse/repair.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

#include "pare/calibrate/ridge.h"
#include "pare/fuse/linear_layers.h"
#include "pare/layerwise/change_layers.h"
#include "pare/layerwise/channel_moments.h"
#include "pare/ops/traits.h"
#include "pare/passes/fold_batch_norm.h"

namespace pare {

namespace {

constexpr int64_t kMostPlaces = 60000;  // of a regression
constexpr int64_t kPiece = 16;

bool has_statistics(const Graph& graph, const Node& node) {
  return is_batch_norm(node) && graph.is_constant(node.inputs[3]) && graph.is_constant(node.inputs[4]);
}

std::set<std::string> values_before_batch_norms(const Graph& graph) {
  std::set<std::string> values;
  for (const Node& node : graph.nodes)
    if (has_statistics(graph, node)) values.insert(node.inputs[0]);
  return values;
}

std::set<std::string> output_names(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& output : graph.outputs) names.insert(output.name);
  return names;
}

const std::string& output_of(const Graph& graph, const LinearLayer& layer) {
  return graph.nodes[layer.node].outputs[0];
}

// The statistics of what the batch norm reads now.
void reset_batch_norm(Graph& graph, size_t index, SideBySide& run, ProcessGroup& ranks) {
  const Node& node = graph.nodes[index];
  const ChannelMoments found =
      channel_moments(
          run, index, [&](const BothValues& v) { return std::vector{v.after.at(node.inputs[0])}; }, ranks)
          .front();
  const auto dtype = graph.tensor(node.inputs[3]).scalar_type();
  replace_constant(graph, index, 3, found.mean().to(dtype));
  replace_constant(graph, index, 4, found.variance().to(dtype));
  run.note_change(index);
}

}  // namespace

Graph reset_batch_norms(const Graph& graph, const Samples& samples, ProcessGroup& ranks, int64_t memory) {
  const at::NoGradGuard no_grad;
  Graph result = graph;
  SideBySide run({}, result, samples, {kPiece, memory});
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (has_statistics(graph, graph.nodes[n])) reset_batch_norm(result, n, run, ranks);
  return result;
}

namespace {

// Gives the layers of the fused network the means and deviations of the parents, one after another.
class Rescaling {
 public:
  Rescaling(Graph& fused, const Parents& parents, const Samples& samples)
      : fused_(fused),
        parents_(parents.networks, parents.shares),
        run_(parents_, fused, samples, {kPiece, parents.memory}) {}

  void rescale(const LinearLayer& layer, ProcessGroup& ranks) {
    const std::string& value = output_of(fused_, layer);
    // Of each parent, then of the fused network.
    const auto outputs = [&](const BothValues& values) {
      std::vector<at::Tensor> all;
      for (size_t k = 0; k < parents_.size(); ++k)
        all.push_back(evaluate_node(*parents_.graphs[k], made_by(*parents_.graphs[k], value), values.before[k])[0]);
      all.push_back(evaluate_node(fused_, fused_.nodes[layer.node], values.after)[0]);
      return all;
    };
    const auto moments = channel_moments(run_, layer.node, outputs, ranks);
    const at::Tensor wanted = parents_.mean_of([&](size_t k) { return moments[k].deviation(); });
    const at::Tensor mean = parents_.mean_of([&](size_t k) { return moments[k].mean(); });
    const ChannelMoments& own = moments.back();
    const at::Tensor found = own.deviation();
    const at::Tensor scale = at::where(found > 0, wanted / found, at::ones_like(found));
    at::Tensor bias;
    if (has_bias(fused_, layer)) bias = mean + scale * (bias_of(fused_, layer).to(at::kDouble) - own.mean());
    set_weight_matrix(fused_, layer, weight_matrix(fused_, layer) * scale.unsqueeze(1), bias);
    run_.note_change(layer.node);
  }

  void reset(size_t batch_norm, ProcessGroup& ranks) { reset_batch_norm(fused_, batch_norm, run_, ranks); }

 private:
  static const Node& made_by(const Graph& graph, const std::string& value) {
    return *std::ranges::find_if(graph.nodes, [&](const Node& node) { return node.outputs[0] == value; });
  }

  Graph& fused_;
  References parents_;
  SideBySide run_;
};

}  // namespace

Graph rescale(const Graph& fused, const Parents& parents, const Samples& samples) {
  const at::NoGradGuard no_grad;
  const auto normed = values_before_batch_norms(fused);
  const auto outputs = output_names(fused);
  Graph result = with_biases(fused, normed);
  std::map<size_t, LinearLayer> layers;
  for (const LinearLayer& layer : linear_layers(result))
    if (const auto& value = output_of(result, layer); !normed.contains(value) && !outputs.contains(value))
      layers[layer.node] = layer;
  Rescaling run(result, parents, samples);
  const auto count = static_cast<int64_t>(result.nodes.size());
  for (size_t n = 0; n < result.nodes.size(); ++n) {
    if (has_statistics(result, result.nodes[n])) run.reset(n, parents.observer.ranks());
    if (const auto layer = layers.find(n); layer != layers.end()) run.rescale(layer->second, parents.observer.ranks());
    parents.observer.step("repairing", static_cast<int64_t>(n) + 1, count);
  }
  return result;
}

Graph rescale_norms(const Graph& fused, const Parents& parents) {
  Graph result = fused;
  std::set<std::string> outputs;
  for (const auto& output : fused.outputs) outputs.insert(output.name);
  for (const LinearLayer& layer : linear_layers(fused)) {
    if (outputs.contains(output_of(fused, layer))) continue;
    const at::Tensor W = weight_matrix(fused, layer);
    at::Tensor wanted = at::zeros({W.size(0)}, at::kDouble);
    for (size_t k = 0; k < parents.networks.size(); ++k)
      wanted = wanted + parents.shares[k] * weight_matrix(parents.networks[k], layer).norm(2, 1);
    const at::Tensor norm = W.norm(2, 1);
    const at::Tensor scale = at::where(norm > 0, wanted / norm, at::ones_like(norm));
    set_weight_matrix(result, layer, W * scale.unsqueeze(1),
                      has_bias(fused, layer) ? bias_of(fused, layer) : at::Tensor());
  }
  return result;
}

namespace {

// W and b of the formula from moments about zero, with a one appended to every input where there is a b.
NewLayer regressed(const LayerTask& task, const at::Tensor& W, const at::Tensor& b, double rho) {
  const RowMoments moments = task.all(0);
  const at::Tensor u = moments.mean_x.unsqueeze(1);
  const at::Tensor z = moments.mean_y.unsqueeze(0);
  at::Tensor A = moments.covariance_xx().addmm_(u, u.t());
  at::Tensor B = moments.covariance_xy().addmm_(u, z);
  const auto as_stored = [&](const at::Tensor& weight) { return weight.reshape(task.weight.sizes()); };
  if (!b.defined()) return as_stored(ridge_towards(A, B, rho, W));
  const at::Tensor one = at::ones({1, 1}, at::kDouble);
  A = at::cat({at::cat({A, u}, 1), at::cat({u.t(), one}, 1)}, 0);
  B = at::cat({B, z}, 0);
  const at::Tensor fitted = ridge_towards(A, B, rho, at::cat({W, b.unsqueeze(1)}, 1));
  return {as_stored(fitted.narrow(1, 0, W.size(1))), fitted.select(1, W.size(1))};
}

ChangeOptions regression_options(const Parents& parents, const Samples& samples) {
  ChangeOptions options{.side_by_side = {kPiece, parents.memory}, .bias = false, .progress = "repairing"};
  const int64_t all = std::max<int64_t>(samples.size * parents.observer.ranks().size(), 1);
  options.read = {.places = std::max<int64_t>(kMostPlaces / all, 4),
                  .rows_per_unknown = kMostPlaces,
                  .checked = 0,
                  .shortcut = false,
                  .before_pool = false};
  return options;
}

}  // namespace

Graph regress(const Graph& fused, const Parents& parents, const Samples& samples, double rho) {
  const at::NoGradGuard no_grad;
  const Graph reset = reset_batch_norms(fused, samples, parents.observer.ranks(), parents.memory);
  const Graph average = with_biases(fold_batch_norm(reset));
  std::vector<Graph> folded;
  for (const Graph& parent : parents.networks) folded.push_back(fold_batch_norm(parent));
  std::map<std::string, LayerMethod> methods;
  for (const LinearLayer& layer : linear_layers(average)) {
    const at::Tensor b = has_bias(average, layer) ? bias_of(average, layer).to(at::kDouble) : at::Tensor();
    methods[output_of(average, layer)] = [W = weight_matrix(average, layer), b, rho](const LayerTask& task) {
      return task.moments.empty() ? NewLayer() : regressed(task, W, b, rho);
    };
  }
  ChangedLayers changed = change_layers({folded, parents.shares}, average, methods, samples,
                                        regression_options(parents, samples), parents.observer);
  for (const auto& layer : changed.left) parents.observer.note(layer + ": stays as it was averaged");
  return std::move(changed.graph);
}

}  // namespace pare
