#include "pare/sparsify/one_shot.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "pare/calibrate/ridge.h"
#include "pare/error.h"
#include "pare/layerwise/change_layers.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/offset_places.h"
#include "pare/layerwise/zero_weights.h"

namespace pare {

Tile parse_tile(const std::string& text) {
  constexpr int64_t kLargest = 64;
  Tile tile;
  char extra = 0;
  if (std::sscanf(text.c_str(), "%ldx%ld%c", &tile.outputs, &tile.inputs, &extra) != 2 || tile.outputs < 1 ||
      tile.inputs < 1 || tile.outputs > kLargest || tile.inputs > kLargest)
    throw Error(ErrorKind::usage, OptionName{"block"}, "expected OUTPUTSxINPUTS as 1x4, each 1 to {}, found '{}'",
                kLargest, text);
  return tile;
}

std::vector<double> owl_sparsities(const std::vector<double>& outliers, const std::vector<int64_t>& sizes,
                                   double sparsity, double most) {
  double all = 0, mean = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    all += static_cast<double>(sizes[i]);
    mean += outliers[i] * static_cast<double>(sizes[i]);
  }
  mean = all > 0 ? mean / all : 0;
  double widest = 0;
  for (const double ratio : outliers) widest = std::max(widest, std::abs(ratio - mean));
  const double room = std::min({most, sparsity, 1 - sparsity});
  std::vector<double> result;
  for (const double ratio : outliers) result.push_back(sparsity - (widest > 0 ? room * (ratio - mean) / widest : 0));
  return result;
}

namespace {

constexpr double kOutlier = 5;  // times the mean score

// E[x_j²] of the rows, without the mean taken off.
at::Tensor second_moments(const RowMoments& rows) { return rows.covariance_xx().diagonal() + rows.mean_x.square(); }

class OneShotRun {
 public:
  OneShotRun(const Graph& graph, const Samples& samples, const OneShotOptions& options, Observer& observer)
      : graph_(with_offset_places(graph)), samples_(samples), options_(options), observer_(observer) {
    change_.read.seed = options.seed;
    change_.side_by_side.memory = int64_t{3} << 29;  // what is not kept is computed again for every layer
    change_.bias = options.solve;
    change_.others = options.solve ? options.others : 0;
    if (!options.mask.pattern.empty()) pattern_ = parse_pattern(options.mask.pattern);
    if (!options.mask.block.empty()) tile_ = parse_tile(options.mask.block);
  }

  OneShot run() {
    choose_tensors();
    const std::map<std::string, double> parts = sparsities();
    std::map<std::string, LayerMethod> methods;
    for (const auto& [name, part] : parts)
      methods[outputs_.at(name)] = [this, part = part](const LayerTask& task) { return zeroed(task, part); };
    const ChangedLayers changed = change_layers(graph_, graph_, methods, samples_, change_, observer_);
    for (const auto& left : changed.left)
      result_.notes.push_back(left + ": its weights went by their magnitude, and nothing made up for them");
    result_.graph = without_zero_offsets(changed.graph);
    return std::move(result_);
  }

 private:
  // Weights that one layer alone reads; others stay dense.
  void choose_tensors() {
    const Usage usage = usage_of(graph_);
    std::map<std::string, size_t> layers;
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (const auto layer = layer_of(graph_, n)) layers[graph_.nodes[n].inputs[1]] = n;
    for (const auto& name : maskable_tensors(graph_, options_.mask)) {
      const auto layer = layers.find(name);
      const auto readers = usage.consumers.find(name);
      if (layer == layers.end() || readers->second.size() != 1)
        result_.notes.push_back(fmt::format(
            "{} stays dense: {}", name,
            layer == layers.end() ? "its layer is no plain product with a weight" : "several layers read it"));
      else {
        names_.push_back(name);
        outputs_[name] = graph_.nodes[layer->second].outputs[0];
      }
    }
    if (names_.empty()) throw Error(ErrorKind::usage, graph_.name, "there is no weight tensor to mask");
  }

  std::map<std::string, double> sparsities() {
    std::vector<std::vector<int64_t>> shapes;
    std::vector<int64_t> sizes;
    for (const auto& name : names_) {
      shapes.push_back(graph_.tensor(name).sizes().vec());
      sizes.push_back(graph_.tensor(name).numel());
    }
    std::vector<double> parts(names_.size(), options_.sparsity);
    if (!pattern_) {
      if (options_.mask.distribution == MaskDistribution::erk) {
        parts = erk_densities(shapes, options_.sparsity);
        for (double& part : parts) part = 1 - part;
      }
      if (options_.mask.distribution == MaskDistribution::owl)
        parts = owl_sparsities(outlier_ratios(), sizes, options_.sparsity);
    }
    std::map<std::string, double> result;
    for (size_t i = 0; i < names_.size(); ++i) result[names_[i]] = parts[i];
    return result;
  }

  // The part of each tensor's scores that lie far above their mean, in the dense network.
  std::vector<double> outlier_ratios() {
    std::map<std::string, double> ratios;
    std::map<std::string, LayerMethod> readers;
    for (const auto& name : names_)
      readers[outputs_.at(name)] = [&](const LayerTask& task) {
        const at::Tensor scores = scores_of(task);
        ratios[task.weight_name] = scores.gt(kOutlier * scores.mean()).to(at::kDouble).mean().item<double>();
        return at::Tensor();
      };
    ChangeOptions reading = change_;
    reading.others = 0;
    change_layers(graph_, graph_, readers, samples_, reading, observer_);
    std::vector<double> result;
    for (const auto& name : names_) result.push_back(ratios.at(name));
    return result;
  }

  ZeroPattern pattern_of(const LayerTask& task, double part) const {
    ZeroPattern pattern{.sparsity = part, .kernel = task.weight.size(3), .by_row = !options_.solve};
    if (pattern_) pattern.keep = pattern_->keep, pattern.among = pattern_->block;
    pattern.tile_outputs = tile_.outputs;
    pattern.tile_inputs = tile_.inputs;
    return pattern;
  }

  at::Tensor scores_of(const LayerTask& task) const {
    std::vector<at::Tensor> scores;
    for (int64_t g = 0; g < task.groups(); ++g)
      scores.push_back(task.moments.empty() ? task.matrix(g).abs()
                                            : wanda_scores(task.matrix(g), second_moments(task.all(g))));
    return at::stack(scores);  // [groups, outputs, columns]
  }

  // New weights, and their mask beside them.
  at::Tensor zeroed(const LayerTask& task, double part) {
    const ZeroPattern pattern = pattern_of(task, part);
    const bool solve = options_.solve && !task.moments.empty();
    at::Tensor weight = at::zeros_like(task.weight), mask = at::ones(task.weight.sizes(), at::kBool);
    if (task.matrix(0).size(0) == 1 && task.groups() > 1 && !pattern_) {
      // A depthwise layer: its groups are rivals, each with moments of its own.
      std::tie(weight, mask) = zeroed_groups(task, pattern, solve);
    } else {
      const at::Tensor scores = solve ? at::Tensor() : scores_of(task);
      for (int64_t g = 0; g < task.groups(); ++g) {
        const ZeroedWeights own = solve ? zeroed_group(task, g, pattern) : ZeroedWeights{};
        const at::Tensor kept = solve ? own.mask : mask_by_score(scores[g], pattern);
        mask[g] = kept.reshape(task.weight[g].sizes());
        weight[g] = (solve ? own.weight : task.matrix(g) * kept).reshape(task.weight[g].sizes());
      }
    }
    store_mask(task, mask);
    return weight;
  }

  struct Normal {
    at::Tensor best, H;
  };
  // W* and H of one group.
  Normal normal(const LayerTask& task, int64_t group) const {
    const RowMoments rows = task.all(group);
    const at::Tensor C = rows.covariance_xx(), prior = task.matrix(group);
    const double mean = C.diagonal().mean().item<double>();
    const double ridge = mean > 0 ? options_.ridge * mean : 1;
    return {ridge_towards(C, rows.covariance_xy(), options_.ridge, prior), C + ridge * at::eye(C.size(0), C.options())};
  }

  ZeroedWeights zeroed_group(const LayerTask& task, int64_t group, const ZeroPattern& pattern) const {
    const Normal own = normal(task, group);
    return zero_weights(own.best, own.H, pattern);
  }

  // One row of weights per group: H is block-diagonal over all of them, and the rows share one budget.
  std::pair<at::Tensor, at::Tensor> zeroed_groups(const LayerTask& task, const ZeroPattern& pattern, bool solve) const {
    const int64_t groups = task.groups();
    at::Tensor losses = solve ? at::empty({groups, task.matrix(0).size(1)}, at::kDouble) : scores_of(task).squeeze(1);
    std::vector<Normal> own;
    for (int64_t g = 0; g < groups && solve; ++g) {
      own.push_back(normal(task, g));
      losses[g] = own.back().best[0].abs() / at::cholesky_inverse(at::linalg_cholesky(own.back().H)).diagonal().sqrt();
    }
    const at::Tensor mask = mask_by_score(losses, pattern);
    at::Tensor weight = task.weight.flatten(1) * mask;
    for (int64_t g = 0; g < groups && solve; ++g)
      weight[g] =
          solve_masked(own[static_cast<size_t>(g)].best, own[static_cast<size_t>(g)].H, mask[g].unsqueeze(0))[0];
    return {weight.reshape(task.weight.sizes()), mask.reshape(task.weight.sizes())};
  }

  // As the tensor of the graph lies.
  void store_mask(const LayerTask& task, const at::Tensor& mask) {
    Graph place = graph_;
    store_weight(place, task.layer, mask.to(at::kDouble));
    result_.masks[task.weight_name] = place.tensor(place.nodes[task.layer.node].inputs[1]).ne(0);
  }

  Graph graph_;
  const Samples& samples_;
  const OneShotOptions& options_;
  Observer& observer_;
  ChangeOptions change_;
  std::optional<Pattern> pattern_;
  Tile tile_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> outputs_;  // of the layers that read them
  OneShot result_;
};

}  // namespace

OneShot sparsify_in_one_shot(const Graph& graph, const Samples& samples, const OneShotOptions& options,
                             Observer& observer) {
  return OneShotRun(graph, samples, options, observer).run();
}

}  // namespace pare
