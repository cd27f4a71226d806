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

LayerReader::LayerReader(const Graph& original, const Graph& compressed, const Shapes& shapes, double samples,
                         const LayerReaderOptions& options)
    : original_(original),
      compressed_(compressed),
      shapes_(shapes),
      usage_(usage_of(original)),
      samples_(std::max(samples, 1.0)),
      options_(options) {
  for (size_t n = 0; n < compressed.nodes.size(); ++n)
    for (const auto& output : compressed.nodes[n].outputs) nodes_[output] = n;
}

LayerReader::Rows LayerReader::rows(const LinearLayer& layer, const BothValues& values) const {
  const Node& node = original_.nodes[layer.node];
  const at::Tensor y = evaluate_node(original_, node, values.before).front();
  const at::Tensor t = options_.shortcut ? y + lost_beside(layer, values, y) : y;
  const at::Tensor places = some_places(layer, places_of(layer, t), values.first, t.size(0));
  const at::Tensor& x = values.after.at(compressed_.nodes[compressed_node(node)].inputs[0]);
  return {input_rows(original_, layer, x, places), output_rows(layer, t, places)};
}

// As many as its unknowns need: neighbouring places tell much the same.
at::Tensor LayerReader::some_places(const LinearLayer& layer, int64_t all, int64_t first, int64_t images) const {
  const at::Tensor& weight = original_.tensor(original_.nodes[layer.node].inputs[1]);
  const double unknowns = static_cast<double>(weight.numel() / weight.size(layer.out_axis));
  const auto enough = static_cast<int64_t>(std::ceil(options_.rows_per_unknown * unknowns / samples_));
  return sampled_places(all, std::clamp<int64_t>(enough, 4, options_.places), first, images, options_.seed);
}

// Averages and the layer change places: it is applied to every place of the averaged value.
LayerReader::Rows LayerReader::rows_before_pool(const LinearLayer& layer, size_t pool, const BothValues& values) const {
  const LinearLayer everywhere{.value_axis = 1};
  const at::Tensor& before = values.before.at(original_.nodes[pool].inputs[0]);
  const at::Tensor& after = values.after.at(compressed_.nodes[compressed_node(original_.nodes[pool])].inputs[0]);
  const at::Tensor places = some_places(layer, places_of(everywhere, before), values.first, before.size(0));
  const at::Tensor x = output_rows(everywhere, before, places)[0];
  const at::Tensor weight = weight_by_group(original_, layer)[0].squeeze(-1).to(x.scalar_type());
  const at::Tensor t = at::mm(x, weight.t()) + layer_bias(original_, layer).to(x.scalar_type());
  return {output_rows(everywhere, after, places), t.unsqueeze(0)};
}

// What the shortcut added to the layer's output y lost, as the layer would have to give it.
at::Tensor LayerReader::lost_beside(const LinearLayer& layer, const BothValues& values, const at::Tensor& y) const {
  const at::Tensor nothing = at::zeros({1}, y.options());
  size_t last = layer.node;
  at::Tensor scale;
  auto reader = only_reader(original_, usage_, last);
  if (reader && original_.nodes[*reader].op == "BatchNormalization") {
    const auto norm = norm_parameters(compressed_, compressed_node(original_.nodes[*reader]));
    if (!norm) return nothing;
    scale = norm->gamma / norm->sigma;
    last = *reader;
    reader = only_reader(original_, usage_, last);
  }
  if (!reader || original_.nodes[*reader].op != "Add") return nothing;
  const Node& add = original_.nodes[*reader];
  const size_t other = add.inputs[0] == original_.nodes[last].outputs[0] ? 1 : 0;
  const auto before = values.before.find(add.inputs[other]);
  const auto after = values.after.find(compressed_.nodes[compressed_node(add)].inputs[other]);
  if (before == values.before.end() || after == values.after.end() || before->second.is_same(after->second) ||
      before->second.sizes() != y.sizes())
    return nothing;
  const at::Tensor lost = before->second - after->second;
  if (!scale.defined()) return lost;
  // Where the scale is nothing the layer can make up for nothing.
  const at::Tensor inverse = at::where(scale.abs() > 1e-6, 1 / scale, at::zeros_like(scale));
  Shape dims(static_cast<size_t>(lost.dim()), 1);
  dims[static_cast<size_t>(layer.value_axis < 0 ? layer.value_axis + lost.dim() : layer.value_axis)] = -1;
  return lost * inverse.reshape(dims).to(lost.scalar_type());
}

// The node that averages what the layer reads, channel by channel.
std::optional<size_t> LayerReader::averaging_node(const LinearLayer& layer) const {
  const auto pool = pool_before(original_, usage_, layer.node);
  if (!pool) return {};
  const auto type = shapes_.types.find(original_.nodes[*pool].inputs[0]);
  if (type == shapes_.types.end() || type->second.rank() < 3 ||
      type->second.dims[1] != weight_by_group(original_, layer).size(2))
    return {};
  return pool;
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
  std::vector<std::optional<size_t>> pools;
  for (const auto& layer : layers) {
    const at::Tensor weight = weight_by_group(original_, layer);
    const RowMoments none = no_rows(weight.size(2) * weight.size(3), weight.size(1));
    all.emplace_back(static_cast<size_t>(weight.size(0)), SplitMoments{none, none});
    pools.push_back(averaging_node(layer));
  }
  both.run_to<std::vector<GroupMoments>>(
      first_node(layers),
      [&](const BothValues& values) {
        std::vector<GroupMoments> parts;
        for (size_t l = 0; l < layers.size(); ++l)
          parts.push_back(
              split(pools[l] ? rows_before_pool(layers[l], *pools[l], values) : rows(layers[l], values), values));
        return parts;
      },
      [&](const std::vector<GroupMoments>& parts) {
        for (size_t l = 0; l < parts.size(); ++l)
          for (size_t g = 0; g < parts[l].size(); ++g)
            all[l][g] = {joined(all[l][g].fitted, parts[l][g].fitted), joined(all[l][g].checked, parts[l][g].checked)};
      });
  for (auto& moments : all)
    for (auto& own : moments) own = {over_ranks(own.fitted, ranks), over_ranks(own.checked, ranks)};
  return all;
}

// Every so many pairs of samples, a sample and its mirror image perhaps, are checked on.
GroupMoments LayerReader::split(const Rows& rows, const BothValues& values) const {
  std::vector<int64_t> fitted, checked;
  for (int64_t i = 0; i < values.count; ++i) {
    const int64_t pair = (values.first + i) / 2;
    (options_.checked > 0 && pair % options_.checked == options_.checked - 1 ? checked : fitted).push_back(i);
  }
  const auto some = [&](const at::Tensor& all, const std::vector<int64_t>& which) {
    return all.reshape({values.all, -1, all.size(-1)}).index_select(0, at::tensor(which, at::kLong)).flatten(0, 1);
  };
  GroupMoments moments;
  for (int64_t g = 0; g < rows.x.size(0); ++g)
    moments.push_back({row_moments(some(rows.x[g], fitted), some(rows.t[g], fitted)),
                       row_moments(some(rows.x[g], checked), some(rows.t[g], checked))});
  return moments;
}

}  // namespace pare
