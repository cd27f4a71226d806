#include "pare/fuse/repair.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "pare/calibrate/moments.h"
#include "pare/calibrate/ridge.h"
#include "pare/fuse/linear_layers.h"
#include "pare/fuse/stepwise_run.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/ops/traits.h"
#include "pare/passes/fold_batch_norm.h"
#include "pare/run.h"

namespace pare {

namespace {

constexpr int64_t kMostPlaces = 60000;  // of a regression; more are thinned out evenly

int64_t sample_count(const std::vector<at::Tensor>& samples) { return samples.empty() ? 0 : samples.front().size(0); }

// The graph as far as it is needed for some of its values.
Graph as_far_as(const Graph& graph, const std::vector<std::string>& values) {
  Graph part = graph;
  part.outputs.clear();
  for (const std::string& value : values)
    if (std::none_of(graph.inputs.begin(), graph.inputs.end(), [&](const auto& in) { return in.name == value; }))
      part.outputs.push_back({.name = value});
  return remove_unused(std::move(part));
}

// Calls `use` with the values of each piece of the samples, one tensor for every name.
template <typename Use>
void run_in_pieces(const Graph& graph, const std::vector<at::Tensor>& samples, const std::vector<std::string>& values,
                   Use use) {
  const Program program(as_far_as(graph, values));
  RunOptions options;
  options.taps = values;
  for (const auto& piece : in_pieces(graph, samples)) {
    RunResult result = program.run(piece, options);
    for (size_t i = 0; i < graph.inputs.size(); ++i) result.tapped[graph.inputs[i].name] = piece[i];
    use(result.tapped);
  }
}

std::vector<size_t> batch_norms(const Graph& graph) {
  std::vector<size_t> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (is_batch_norm(node) && graph.is_constant(node.inputs[3]) && graph.is_constant(node.inputs[4]))
      nodes.push_back(n);
  }
  return nodes;
}

std::set<std::string> values_before_batch_norms(const Graph& graph) {
  std::set<std::string> values;
  for (const size_t n : batch_norms(graph)) values.insert(graph.nodes[n].inputs[0]);
  return values;
}

// The statistics of what it reads, at the place the run has come to.
void reset_batch_norm(Graph& graph, size_t index, StepwiseRun& run, ProcessGroup& ranks) {
  const Node& node = graph.nodes[index];
  run.advance_to(index);
  ChannelMoments statistics;
  for (size_t p = 0; p < run.pieces(); ++p) statistics.add(run.value(p, node.inputs[0]));
  statistics.sum_over(ranks);
  const auto dtype = graph.tensor(node.inputs[3]).scalar_type();
  graph.tensors[node.inputs[3]] = statistics.mean().to(dtype);
  graph.tensors[node.inputs[4]] = statistics.variance().to(dtype);
}

// A stride that is coprime to the places of a sample, so that none is passed over for good.
Thinning thinned(int64_t places, const std::vector<at::Tensor>& samples) {
  int64_t stride = 1 + (places * sample_count(samples) - 1) / kMostPlaces;
  while (std::gcd(stride, places) != 1) ++stride;
  return {.places = places, .stride = stride};
}

// The values that layers read and make.
const std::string& input_of(const Graph& graph, const LinearLayer& layer) { return graph.nodes[layer.node].inputs[0]; }
const std::string& output_of(const Graph& graph, const LinearLayer& layer) {
  return graph.nodes[layer.node].outputs[0];
}
std::vector<std::string> outputs_of(const Graph& graph, const std::vector<LinearLayer>& layers) {
  std::vector<std::string> values;
  for (const LinearLayer& layer : layers) values.push_back(output_of(graph, layer));
  return values;
}

}  // namespace

Graph reset_batch_norms(const Graph& graph, const std::vector<at::Tensor>& samples, ProcessGroup& ranks) {
  const at::NoGradGuard no_grad;
  Graph result = graph;
  StepwiseRun run(result, samples);
  for (const size_t n : batch_norms(graph)) reset_batch_norm(result, n, run, ranks);
  return result;
}

Graph rescale(const Graph& fused, const Parents& parents, const std::vector<at::Tensor>& samples) {
  const at::NoGradGuard no_grad;
  const auto normed = values_before_batch_norms(fused);
  Graph result = with_biases(fused, normed);
  const auto layers = linear_layers(result);
  std::set<std::string> outputs;
  for (const auto& output : fused.outputs) outputs.insert(output.name);

  const std::vector<std::string> values = outputs_of(result, layers);
  std::map<std::string, at::Tensor> mean;
  std::map<std::string, at::Tensor> deviation;
  for (size_t k = 0; k < parents.networks.size(); ++k) {
    std::map<std::string, ChannelMoments> moments;
    run_in_pieces(parents.networks[k], samples, values, [&](const TensorMap& v) {
      for (const std::string& value : values) moments[value].add(v.at(value));
    });
    for (const std::string& value : values) {
      moments[value].sum_over(parents.observer.ranks());
      const at::Tensor m = moments[value].mean() * parents.shares[k];
      const at::Tensor s = moments[value].deviation() * parents.shares[k];
      mean[value] = k == 0 ? m : mean[value] + m;
      deviation[value] = k == 0 ? s : deviation[value] + s;
    }
  }

  StepwiseRun run(result, samples);
  for (size_t n = 0; n < result.nodes.size(); ++n) {
    parents.observer.step("repairing", static_cast<int64_t>(n), static_cast<int64_t>(result.nodes.size()));
    if (is_batch_norm(result.nodes[n]) && normed.contains(result.nodes[n].inputs[0]))
      reset_batch_norm(result, n, run, parents.observer.ranks());
    const auto layer = std::find_if(layers.begin(), layers.end(), [&](const LinearLayer& l) { return l.node == n; });
    if (layer == layers.end()) continue;
    const std::string& value = output_of(result, *layer);
    if (normed.contains(value) || outputs.contains(value)) continue;
    ChannelMoments own;
    run.advance_to(n);
    for (size_t p = 0; p < run.pieces(); ++p) own.add(run.next_output(p));
    own.sum_over(parents.observer.ranks());
    const at::Tensor found = own.deviation();
    const at::Tensor scale = at::where(found > 0, deviation[value] / found, at::ones_like(found));
    at::Tensor bias;
    if (has_bias(result, *layer)) bias = mean[value] + scale * (bias_of(result, *layer).to(at::kDouble) - own.mean());
    set_weight_matrix(result, *layer, weight_matrix(result, *layer) * scale.unsqueeze(1), bias);
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

Graph regress(const Graph& fused, const Parents& parents, const std::vector<at::Tensor>& samples, double rho) {
  const at::NoGradGuard no_grad;
  Graph result = with_biases(fold_batch_norm(reset_batch_norms(fused, samples, parents.observer.ranks())));
  std::vector<Graph> folded;
  for (const Graph& parent : parents.networks) folded.push_back(fold_batch_norm(parent));

  // Z of every layer in places that are not too many, piece by piece; U of the same places follows layer by layer.
  const auto layers = linear_layers(result);
  const std::vector<std::string> outputs = outputs_of(result, layers);
  std::vector<Thinning> thinning(layers.size());
  std::vector<std::vector<at::Tensor>> Z(layers.size());
  for (size_t k = 0; k < folded.size(); ++k) {
    size_t p = 0;
    run_in_pieces(folded[k], samples, outputs, [&](const TensorMap& v) {
      for (size_t l = 0; l < layers.size(); ++l) {
        const at::Tensor& z = v.at(outputs[l]);
        if (p == 0) thinning[l] = thinned(places_of(layers[l], z), samples);
        const at::Tensor rows = thinned_outputs(layers[l], z, thinning[l]) * parents.shares[k];
        if (k == 0)
          Z[l].push_back(rows);
        else
          Z[l][p] = Z[l][p] + rows;
      }
      ++p;
    });
  }
  StepwiseRun run(result, samples);
  for (size_t l = 0; l < layers.size(); ++l) {
    const LinearLayer& layer = layers[l];
    parents.observer.step("repairing", static_cast<int64_t>(l), static_cast<int64_t>(layers.size()));
    CrossMoments moments;
    run.advance_to(layer.node);
    for (size_t p = 0; p < run.pieces(); ++p)
      moments.add(thinned_inputs(result, layer, run.value(p, input_of(result, layer)), thinning[l]), Z[l][p]);
    moments.sum_over(parents.observer.ranks());
    const at::Tensor W = weight_matrix(result, layer);
    // Moments about zero, with a one appended to every input where the layer has a bias.
    const at::Tensor u = moments.mean_x().unsqueeze(1);
    const at::Tensor z = moments.mean_y().unsqueeze(0);
    at::Tensor A = moments.covariance_xx() + at::mm(u, u.t());
    at::Tensor B = moments.covariance_xy() + at::mm(u, z);
    if (!has_bias(result, layer)) {
      set_weight_matrix(result, layer, ridge_towards(A, B, rho, W), {});
      continue;
    }
    const at::Tensor one = at::ones({1, 1}, at::kDouble);
    A = at::cat({at::cat({A, u}, 1), at::cat({u.t(), one}, 1)}, 0);
    B = at::cat({B, z}, 0);
    const at::Tensor b = bias_of(result, layer).to(at::kDouble).unsqueeze(1);
    const at::Tensor fitted = ridge_towards(A, B, rho, at::cat({W, b}, 1));
    set_weight_matrix(result, layer, fitted.narrow(1, 0, W.size(1)), fitted.select(1, W.size(1)));
  }
  return result;
}

}  // namespace pare
