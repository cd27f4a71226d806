#include "pare/quantize/weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/calibrate/ridge.h"
#include "pare/layerwise/change_layers.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/solve_layer.h"

namespace pare {

namespace {

constexpr double kDamping = 1e-2;            // of the second moments, times the mean of their diagonal
constexpr int64_t kKept = int64_t{3} << 29;  // bytes between layers: what is not kept is computed again for every layer
constexpr double kOwnRidge = 0.1;            // smallest ρ with which a layer is moved towards what it gave
constexpr double kLargestBias = 1 << 30;     // of int32, with room for what compensation adds

// Products of a row with a matrix, a 1×1 convolution among them.
bool is_matrix(const LinearLayer& layer, const at::Tensor& weight) {
  return !layer.transposed && layer.groups == 1 && weight.numel() == weight.size(0) * weight.size(1);
}

class Rounding {
 public:
  Rounding(const Graph& original, const QuantizedActivations& quantized, const QuantizeOptions& options)
      : original_(original), quantized_(quantized), options_(options) {}

  at::Tensor rounded(const LayerTask& task, std::map<std::string, RoundedWeight>& layers) const {
    const Node& node = original_.nodes[task.layer.node];
    const at::Tensor& stored = original_.tensor(node.inputs[1]);
    const bool four = options_.weights == WeightBits::int4 && is_matrix(task.layer, stored);
    RoundedWeight own{.bits = four ? 4 : 8, .axis = task.layer.out_axis, .block = four ? options_.block : 0};
    at::Tensor codes = at::empty_like(task.weight), values = at::empty_like(task.weight);
    std::vector<at::Tensor> scales;
    const std::vector<Normal> normals = normals_of(task);
    const at::Tensor common = one_scale(task) ? common_scale(task, normals, own.bits) : at::Tensor();
    for (int64_t g = 0; g < task.groups(); ++g) {
      const Normal& normal = normals[static_cast<size_t>(g)];
      WeightGrid grid =
          weight_grid(normal.best, own.bits, own.block, own.bits < 8 ? normal.importance() : at::Tensor());
      if (common.defined()) grid.scale = common.expand_as(grid.scale);
      grid.scale = at::maximum(grid.scale, least_scale(node, task, g).unsqueeze(1)).to(at::kFloat).to(at::kDouble);
      const bool sweep = options_.compensate == RoundingRepair::obs && normal.H.defined();
      const at::Tensor found = sweep ? round_weights(normal.best, normal.H, grid) : grid.codes(normal.best);
      codes[g] = found.reshape(codes[g].sizes());
      values[g] = grid.values(found).reshape(codes[g].sizes());
      scales.push_back(grid.scale);
    }
    own.error = relative_error(values, task.weight);
    store(task, codes, at::cat(scales), own);
    layers[node.outputs[0]] = std::move(own);
    return values;
  }

 private:
  // What is rounded, and how errors count; H undefined where nothing is known of the inputs.
  struct Normal {
    at::Tensor best, H;
    at::Tensor importance() const { return H.defined() ? H.diagonal() : at::ones({best.size(1)}, at::kDouble); }
  };

  std::vector<Normal> normals_of(const LayerTask& task) const {
    std::vector<Normal> normals;
    for (int64_t g = 0; g < task.groups(); ++g) {
      Normal normal{.best = task.matrix(g)};
      if (options_.compensate == RoundingRepair::obs && !task.moments.empty()) {
        const at::Tensor C = task.all(g).covariance_xx();
        const double mean = C.diagonal().mean().item<double>();
        normal.H = C + (mean > 0 ? kDamping * mean : 1) * at::eye(C.size(0), C.options());
        SolveOptions solve{.ridge = kOwnRidge};
        std::erase_if(solve.choices, [](double rho) { return rho < kOwnRidge; });
        normal.best =
            solve_layer(task.moments[static_cast<size_t>(g)], at::arange(C.size(0)), normal.best, solve).weight;
      }
      normals.push_back(std::move(normal));
    }
    return normals;
  }

  // Scales along the outputs can't be told apart there.
  bool one_scale(const LayerTask& task) const {
    return options_.per_tensor || (task.layer.transposed && task.layer.groups > 1);
  }

  static at::Tensor common_scale(const LayerTask& task, const std::vector<Normal>& normals, int64_t bits) {
    double largest = 0;
    for (const auto& normal : normals) largest = std::max(largest, normal.best.abs().max().item<double>());
    const double highest = static_cast<double>((int64_t{1} << (bits - 1)) - 1);
    return at::full({1, 1}, largest > 0 ? largest / highest : 1.0, task.weight.options());
  }

  // With which an output's bias fits 32 bits; of a common scale the largest.
  at::Tensor least_scale(const Node& node, const LayerTask& task, int64_t group) const {
    const int64_t outputs = task.weight.size(1);
    at::Tensor least = at::zeros({outputs}, at::kDouble);
    const auto grid = quantized_.grids.find(node.inputs[0]);
    if (grid == quantized_.grids.end()) return least;
    const at::Tensor all =
        layer_bias(original_, task.layer).abs() / (kLargestBias * static_cast<double>(grid->second.scale));
    return one_scale(task) ? least + all.max() : all.narrow(0, group * outputs, outputs);
  }

  static double relative_error(const at::Tensor& values, const at::Tensor& weight) {
    const double all = weight.square().sum().item<double>();
    return all > 0 ? (values - weight).square().sum().item<double>() / all : 0;
  }

  // Codes and scales as the graph's tensor lies.
  void store(const LayerTask& task, const at::Tensor& codes, const at::Tensor& scales, RoundedWeight& own) const {
    Graph place = original_;
    store_weight(place, task.layer, codes);
    own.codes = place.tensor(place.nodes[task.layer.node].inputs[1]).to(at::kChar);
    if (one_scale(task)) {
      own.scale = scales.flatten()[0].to(at::kFloat).clone();
      own.block = 0;
    } else if (own.block == 0) {
      own.scale = scales.flatten().to(at::kFloat);
    } else {
      own.axis = task.layer.in_axis;
      Shape dims(static_cast<size_t>(own.codes.dim()), 1);
      dims[static_cast<size_t>(task.layer.out_axis)] = scales.size(0);
      dims[static_cast<size_t>(task.layer.in_axis)] = scales.size(1);
      own.scale =
          (task.layer.out_axis < task.layer.in_axis ? scales : scales.t()).reshape(dims).to(at::kFloat).contiguous();
    }
  }

  const Graph& original_;
  const QuantizedActivations& quantized_;
  const QuantizeOptions& options_;
};

}  // namespace

RoundedNetwork round_layers(const Graph& original, const QuantizedActivations& quantized, const QuantizationPlan& plan,
                            const Samples& samples, const QuantizeOptions& options, Observer& observer) {
  RoundedNetwork result;
  const Rounding rounding(original, quantized, options);
  std::map<std::string, LayerMethod> methods;
  for (const auto& layer : plan.layers)
    methods[original.nodes[layer.node].outputs[0]] = [&](const LayerTask& task) {
      return rounding.rounded(task, result.layers);
    };
  ChangeOptions change;
  change.read.seed = options.seed;
  change.side_by_side.memory = kKept;
  change.reads = options.compensate != RoundingRepair::none;
  ChangedLayers changed = change_layers(original, quantized.graph, methods, samples, change, observer);
  result.graph = std::move(changed.graph);
  for (const auto& left : changed.left) result.notes.push_back(left + ": rounded to the nearest");
  return result;
}

namespace {

struct Storage {
  Graph& graph;
  std::vector<Node> before;  // of the layer's node

  // Integers under the name `base`, and the value that is made of them.
  std::string add(const std::string& base, const at::Tensor& codes, const at::Tensor& scale, const at::Tensor& zero,
                  const std::map<std::string, Attribute>& attributes) {
    const std::string integers = fresh_name(graph, base + "_quantized"), factor = fresh_name(graph, base + "_scale");
    graph.tensors[integers] = codes;
    graph.tensors[factor] = scale;
    Node node{.name = fresh_name(graph, base + "_DequantizeLinear"),
              .op = "DequantizeLinear",
              .inputs = {integers, factor},
              .outputs = {fresh_name(graph, base + "_dequantized")}};
    if (zero.defined()) {
      node.inputs.push_back(fresh_name(graph, base + "_zero_point"));
      graph.tensors[node.inputs.back()] = zero;
    }
    for (const auto& [name, value] : attributes) node.attributes[name] = value;
    before.push_back(std::move(node));
    return before.back().outputs[0];
  }
};

constexpr int32_t kInt4 = 22;  // ONNX's number; int8 carries it

}  // namespace

Graph store_integers(Graph graph, const std::map<std::string, RoundedWeight>& layers,
                     const std::map<std::string, ActivationGrid>& grids) {
  // What a layer reads was made by DequantizeLinear of a value with this grid.
  std::map<std::string, const ActivationGrid*> read;
  std::map<std::string, std::string> quantized;
  for (const auto& node : graph.nodes) {
    if (node.op == "QuantizeLinear") quantized[node.outputs[0]] = node.inputs[0];
    if (node.op == "DequantizeLinear" && quantized.contains(node.inputs[0]))
      read[node.outputs[0]] = &grids.at(quantized.at(node.inputs[0]));
  }
  std::vector<Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto found = layers.find(graph.nodes[n].outputs[0]);
    if (found == layers.end()) {
      nodes.push_back(graph.nodes[n]);
      continue;
    }
    const RoundedWeight& own = found->second;
    Node node = graph.nodes[n];
    Storage storage{.graph = graph};
    std::map<std::string, Attribute> attributes;
    const bool several = own.scale.dim() > 0;
    if (several) attributes["axis"] = own.axis;
    if (own.block > 0) attributes["block_size"] = own.block;
    const at::Tensor zero = several ? at::zeros(own.scale.sizes(), at::kChar) : at::zeros({}, at::kChar);
    const std::string weight = node.inputs[1];
    node.inputs[1] = storage.add(weight, own.codes, own.scale, zero, attributes);
    if (own.bits == 4)
      for (const size_t input : {0, 2}) graph.carried[storage.before.back().inputs[input]] = kInt4;
    const auto grid = read.find(node.inputs[0]);
    if (grid != read.end() && node.has_input(2) && graph.is_constant(node.inputs[2]) && own.block == 0) {
      const at::Tensor bias = graph.tensor(node.inputs[2]).reshape({-1});
      const at::Tensor scale = own.scale * grid->second->scale;
      const at::Tensor codes =
          at::round(bias.to(at::kDouble) / scale.to(at::kDouble)).clamp(-2147483648.0, 2147483647.0);
      const bool whole = several && scale.numel() == bias.numel();
      if (whole || !several)
        node.inputs[2] = storage.add(
            node.inputs[2], codes.to(at::kInt), scale, {},
            whole ? std::map<std::string, Attribute>{{"axis", int64_t{0}}} : std::map<std::string, Attribute>{});
    }
    for (auto& made : storage.before) nodes.push_back(std::move(made));
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  return remove_unused(std::move(graph));
}

}  // namespace pare
