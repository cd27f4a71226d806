#include "pare/layerwise/refit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "pare/analysis/layers.h"
#include "pare/calibrate/moments.h"
#include "pare/calibrate/ridge.h"
#include "pare/core/error.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/pooled_source.h"
#include "pare/layerwise/row_moments.h"

namespace pare {

namespace {

using GroupMoments = std::vector<RowMoments>;  // of each group of a layer

at::Tensor slice(const at::Tensor& x, int64_t axis, const at::Tensor& index) {
  return index.numel() == x.size(axis) ? x : x.index_select(axis, index);
}

class Refit {
 public:
  Refit(const Graph& original, const Graph& compressed, const ChannelMap& map, const std::set<ChannelId>& removed,
        const Samples& samples, const RefitOptions& options, RefitReport& report)
      : original_(original),
        compressed_(compressed),
        map_(map),
        removed_(removed),
        options_(options),
        report_(report),
        usage_(usage_of(original)) {
    give_biases();
    own_usage_ = usage_of(compressed_);
    both_.emplace(original_, compressed_, samples, options.side_by_side);
  }

  Graph run() {
    for (size_t n = 0; n < compressed_.nodes.size(); ++n) {
      visit(n);
      if (options_.progress)
        options_.progress(static_cast<int64_t>(n) + 1, static_cast<int64_t>(compressed_.nodes.size()));
    }
    return std::move(compressed_);
  }

 private:
  // A matrix product that will be solved and has nowhere to put an offset gets its addition now, before nodes are
  // counted.
  void give_biases() {
    for (size_t n = 0; n < compressed_.nodes.size(); ++n) {
      const auto layer = layer_of(compressed_, n);
      if (!layer || compressed_.nodes[n].op != "MatMul") continue;
      const auto found = usage_.producer.find(compressed_.nodes[n].outputs.front());
      if (found == usage_.producer.end() || (!lost_channels(found->second) && options_.own_ridge == 0)) continue;
      const at::Tensor& weight = compressed_.tensor(compressed_.nodes[n].inputs[1]);
      add_offset(compressed_, *layer, at::zeros({weight.size(layer->out_axis)}, at::kDouble));
    }
  }

  void visit(size_t n) {
    const Node& node = compressed_.nodes[n];
    const auto made = usage_.producer.find(twin_output(n));
    if (made == usage_.producer.end() || node.inputs.empty() || !both_->changed(node.inputs[0])) return;
    if (original_.nodes[made->second].op != node.op) return;
    if (norm_parameters(compressed_, n)) return refit_norm(n);
    const auto layer = layer_of(compressed_, n);
    const auto source = layer_of(original_, made->second);
    const bool lost = lost_channels(made->second);
    if (!layer || !source || !has_rows(compressed_, *layer)) {
      if (lost) report_.left.push_back(fmt::format("{}: not a layer that can be solved", describe(node)));
      return;
    }
    if (lost || (options_.own_ridge > 0 && !depthwise(*source))) solve(*layer, *source, lost);
  }

  // The value of the original that a node's output corresponds to: a product whose addition was made for it gives what
  // the addition gives.
  std::string twin_output(size_t n) const {
    const std::string& own = compressed_.nodes[n].outputs.front();
    if (usage_.producer.contains(own) && original_.nodes[usage_.producer.at(own)].op == compressed_.nodes[n].op)
      return own;
    for (const auto& node : compressed_.nodes)
      if (node.op == "Add" && (node.inputs[0] == own || node.inputs[1] == own) &&
          usage_.producer.contains(node.outputs.front()))
        return node.outputs.front();
    return own;
  }

  bool depthwise(const Layer& layer) const {
    return layer.groups > 1 && original_.tensor(original_.nodes[layer.node].inputs[1]).size(1) == 1;
  }

  bool lost_channels(size_t node) const {
    const auto gone = [&](int64_t id) { return id != kUnlabelled && removed_.contains(ChannelId{id}); };
    return std::any_of(map_.slots.begin(), map_.slots.end(), [&](const Slot& slot) {
      return slot.node == node && slot.role == SlotRole::consumer &&
             std::any_of(slot.ids.begin(), slot.ids.end(), gone);
    });
  }

  // Which entries of a value of the original, along one axis, the compressed network still has.
  at::Tensor kept(const std::string& value, const at::Tensor& x, int64_t axis) const {
    const int64_t a = axis < 0 ? axis + x.dim() : axis;
    return at::tensor(RewriteContext::kept(keep_mask(map_, value, removed_), x.sizes(), a), at::kLong);
  }
  at::Tensor kept_part(const std::string& value, const at::Tensor& x, int64_t axis) const {
    return slice(x, axis, kept(value, x, axis));
  }

  // --- layers

  struct Rows {
    at::Tensor x, t;  // [groups, n, unknowns], [groups, n, outputs]
  };

  // What the layer reads now, and what it should give.
  Rows rows(const Layer& layer, const Layer& source, const BothValues& values) const {
    const Node& node = compressed_.nodes[layer.node];
    const at::Tensor y = evaluate_node(original_, original_.nodes[source.node], values.before).front();
    const at::Tensor t = target(layer, source.node, y, values);
    const at::Tensor places = some_places(places_of(layer, t), values.first, t.size(0));
    return {input_rows(compressed_, layer, values.after.at(node.inputs[0]), places), output_rows(layer, t, places)};
  }

  at::Tensor some_places(int64_t all, int64_t first, int64_t images) const {
    return sampled_places(all, options_.places, first, images, options_.seed);
  }

  // Averages and the layer change places: it is applied to every place of the averaged value.
  Rows rows_before_pool(const Layer& source, const std::string& value, const BothValues& values) const {
    const Layer everywhere{.value_axis = 1};
    const at::Tensor& before = values.before.at(value);
    const at::Tensor& after = values.after.at(value);
    const at::Tensor places = some_places(places_of(everywhere, before), values.first, before.size(0));
    const at::Tensor x = output_rows(everywhere, before, places)[0];
    const at::Tensor weight = weight_by_group(original_, source)[0].squeeze(-1).to(x.scalar_type());
    const at::Tensor t = at::mm(x, weight.t()) + bias_of(original_, source).to(x.scalar_type());
    const std::string& made = original_.nodes[source.node].outputs[0];
    return {output_rows(everywhere, after, places), kept_columns(made, t).unsqueeze(0)};
  }

  // Of rows with one column for each output of a layer of the original, those that are left.
  at::Tensor kept_columns(const std::string& value, const at::Tensor& t) const {
    const at::Tensor mask = keep_mask(map_, value, removed_);
    if (!mask.defined() || mask.numel() == 1) return t;
    return t.index_select(1, mask.reshape({-1}).nonzero().squeeze(1));
  }

  static at::Tensor bias_of(const Graph& graph, const Layer& layer) {
    const Node& node = graph.nodes[layer.node];
    const int64_t outputs = graph.tensor(node.inputs[1]).size(layer.out_axis) * (layer.transposed ? layer.groups : 1);
    if (node.op == "MatMul" || !node.has_input(2)) return at::zeros({outputs}, at::kDouble);
    return graph.tensor(node.inputs[2]).to(at::kDouble).reshape({-1}).expand({outputs});
  }

  // What the layer gave, and what the shortcut added to it lost.
  at::Tensor target(const Layer& layer, size_t twin, const at::Tensor& y, const BothValues& values) const {
    const at::Tensor own = kept_part(original_.nodes[twin].outputs[0], y, layer.value_axis);
    if (!options_.shortcut) return own;
    const at::Tensor lost = lost_beside(layer, twin, values);
    return lost.defined() && lost.sizes() == own.sizes() ? own + lost : own;
  }

  at::Tensor lost_beside(const Layer& layer, size_t twin, const BothValues& values) const {
    size_t last = twin;
    at::Tensor scale;
    auto reader = only_reader(original_, usage_, last);
    if (reader && original_.nodes[*reader].op == "BatchNormalization") {
      const auto own = only_reader(compressed_, own_usage_, layer.node);
      const auto norm = own ? norm_parameters(compressed_, *own) : std::nullopt;
      if (!norm) return {};
      scale = norm->gamma / norm->sigma;
      last = *reader;
      reader = only_reader(original_, usage_, last);
    }
    if (!reader || original_.nodes[*reader].op != "Add") return {};
    const auto& operands = original_.nodes[*reader].inputs;
    const std::string& other = operands[0] == original_.nodes[last].outputs[0] ? operands[1] : operands[0];
    const auto before = values.before.find(other);
    const auto after = values.after.find(other);
    if (before == values.before.end() || after == values.after.end() || before->second.is_same(after->second))
      return {};
    const at::Tensor part = kept_part(other, before->second, layer.value_axis);
    if (part.sizes() != after->second.sizes()) return {};
    const at::Tensor lost = part - after->second;
    if (!scale.defined()) return lost;
    // Where the scale is nothing the layer can make up for nothing.
    const at::Tensor inverse = at::where(scale.abs() > 1e-6, 1 / scale, at::zeros_like(scale));
    Shape dims(static_cast<size_t>(lost.dim()), 1);
    dims[static_cast<size_t>(layer.value_axis < 0 ? layer.value_axis + lost.dim() : layer.value_axis)] = -1;
    return lost * inverse.reshape(dims).to(lost.scalar_type());
  }

  // The node of the compressed graph that averages what the layer reads, channel by channel.
  std::optional<size_t> averaging_node(const Layer& source, const Layer& layer) const {
    const auto pool = pool_before(original_, usage_, source.node);
    if (!pool) return {};
    const std::string& value = original_.nodes[*pool].outputs.front();
    const auto type = map_.shapes.types.find(original_.nodes[*pool].inputs[0]);
    if (type == map_.shapes.types.end() || type->second.rank() < 3 ||
        type->second.dims[1] != weight_by_group(original_, source).size(2))
      return {};
    for (size_t n = 0; n < layer.node; ++n)
      if (compressed_.nodes[n].outputs.front() == value) return n;
    return {};
  }

  void solve(const Layer& layer, const Layer& source, bool lost) {
    const Node& node = compressed_.nodes[layer.node];
    const std::string name = node.name.empty() ? node.outputs[0] : node.name;
    const at::Tensor prior = weight_by_group(compressed_, layer);
    if (prior.size(2) * prior.size(3) > options_.largest) {
      report_.left.push_back(fmt::format("{}: {} unknowns of an output are more than {}", describe(node),
                                         prior.size(2) * prior.size(3), options_.largest));
      return;
    }
    GroupMoments moments(static_cast<size_t>(prior.size(0)));
    const auto pool = averaging_node(source, layer);
    both_->run_to<GroupMoments>(
        pool ? *pool : layer.node,
        [&](const BothValues& values) {
          const Rows both =
              pool ? rows_before_pool(source, compressed_.nodes[*pool].inputs[0], values) : rows(layer, source, values);
          GroupMoments part;
          for (int64_t g = 0; g < both.x.size(0); ++g) part.push_back(row_moments(both.x[g], both.t[g]));
          return part;
        },
        [&](const GroupMoments& part) {
          for (size_t g = 0; g < part.size(); ++g) moments[g] = joined(moments[g], part[g]);
        });
    store(layer, prior, moments, lost ? options_.ridge : options_.own_ridge);
    report_.solved.push_back(name);
    solved_.insert(node.outputs[0]);
  }

  void store(const Layer& layer, const at::Tensor& prior, const GroupMoments& moments, double ridge) {
    std::vector<at::Tensor> weights, biases;
    for (size_t g = 0; g < moments.size(); ++g) {
      const RowMoments all = over_ranks(moments[g], *options_.ranks);
      const at::Tensor W =
          ridge_towards(all.covariance_xx(), all.covariance_xy(), ridge, prior[static_cast<int64_t>(g)].flatten(1));
      weights.push_back(W.reshape(prior[0].sizes()));
      biases.push_back(all.mean_y - at::mv(W, all.mean_x));
    }
    const at::Tensor old = bias_of(compressed_, layer);
    store_weight(compressed_, layer, at::stack(weights));
    add_offset(compressed_, layer, at::cat(biases) - old);
    both_->note_change(layer.node);
  }

  // --- batch norms

  void refit_norm(size_t n) {
    const Node& node = compressed_.nodes[n];
    const std::string value = node.inputs[0];
    if (!options_.norms || solved_.contains(value)) return;
    ChannelMoments before, after;
    using Both = std::pair<at::Tensor, at::Tensor>;
    both_->run_to<Both>(
        n,
        [&](const BothValues& values) {
          return Both(kept_part(value, values.before.at(value), 1), values.after.at(value));
        },
        [&](const Both& both) { before.add(both.first), after.add(both.second); });
    before.sum_over(*options_.ranks);
    after.sum_over(*options_.ranks);
    const auto norm = norm_parameters(compressed_, n);
    const at::Tensor usable = (before.deviation() > 1e-6).logical_and(after.deviation() > 1e-6);
    const at::Tensor ratio =
        at::where(usable, after.deviation() / before.deviation(), at::ones_like(usable, at::kDouble)).clamp(0.1, 10);
    const at::Tensor sigma = norm->sigma * ratio;
    const at::Tensor mean = after.mean() - sigma * (before.mean() - norm->mean) / norm->sigma;
    const auto dtype = compressed_.tensor(node.inputs[3]).scalar_type();
    const double epsilon = node.real("epsilon", 1e-5);
    replace_constant(compressed_, n, 3, mean.to(dtype));
    replace_constant(compressed_, n, 4, (sigma.square() - epsilon).clamp_min(0).to(dtype));
    both_->note_change(n);
  }

  const Graph& original_;
  Graph compressed_;
  const ChannelMap& map_;
  const std::set<ChannelId>& removed_;
  const RefitOptions& options_;
  RefitReport& report_;
  Usage usage_;                   // of the original
  Usage own_usage_;               // of the compressed graph
  std::set<std::string> solved_;  // outputs of solved layers
  std::optional<SideBySide> both_;
};

}  // namespace

Graph refit(const Graph& original, const Graph& compressed, const ChannelMap& map, const std::set<ChannelId>& removed,
            const Samples& samples, const RefitOptions& options, RefitReport& report) {
  return Refit(original, compressed, map, removed, samples, options, report).run();
}

}  // namespace pare
