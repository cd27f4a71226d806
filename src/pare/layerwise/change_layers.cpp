#include "pare/layerwise/change_layers.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/core/memory.h"
#include "pare/layerwise/linear_rows.h"

namespace pare {

RowMoments LayerTask::all(int64_t group) const {
  const SplitMoments& own = moments[static_cast<size_t>(group)];
  return joined(own.fitted, own.checked);
}

namespace {

class LayerChange {
 public:
  LayerChange(const References& originals, ChangedLayers& result, const std::map<std::string, LayerMethod>& methods,
              const Samples& samples, const ChangeOptions& options, Observer& observer)
      : original_(originals.first()),
        result_(result),
        methods_(methods),
        options_(options),
        observer_(observer),
        memory_(agreed(options.memory, observer.ranks())),
        shapes_(analysis_shapes(original_)),
        both_(originals, result.graph, samples, options.side_by_side),
        reader_(originals, result.graph, shapes_, static_cast<double>(samples.size * observer.ranks().size()),
                options.read) {
    reader_.prepare(both_);
    for (size_t n = 0; n < result.graph.nodes.size(); ++n) nodes_[result.graph.nodes[n].outputs[0]] = n;
  }

  void run() {
    const size_t count = original_.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      if (const auto layer = layer_of(original_, n)) visit(*layer);
      observer_.step(options_.progress, static_cast<int64_t>(n) + 1, static_cast<int64_t>(count));
    }
  }

 private:
  void visit(const LinearLayer& layer) {
    const Node& node = original_.nodes[layer.node];
    const auto method = methods_.find(node.outputs[0]);
    const size_t own = nodes_.at(node.outputs[0]);
    if (method != methods_.end()) return change(layer, own, method->second);
    const bool depthwise = layer.groups > 1 && original_.tensor(node.inputs[1]).size(1) == 1;
    if (options_.others == 0 || depthwise || !both_.changed(result_.graph.nodes[own].inputs[0])) return;
    if (readable(layer)) change(layer, own, [&](const LayerTask& task) { return solved(task); });
  }

  bool readable(const LinearLayer& layer) const {
    return has_rows(original_, layer) && moment_bytes(original_, layer) <= memory_;
  }

  at::Tensor solved(const LayerTask& task) const {
    SolveOptions solve{.ridge = options_.others};
    std::erase_if(solve.choices, [&](double rho) { return rho < options_.others; });
    at::Tensor weight = at::empty_like(task.weight);
    const at::Tensor every = at::arange(task.matrix(0).size(1));
    for (int64_t g = 0; g < task.groups(); ++g)
      weight[g] = solve_layer(task.moments[static_cast<size_t>(g)], every, task.matrix(g), solve)
                      .weight.reshape(task.weight[g].sizes());
    return weight;
  }

  void change(const LinearLayer& layer, size_t own, const LayerMethod& method) {
    LinearLayer there = layer;
    there.node = own;
    LayerTask task{.layer = layer,
                   .weight_name = original_.nodes[layer.node].inputs[1],
                   .weight = weight_by_group(original_, layer)};
    if (options_.reads && readable(layer))
      task.moments = reader_.moments(layer, both_, observer_.ranks());
    else if (options_.reads)
      result_.left.push_back(describe(original_.nodes[layer.node]) +
                             (has_rows(original_, layer)
                                  ? ": its moments would take more than " + bytes_text(static_cast<uint64_t>(memory_))
                                  : ": what it reads can't be unfolded"));
    NewLayer fresh = method(task);
    if (!fresh.weight.defined()) return;
    if (!fresh.bias.defined() && options_.bias && !task.moments.empty()) fresh.bias = bias(task, fresh.weight);
    const at::Tensor old = layer_bias(result_.graph, there);
    store_weight(result_.graph, there, fresh.weight);
    if (fresh.bias.defined()) add_offset(result_.graph, there, fresh.bias - old);
    both_.note_change(own);
  }

  // With which the layer's output has the mean that it had.
  static at::Tensor bias(const LayerTask& task, const at::Tensor& weight) {
    std::vector<at::Tensor> parts;
    for (int64_t g = 0; g < task.groups(); ++g) {
      const RowMoments all = task.all(g);
      parts.push_back(all.mean_y - at::mv(weight[g].flatten(1), all.mean_x));
    }
    return at::cat(parts);
  }

  const Graph& original_;  // the first of them
  ChangedLayers& result_;
  const std::map<std::string, LayerMethod>& methods_;
  const ChangeOptions& options_;
  Observer& observer_;
  int64_t memory_;  // of a layer's moments
  Shapes shapes_;
  SideBySide both_;
  LayerReader reader_;
  std::map<std::string, size_t> nodes_;  // of the compressed graph, by their first output
};

}  // namespace

ChangedLayers change_layers(const References& originals, Graph compressed,
                            const std::map<std::string, LayerMethod>& methods, const Samples& samples,
                            const ChangeOptions& options, Observer& observer) {
  ChangedLayers result{.graph = std::move(compressed)};
  LayerChange(originals, result, methods, samples, options, observer).run();
  return result;
}

}  // namespace pare
