#include "pare/compensate/reconstruct.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <optional>

#include "pare/analysis/layers.h"
#include "pare/calibrate/moments.h"
#include "pare/calibrate/ridge.h"
#include "pare/compensate/node_by_node.h"
#include "pare/compensate/patches.h"
#include "pare/core/error.h"

namespace pare {

namespace {

constexpr int64_t kPatchElements = 1 << 24;  // unfolded at once at the most
constexpr int64_t kRowsPerUnknown = 100;     // neighbouring places tell much the same: more are not used

at::Tensor slice(const at::Tensor& x, int64_t axis, const at::Tensor& index) {
  return index.numel() == x.size(axis) ? x : x.index_select(axis, index);
}

class Reconstruction {
 public:
  Reconstruction(const Graph& original, const Graph& pruned, const ChannelMap& map, const std::set<ChannelId>& removed,
                 const ReconstructOptions& options, ReconstructReport& report)
      : original_(original),
        pruned_(pruned),
        map_(map),
        removed_(removed),
        options_(options),
        report_(report),
        usage_(usage_of(original)) {
    for (const auto& [value, readers] : usage_.consumers) last_reader_[value] = readers.back();
    for (const auto& output : original.outputs) last_reader_[output.name] = original.nodes.size();
  }

  Graph run(const std::vector<at::Tensor>& given) {
    const std::vector<at::Tensor> inputs = in_whole_batches(original_, given, batches_);
    for (size_t i = 0; i < inputs.size(); ++i)
      before_[original_.inputs[i].name] = after_[original_.inputs[i].name] = inputs[i];
    for (size_t n = 0; n < pruned_.nodes.size(); ++n) {  // a layer may get a node behind it on the way
      visit(n);
      if (options_.progress) options_.progress(static_cast<int64_t>(n) + 1, static_cast<int64_t>(pruned_.nodes.size()));
    }
    return std::move(pruned_);
  }

 private:
  void visit(size_t n) {
    const auto made = usage_.producer.find(pruned_.nodes[n].outputs.front());
    const Node* twin = made == usage_.producer.end() ? nullptr : &original_.nodes[made->second];
    if (twin != nullptr && !before_.contains(twin->outputs.front()))
      keep(before_, *twin, evaluate_node(original_, *twin, before_, batches_));
    if (twin != nullptr && unchanged(pruned_.nodes[n], *twin)) {
      for (const auto& output : twin->outputs)
        if (!output.empty()) after_[output] = before_[output];
    } else {
      if (twin != nullptr && twin->op == pruned_.nodes[n].op) refit(n, made->second);
      keep(after_, pruned_.nodes[n], evaluate_node(pruned_, pruned_.nodes[n], after_, batches_));
    }
    if (twin == nullptr) return;
    for (const auto& input : twin->inputs) {
      if (input.empty() || last_reader_[input] > made->second) continue;
      before_.erase(input);
      after_.erase(input);
    }
  }

  static void keep(TensorMap& values, const Node& node, const std::vector<at::Tensor>& outputs) {
    for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
      if (!node.outputs[i].empty()) values[node.outputs[i]] = outputs[i];
  }

  bool changed(const std::string& value) const {
    const auto a = before_.find(value);
    const auto b = after_.find(value);
    return a == before_.end() || b == after_.end() || !a->second.is_same(b->second);
  }

  // Does the node read exactly what it reads in the original?
  bool unchanged(const Node& node, const Node& twin) const {
    if (node.op != twin.op || node.inputs.size() != twin.inputs.size()) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty() && twin.inputs[i].empty()) continue;
      const auto a = pruned_.tensors.find(node.inputs[i]);
      const auto b = original_.tensors.find(twin.inputs[i]);
      const bool constant = a != pruned_.tensors.end() && b != original_.tensors.end();
      if (constant ? !a->second.is_same(b->second) : node.inputs[i] != twin.inputs[i] || changed(node.inputs[i]))
        return false;
    }
    return true;
  }

  void refit(size_t n, size_t twin) {
    const Node& node = pruned_.nodes[n];
    if (node.inputs.empty() || !changed(node.inputs[0])) return;
    if (const auto norm = norm_parameters(pruned_, n)) return refit_norm(n, twin, *norm);
    const auto layer = layer_of(pruned_, n);
    const auto source = layer_of(original_, twin);
    if (!layer || !source) {
      if (lost_channels(twin))
        report_.left.push_back(fmt::format("{}: not a layer that can be solved", describe(node)));
      return;
    }
    if (layer->groups > 1 && original_.tensor(original_.nodes[twin].inputs[1]).size(1) == 1) return;  // depthwise
    const bool lost = lost_channels(twin);
    if (lost || options_.every_layer) solve(*layer, *source, lost);
  }

  bool lost_channels(size_t twin) const {
    const auto& slots = map_.slots;
    return std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
      return slot.node == twin && slot.role == SlotRole::consumer &&
             std::any_of(slot.ids.begin(), slot.ids.end(),
                         [&](int64_t id) { return id != kUnlabelled && removed_.contains(ChannelId{id}); });
    });
  }

  // Which entries of a value of the original, along one axis, the pruned network still has.
  at::Tensor kept(const std::string& value, const at::Tensor& x, int64_t axis) const {
    const int64_t a = axis < 0 ? axis + x.dim() : axis;
    const at::Tensor mask = keep_mask(map_, value, removed_);
    return at::tensor(RewriteContext::kept(mask, x.sizes(), a), at::kLong);
  }

  // --- batch norms

  void refit_norm(size_t n, size_t twin, const NormParameters& norm) {
    const std::string value = pruned_.nodes[n].inputs[0];
    if (!options_.norms || solved_.contains(value)) return;
    const at::Tensor x = slice(before_.at(value), 1, kept(value, before_.at(value), 1));
    const auto moments_of = [&](const at::Tensor& of) {
      ChannelMoments moments;
      moments.add(of);
      moments.sum_over(*options_.ranks);
      return moments;
    };
    const ChannelMoments before = moments_of(x);
    const ChannelMoments after = moments_of(after_.at(value));
    const at::Tensor usable = (before.deviation() > 1e-6).logical_and(after.deviation() > 1e-6);
    const at::Tensor ratio =
        at::where(usable, after.deviation() / before.deviation(), at::ones_like(usable, at::kDouble)).clamp(0.1, 10);
    const at::Tensor sigma = norm.sigma * ratio;
    const at::Tensor mean = after.mean() - sigma * (before.mean() - norm.mean) / norm.sigma;
    const double epsilon = pruned_.nodes[n].real("epsilon", 1e-5);
    const auto dtype = pruned_.tensor(pruned_.nodes[n].inputs[3]).scalar_type();
    replace_constant(pruned_, n, 3, mean.to(dtype));
    replace_constant(pruned_, n, 4, (sigma.square() - epsilon).clamp_min(0).to(dtype));
  }

  // --- layers

  // What the layer should give: what it gave, and what the shortcut added to it lost.
  at::Tensor target(const Layer& layer, size_t twin) const {
    const std::string& value = original_.nodes[twin].outputs[0];
    const at::Tensor& y = before_.at(value);
    at::Tensor own = slice(y, layer.value_axis, kept(value, y, layer.value_axis));
    if (!options_.shortcut) return own;
    const at::Tensor lost = lost_beside(layer, twin);
    return lost.defined() && lost.sizes() == own.sizes() ? own + lost : own;
  }

  at::Tensor lost_beside(const Layer& layer, size_t twin) const {
    size_t last = twin;
    at::Tensor scale;
    auto reader = only_reader(original_, usage_, last);
    if (reader && original_.nodes[*reader].op == "BatchNormalization") {
      const auto own = only_reader(pruned_, usage_of(pruned_), layer.node);
      const auto norm = own ? norm_parameters(pruned_, *own) : std::nullopt;
      if (!norm) return {};
      scale = norm->gamma / norm->sigma;
      last = *reader;
      reader = only_reader(original_, usage_, last);
    }
    if (!reader || original_.nodes[*reader].op != "Add") return {};
    const auto& operands = original_.nodes[*reader].inputs;
    const std::string& other = operands[0] == original_.nodes[last].outputs[0] ? operands[1] : operands[0];
    const auto before = before_.find(other);
    if (before == before_.end() || !after_.contains(other) || !changed(other)) return {};
    const at::Tensor kept_part = slice(before->second, layer.value_axis, kept(other, before->second, layer.value_axis));
    if (kept_part.sizes() != after_.at(other).sizes()) return {};
    at::Tensor lost = kept_part - after_.at(other);
    if (!scale.defined()) return lost;
    // Where the scale is nothing the layer can make up for nothing.
    const at::Tensor inverse = at::where(scale.abs() > 1e-6, 1 / scale, at::zeros_like(scale));
    Shape dims(static_cast<size_t>(lost.dim()), 1);
    dims[static_cast<size_t>(layer.value_axis < 0 ? layer.value_axis + lost.dim() : layer.value_axis)] = -1;
    return lost * inverse.reshape(dims).to(lost.scalar_type());
  }

  // How many neighbouring entries along the flattened input belong to one channel.
  int64_t block_of(const Layer& source) const {
    if (source.value_axis != -1) return 1;
    const Node& node = original_.nodes[source.node];
    for (const auto& slot : map_.slots) {
      if (slot.node != source.node || slot.input != 1 || slot.axis != source.in_axis) continue;
      size_t block = 1;
      while (block < slot.ids.size() && slot.ids[block] == slot.ids[0] && slot.ids[0] != kUnlabelled) ++block;
      if (block == slot.ids.size() || slot.ids.size() % block != 0) return 1;
      for (size_t i = 0; i < slot.ids.size(); ++i)
        if (slot.ids[i] != slot.ids[i / block * block]) return 1;
      return before_.at(node.inputs[0]).dim() == 2 ? static_cast<int64_t>(block) : 1;
    }
    return 1;
  }

  // The input with channels on axis 1 and everything else that belongs to a channel behind.
  static at::Tensor by_channel(const at::Tensor& x, const Layer& layer, int64_t block) {
    if (layer.value_axis == 1) return x;
    if (block > 1) return x.reshape({x.size(0), -1, block});
    return rows_of(x, -1);
  }

  // The weight as [outputs, inputs, kernel…].
  static at::Tensor canonical(const Graph& graph, const Layer& layer, int64_t block) {
    at::Tensor weight = graph.tensor(graph.nodes[layer.node].inputs[1]).to(at::kDouble);
    if (layer.in_axis == 0) weight = weight.transpose(0, 1);
    return block > 1 ? weight.reshape({weight.size(0), -1, block}) : weight;
  }

  void solve(const Layer& layer, const Layer& source, bool lost) {
    const Node node = pruned_.nodes[layer.node];
    const std::string name = node.name.empty() ? node.outputs[0] : node.name;
    const std::string& value = original_.nodes[source.node].inputs[0];
    if (layer.transposed && layer.groups > 1) {
      report_.left.push_back(fmt::format("{}: grouped and transposed", describe(node)));
      return;
    }
    const int64_t block = block_of(source);
    const at::Tensor x = by_channel(before_.at(value), source, block);
    const at::Tensor x_after = by_channel(after_.at(node.inputs[0]), layer, block);
    const std::string& made = original_.nodes[source.node].outputs[0];
    const at::Tensor outputs = kept(made, before_.at(made), layer.value_axis);
    at::Tensor weight = canonical(pruned_, layer, block);
    const bool solvable = (node.op == "Conv" && weight.dim() == 4) || layer.value_axis == -1;
    const int64_t unknowns = weight.numel() / weight.size(0);
    at::Tensor offset = at::zeros({weight.size(0)}, at::kDouble);
    if (lost) std::tie(weight, offset) = merged(x, x_after, canonical(original_, source, block), outputs, layer.groups);
    if (solvable && unknowns <= options_.largest) {
      std::tie(weight, offset) = solved(layer, source.node, weight, lost ? options_.ridge : options_.own_ridge);
      report_.solved.push_back(name);
      solved_.insert(node.outputs[0]);
    } else if (lost) {
      report_.merged.push_back(name);
    } else {
      return;
    }
    store(layer, weight, offset);
  }

  // W₀ = W A and what it adds to the bias, from x ≈ A x' + c.
  std::pair<at::Tensor, at::Tensor> merged(const at::Tensor& x, const at::Tensor& x_after, const at::Tensor& weight,
                                           const at::Tensor& outputs, int64_t groups) const {
    const at::Tensor w = weight.index_select(0, outputs);
    const at::Tensor all = rows_of(x, 1);
    const at::Tensor some = rows_of(x_after, 1);
    std::vector<at::Tensor> weights;
    std::vector<at::Tensor> offsets;
    const auto parts = [&](const at::Tensor& t, int64_t axis) { return t.chunk(groups, axis); };
    const auto xs = parts(all, 1);
    const auto ys = parts(some, 1);
    const auto ws = parts(w, 0);
    for (size_t g = 0; g < ws.size(); ++g) {
      CrossMoments moments;
      moments.add(ys[g].contiguous(), xs[g].contiguous());
      moments.sum_over(*options_.ranks);
      const LinearFit fit = fit_linear(moments.covariance_xx(), moments.covariance_xy(), moments.mean_x(),
                                       moments.mean_y(), options_.merge_ridge);
      weights.push_back(at::tensordot(ws[g], fit.weight, {1}, {0}).movedim(-1, 1));
      const at::Tensor sums = ws[g].dim() > 2 ? ws[g].flatten(2).sum(2) : ws[g];
      offsets.push_back(at::mv(sums, fit.offset));
    }
    return {at::cat(weights), at::cat(offsets)};
  }

  std::pair<at::Tensor, at::Tensor> solved(const Layer& layer, size_t twin, const at::Tensor& prior,
                                           double ridge) const {
    const Node& node = pruned_.nodes[layer.node];
    const at::Tensor t = target(layer, twin);
    const at::Tensor& x = after_.at(node.inputs[0]);
    const int64_t groups = layer.groups;
    const auto xs = groups > 1 ? x.chunk(groups, 1) : std::vector<at::Tensor>{x};
    const auto ts = groups > 1 ? t.chunk(groups, 1) : std::vector<at::Tensor>{t};
    const auto priors = prior.chunk(groups, 0);
    std::vector<at::Tensor> weights;
    std::vector<at::Tensor> offsets;
    for (size_t g = 0; g < priors.size(); ++g) {
      const Patches patches(node, priors[g], xs[g]);
      CrossMoments moments;
      const int64_t unknowns = priors[g].numel() / priors[g].size(0);
      const int64_t places = std::max<int64_t>(1, ts[g].numel() / ts[g].size(0) / priors[g].size(0));
      const int64_t step = patches.step_for(kRowsPerUnknown * unknowns);
      // A few images at a time, each time at other places.
      const int64_t most = std::max<int64_t>(1, kPatchElements / (places * unknowns / (step * step) + 1));
      const int64_t chunk = std::min(most, std::max<int64_t>(1, patches.images() / (step * step)));
      int64_t phase = 0;
      for (int64_t begin = 0; begin < patches.images(); begin += chunk, phase = (phase + 1) % (step * step)) {
        const int64_t count = std::min(chunk, patches.images() - begin);
        const auto [u, y] = patches.rows(begin, count, ts[g], layer.value_axis, step, phase);
        moments.add(u, y);
      }
      moments.sum_over(*options_.ranks);
      const at::Tensor W = ridge_towards(moments.covariance_xx(), moments.covariance_xy(), ridge,
                                         priors[g].reshape({priors[g].size(0), -1}));
      weights.push_back(W.reshape(priors[g].sizes()));
      offsets.push_back(moments.mean_y() - at::mv(W, moments.mean_x()) - old_bias(layer, g, priors.size()));
    }
    return {at::cat(weights), at::cat(offsets)};
  }

  at::Tensor old_bias(const Layer& layer, size_t part, size_t parts) const {
    const Node& node = pruned_.nodes[layer.node];
    const int64_t outputs = pruned_.tensor(node.inputs[1]).size(layer.out_axis);
    if (node.op == "MatMul" || !node.has_input(2))
      return at::zeros({outputs / static_cast<int64_t>(parts)}, at::kDouble);
    return pruned_.tensor(node.inputs[2])
        .to(at::kDouble)
        .reshape({-1})
        .expand({outputs})
        .chunk(static_cast<int64_t>(parts))[part];
  }

  void store(const Layer& layer, const at::Tensor& weight, const at::Tensor& offset) {
    const at::Tensor old = pruned_.tensor(pruned_.nodes[layer.node].inputs[1]);
    at::Tensor fresh = weight;
    if (layer.value_axis == -1) fresh = fresh.reshape({fresh.size(0), -1});
    if (layer.in_axis == 0) fresh = fresh.transpose(0, 1);
    replace_constant(pruned_, layer.node, 1, fresh.contiguous().to(old.scalar_type()));
    add_offset(pruned_, layer, offset);
  }

  const Graph& original_;
  Graph pruned_;
  const ChannelMap& map_;
  const std::set<ChannelId>& removed_;
  const ReconstructOptions& options_;
  ReconstructReport& report_;
  Usage usage_;                                // of the original
  int64_t batches_ = 1;                        // of a graph that fixes how many images one has
  std::map<std::string, size_t> last_reader_;  // of each value, by node of the original
  TensorMap before_;                           // values of the original that are still needed
  TensorMap after_;                            // and of the pruned network; the same tensors where nothing changed
  std::set<std::string> solved_;               // outputs of solved layers
};

}  // namespace

Graph reconstruct(const Graph& original, const Graph& pruned, const ChannelMap& map, const std::set<ChannelId>& removed,
                  const std::vector<at::Tensor>& inputs, const ReconstructOptions& options, ReconstructReport& report) {
  const at::NoGradGuard no_grad;
  return Reconstruction(original, pruned, map, removed, options, report).run(inputs);
}

}  // namespace pare
