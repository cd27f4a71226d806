#include "pare/layerwise/layer_reader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/pooled_source.h"

namespace pare {

at::Tensor layer_bias(const Graph& graph, const LinearLayer& layer) {
  const Node& node = graph.nodes[layer.node];
  const int64_t outputs = graph.tensor(node.inputs[1]).size(layer.out_axis) * (layer.transposed ? layer.groups : 1);
  if (!layer.takes_bias || !node.has_input(2)) return at::zeros({outputs}, at::kDouble);
  return graph.tensor(node.inputs[2]).to(at::kDouble).reshape({-1}).expand({outputs});
}

namespace {

std::map<std::string, size_t> nodes_by_output(const Graph& graph) {
  std::map<std::string, size_t> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const auto& output : graph.nodes[n].outputs) nodes[output] = n;
  return nodes;
}

}  // namespace

LayerReader::LayerReader(References originals, const Graph& compressed, const Shapes& shapes, double samples,
                         const LayerReaderOptions& options)
    : originals_(std::move(originals)),
      original_(originals_.first()),
      compressed_(compressed),
      shapes_(shapes),
      usage_(usage_of(original_)),
      samples_(std::max(samples, 1.0)),
      options_(options),
      nodes_(nodes_by_output(compressed)) {
  for (const Graph* graph : originals_.graphs) own_nodes_.push_back(nodes_by_output(*graph));
}

LinearLayer LayerReader::layer_in(size_t k, const LinearLayer& layer) const {
  LinearLayer there = layer;
  there.node = own_nodes_[k].at(original_.nodes[layer.node].outputs[0]);
  return there;
}

LayerReader::Rows LayerReader::rows(const LinearLayer& layer, const BothValues& values, const Order& order) const {
  const Node& node = original_.nodes[layer.node];
  const at::Tensor y = originals_.mean_of([&](size_t k) {
    const Graph& graph = *originals_.graphs[k];
    return evaluate_node(graph, graph.nodes[layer_in(k, layer).node], values.before[k]).front();
  });
  const at::Tensor lost = lost_beside(layer, values, y), t = lost.defined() ? y + lost : y;
  const at::Tensor places = some_places(layer, places_of(layer, t), values.first, t.size(0));
  const at::Tensor& x = values.after.at(compressed_.nodes[compressed_node(node)].inputs[0]);
  return {input_rows(original_, layer, x, places, order.samples), output_rows(layer, t, places, order.samples)};
}

// As many as its unknowns need: neighbouring places tell much the same.
at::Tensor LayerReader::some_places(const LinearLayer& layer, int64_t all, int64_t first, int64_t images) const {
  const at::Tensor& weight = original_.tensor(original_.nodes[layer.node].inputs[1]);
  const double unknowns = static_cast<double>(weight.numel() / weight.size(layer.out_axis));
  const auto enough = static_cast<int64_t>(std::ceil(options_.rows_per_unknown * unknowns / samples_));
  return sampled_places(all, std::clamp<int64_t>(enough, 4, options_.places), first, images, options_.seed);
}

// Averages and the layer change places: it is applied to every place of the averaged value.
LayerReader::Rows LayerReader::rows_before_pool(const LinearLayer& layer, size_t pool, const BothValues& values,
                                                const Order& order) const {
  const LinearLayer everywhere{.value_axis = 1};
  const std::string& pooled = original_.nodes[pool].inputs[0];
  const at::Tensor& after = values.after.at(compressed_.nodes[compressed_node(original_.nodes[pool])].inputs[0]);
  const at::Tensor places = some_places(layer, places_of(everywhere, after), values.first, after.size(0));
  const at::Tensor t = originals_.mean_of([&](size_t k) {
    const at::Tensor x = output_rows(everywhere, values.before[k].at(pooled), places, order.samples)[0];
    const Graph& graph = *originals_.graphs[k];
    const LinearLayer own = layer_in(k, layer);
    const at::Tensor weight = weight_by_group(graph, own)[0].squeeze(-1).to(x.scalar_type());
    return at::mm(x, weight.t()) + layer_bias(graph, own).to(x.scalar_type());
  });
  return {output_rows(everywhere, after, places, order.samples), t.unsqueeze(0)};
}

std::optional<LayerReader::Addition> LayerReader::addition_after(const LinearLayer& layer) const {
  if (!options_.shortcut) return {};
  Addition addition;
  size_t last = layer.node;
  auto reader = only_reader(original_, usage_, last);
  if (reader && original_.nodes[*reader].op == "BatchNormalization") {
    addition.norm = last = *reader;
    reader = only_reader(original_, usage_, last);
  }
  if (!reader || original_.nodes[*reader].op != "Add") return {};
  const Node& add = original_.nodes[*reader];
  addition.node = *reader;
  addition.shortcut = add.inputs[add.inputs[0] == original_.nodes[last].outputs[0] ? 1 : 0];
  return addition;
}

// What the shortcut added to the layer's output y lost, as the layer would have to give it; undefined where nothing.
at::Tensor LayerReader::lost_beside(const LinearLayer& layer, const BothValues& values, const at::Tensor& y) const {
  const at::Tensor nothing;
  const auto addition = addition_after(layer);
  if (!addition) return nothing;
  at::Tensor scale;
  if (addition->norm) {
    const auto norm = norm_parameters(compressed_, compressed_node(original_.nodes[*addition->norm]));
    if (!norm) return nothing;
    scale = norm->gamma / norm->sigma;
  }
  const Node& add = original_.nodes[addition->node];
  const std::string& shortcut = addition->shortcut;
  const size_t other = add.inputs[0] == shortcut ? 0 : 1;
  const auto after = values.after.find(compressed_.nodes[compressed_node(add)].inputs[other]);
  const auto has_shortcut = [&](const TensorMap& before) { return before.contains(shortcut); };
  if (after == values.after.end() || !std::ranges::all_of(values.before, has_shortcut)) return nothing;
  const at::Tensor before = originals_.mean_of([&](size_t k) { return values.before[k].at(shortcut); });
  if (before.is_same(after->second) || before.sizes() != y.sizes()) return nothing;
  const at::Tensor lost = before - after->second;
  if (!scale.defined()) return lost;
  // Where the scale is nothing the layer can make up for nothing.
  const at::Tensor inverse = at::where(scale.abs() > 1e-6, 1 / scale, at::zeros_like(scale));
  Shape dims(static_cast<size_t>(lost.dim()), 1);
  dims[static_cast<size_t>(layer.value_axis < 0 ? layer.value_axis + lost.dim() : layer.value_axis)] = -1;
  return lost * inverse.reshape(dims).to(lost.scalar_type());
}

// The node that averages what the layer reads, channel by channel.
std::optional<size_t> LayerReader::averaging_node(const LinearLayer& layer) const {
  const auto pool = options_.before_pool ? pool_before(original_, usage_, layer.node) : std::nullopt;
  if (!pool) return {};
  const auto type = shapes_.types.find(original_.nodes[*pool].inputs[0]);
  if (type == shapes_.types.end() || type->second.rank() < 3 ||
      type->second.dims[1] != weight_dims(original_, layer)[2])
    return {};
  return pool;
}

void LayerReader::prepare(SideBySide& graphs) const {
  for (size_t n = 0; n < original_.nodes.size(); ++n) {
    const auto layer = layer_of(original_, n);
    const auto pool = layer ? averaging_node(*layer) : std::nullopt;
    if (!pool) continue;
    const Node& average = original_.nodes[*pool];
    for (const Node* reader : {&average, &compressed_.nodes[compressed_node(average)]})
      graphs.keep_until(reader->inputs[0], compressed_node(original_.nodes[n]));
  }
}

GroupMoments LayerReader::moments(const LinearLayer& layer, SideBySide& both, ProcessGroup& ranks) const {
  return std::move(moments(std::vector{layer}, both, ranks).front());
}

// Of the compressed graph: whatever the layers read is made before it.
size_t LayerReader::first_node(const std::vector<LinearLayer>& layers) const {
  size_t first = compressed_.nodes.size();
  for (const auto& layer : layers)
    first = std::min(first, compressed_node(original_.nodes[averaging_node(layer).value_or(layer.node)]));
  return first;
}

bool LayerReader::read_together(const std::vector<LinearLayer>& layers) const {
  const size_t first = first_node(layers);
  const auto is_early = [&](const LinearLayer& layer) {
    const Node& reader = original_.nodes[averaging_node(layer).value_or(layer.node)];
    const auto made = nodes_.find(compressed_.nodes[compressed_node(reader)].inputs[0]);
    return made == nodes_.end() || made->second < first;
  };
  return std::all_of(layers.begin(), layers.end(), is_early);
}

std::vector<GroupMoments> LayerReader::moments(const std::vector<LinearLayer>& layers, SideBySide& both,
                                               ProcessGroup& ranks) const {
  std::vector<GroupMoments> all;
  for (const auto& layer : layers) {
    const Shape weight = weight_dims(original_, layer);
    const RowMoments none = no_rows(weight[2] * weight[3], weight[1]);
    all.emplace_back(static_cast<size_t>(weight[0]), SplitMoments{none, none});
  }
  using Parts = std::vector<std::vector<SplitRows>>;
  both.run_to<Parts>(
      first_node(layers),
      [&](const BothValues& values) {
        Parts parts;
        for (const auto& layer : layers) parts.push_back(split(layer, values));
        return parts;
      },
      [&](Parts parts) {
        for (size_t l = 0; l < parts.size(); ++l)
          for (size_t g = 0; g < parts[l].size(); ++g) {
            add(all[l][g].fitted, std::move(parts[l][g].fitted));
            add(all[l][g].checked, std::move(parts[l][g].checked));
          }
      });
  for (auto& moments : all)
    for (auto& own : moments) own = {over_ranks(own.fitted, ranks), over_ranks(own.checked, ranks)};
  return all;
}

// Every so many pairs of samples, a sample and its mirror image perhaps, are checked on.
LayerReader::Order LayerReader::order(const LinearLayer& layer, const BothValues& values) const {
  const Shape weight = weight_dims(original_, layer);
  const int64_t every = weight[2] * weight[3] <= options_.most_checked ? options_.checked : 0;
  Order order;
  std::vector<int64_t> checked;
  for (int64_t i = 0; i < values.count; ++i) {
    const int64_t pair = (values.first + i) / 2;
    (every > 0 && pair % every == every - 1 ? checked : order.samples).push_back(i);
  }
  order.fitted = static_cast<int64_t>(order.samples.size());
  order.samples.insert(order.samples.end(), checked.begin(), checked.end());
  return order;
}

std::vector<LayerReader::SplitRows> LayerReader::split(const LinearLayer& layer, const BothValues& values) const {
  const Order order = this->order(layer, values);
  const auto pool = averaging_node(layer);
  const Rows all = pool ? rows_before_pool(layer, *pool, values, order) : rows(layer, values, order);
  const int64_t places = all.x.size(1) / static_cast<int64_t>(order.samples.size());
  const auto part = [&](int64_t g, int64_t begin, int64_t end) {
    const auto own = [&](const at::Tensor& rows) { return rows[g].slice(0, begin * places, end * places); };
    return row_part(own(all.x), own(all.t));
  };
  std::vector<SplitRows> parts;
  for (int64_t g = 0; g < all.x.size(0); ++g)
    parts.push_back({part(g, 0, order.fitted), part(g, order.fitted, values.count)});
  return parts;
}

}  // namespace pare
