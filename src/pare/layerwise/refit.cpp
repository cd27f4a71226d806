#include "pare/layerwise/refit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "pare/analysis/layers.h"
#include "pare/core/memory.h"
#include "pare/error.h"
#include "pare/layerwise/channel_moments.h"
#include "pare/layerwise/eliminate.h"
#include "pare/layerwise/linear_rows.h"
#include "pare/layerwise/reader_rows.h"
#include "pare/ops/traits.h"
#include "pare/passes/remove_channels.h"

namespace pare {

namespace {

class Refit {
 public:
  Refit(const Graph& original, const ChannelMap& map, const std::vector<GroupCut>& cuts, const Samples& samples,
        const RefitOptions& options, Observer& observer)
      : original_(original),
        compressed_(original),
        map_(map),
        options_(options),
        observer_(observer),
        memory_(agreed(options.moments, observer.ranks())) {
    both_.emplace(original_, compressed_, samples, options.side_by_side);
    reader_.emplace(original_, compressed_, map.shapes, static_cast<double>(samples.size * observer.ranks().size()),
                    options.read);
    reader_->prepare(*both_);
    for (const auto& cut : cuts) {
      for (const size_t s : map.groups[cut.group].consumers) lost_.insert(map.slots[s].node);
      const std::vector<LinearLayer> readers = choosing_readers(cut);
      if (readers.empty())
        result_.removed.insert(cut.order.begin(), cut.order.begin() + cut.count);
      else
        choice_of(readers).cuts.push_back(&cut);
    }
  }

  Refitted run() {
    for (size_t n = 0; n < compressed_.nodes.size(); ++n) {
      visit(n);
      observer_.step("solving layers", static_cast<int64_t>(n) + 1, static_cast<int64_t>(compressed_.nodes.size()));
    }
    result_.graph = remove_channels(compressed_, map_, result_.removed);
    return std::move(result_);
  }

 private:
  // Cuts whose channels are chosen where the first of the layers that read them is solved.
  struct Choice {
    std::vector<LinearLayer> readers;
    std::vector<const GroupCut*> cuts;
  };

  Choice& choice_of(const std::vector<LinearLayer>& readers) {
    auto& choices = choices_[readers.front().node];
    const auto same = [&](const Choice& choice) {
      return std::equal(choice.readers.begin(), choice.readers.end(), readers.begin(), readers.end(),
                        [](const auto& a, const auto& b) { return a.node == b.node; });
    };
    const auto found = std::find_if(choices.begin(), choices.end(), same);
    return found != choices.end() ? *found : choices.emplace_back(Choice{.readers = readers});
  }

  // The layers at the first of which the channels of a cut can be chosen: all that read them, where none reads what
  // comes of another.
  std::vector<LinearLayer> choosing_readers(const GroupCut& cut) const {
    const ChannelGroup& group = map_.groups[cut.group];
    std::vector<LinearLayer> readers;
    int64_t bytes = 0;
    if (!cut.choose) return readers;
    const auto channels = removable(map_, group);
    for (const size_t s : group.consumers) {
      const Slot& slot = map_.slots[s];
      const auto layer = solvable(slot.node);
      if (slot.input != 1 || !layer || !reader_places(slot, channels)) return {};
      readers.push_back(*layer);
      bytes += moment_bytes(original_, *layer);
    }
    if (bytes > memory_) return {};
    std::sort(readers.begin(), readers.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
    return reader_->read_together(readers) ? readers : std::vector<LinearLayer>();
  }

  std::optional<LinearLayer> solvable(size_t node) const {
    const auto layer = layer_of(original_, node);
    if (!layer || !has_rows(original_, *layer)) return {};
    return moment_bytes(original_, *layer) <= memory_ ? layer : std::nullopt;
  }

  void visit(size_t n) {
    const bool lost = lost_.contains(n);
    const Node& node = compressed_.nodes[n];
    const bool changed = !node.inputs.empty() && both_->changed(node.inputs[0]);
    if (changed && norm_parameters(compressed_, n)) return refit_norm(n);
    if (!lost && (!changed || options_.own_ridge == 0)) return;
    const auto layer = solvable(n);
    if (layer && (lost || !depthwise(*layer))) return solve(*layer, lost);
    if (lost) leave(n);
  }

  // A layer that can't be solved loses its channels all the same.
  void leave(size_t n) {
    result_.left.push_back(layer_of(original_, n)
                               ? fmt::format("{}: its moments would take more than {}", describe(original_.nodes[n]),
                                             bytes_text(static_cast<uint64_t>(memory_)))
                               : fmt::format("{}: not a layer that can be solved", describe(original_.nodes[n])));
    for (const Slot& slot : map_.slots) {
      if (slot.node != n || slot.role != SlotRole::consumer) continue;
      const at::Tensor tensor = compressed_.tensor(compressed_.nodes[n].inputs[slot.input]);
      at::Tensor mask = at::ones({static_cast<int64_t>(slot.ids.size())}, tensor.options());
      for (size_t i = 0; i < slot.ids.size(); ++i)
        if (slot.ids[i] != kUnlabelled && result_.removed.contains(ChannelId{slot.ids[i]}))
          mask[static_cast<int64_t>(i)] = 0;
      Shape dims(static_cast<size_t>(tensor.dim()), 1);
      dims[static_cast<size_t>(slot.axis)] = -1;
      replace_constant(compressed_, n, slot.input, tensor * mask.reshape(dims));
    }
    both_->note_change(n);
  }

  bool depthwise(const LinearLayer& layer) const {
    return layer.groups > 1 && original_.tensor(original_.nodes[layer.node].inputs[1]).size(1) == 1;
  }

  // --- solving

  void solve(const LinearLayer& layer, bool lost) {
    const GroupMoments moments = moments_of(layer);
    const at::Tensor prior = weight_by_group(compressed_, layer);
    const at::Tensor kept = kept_rows_of(layer.node, prior);
    const SolveOptions solve = solving(layer, lost, moments[0].fitted.count);
    at::Tensor weight = at::zeros_like(prior).flatten(2);
    std::vector<at::Tensor> biases;
    for (int64_t g = 0; g < prior.size(0); ++g) {
      const LayerSolution solution =
          solve_layer(moments[static_cast<size_t>(g)], kept, prior[g].flatten(1).index_select(1, kept), solve);
      weight[g].index_copy_(1, kept, solution.weight);
      biases.push_back(solution.bias);
    }
    const at::Tensor old = layer_bias(compressed_, layer);
    store_weight(compressed_, layer, weight.reshape(prior.sizes()));
    add_offset(compressed_, layer, at::cat(biases) - old);
    both_->note_change(layer.node);
    const Node& node = original_.nodes[layer.node];
    result_.solved.push_back(node.name.empty() ? node.outputs[0] : node.name);
    solved_.insert(node.outputs[0]);
  }

  // How a layer is solved from so many rows.
  SolveOptions solving(const LinearLayer& layer, bool lost, int64_t rows) const {
    constexpr int64_t kPlenty = 10;  // rows of an unknown
    SolveOptions solve = options_.solve;
    const double least = lost ? 0 : options_.own_ridge;
    if (!lost) solve.ridge = options_.own_ridge;
    const Shape weight = weight_dims(original_, layer);
    const bool weak = lost && rows >= kPlenty * weight[2] * weight[3] && activated(layer);
    const double most = std::max(options_.activated_ridge, least);
    std::erase_if(solve.choices, [&](double rho) { return rho < least || (weak && rho > most); });
    return solve;
  }

  // Does an activation alone read what it gives, perhaps after a batch norm?
  bool activated(const LinearLayer& layer) const {
    auto reader = only_reader(original_, usage_, layer.node);
    if (reader && is_batch_norm(original_.nodes[*reader])) reader = only_reader(original_, usage_, *reader);
    return reader && kind_of(original_.nodes[*reader]) == OpKind::activation;
  }

  // Of a layer; what it is the first to read is cut by them.
  GroupMoments moments_of(const LinearLayer& layer) {
    std::vector<GroupMoments> moments;
    for (const Choice& choice : choices_[layer.node]) {
      moments = reader_->moments(choice.readers, *both_, observer_.ranks());
      for (const GroupCut* cut : choice.cuts) choose(*cut, choice.readers, moments);
      // Together with others it may have been read before a shortcut beside it was there.
      if (choice.readers.size() > 1 && reader_->beside_shortcut(layer)) moments.clear();
    }
    return moments.empty() ? reader_->moments(layer, *both_, observer_.ranks()) : std::move(moments.front());
  }

  // The channels that go, by elimination on what the compressed network gives the layers that read them.
  void choose(const GroupCut& cut, const std::vector<LinearLayer>& layers, const std::vector<GroupMoments>& moments) {
    const ChannelGroup& group = map_.groups[cut.group];
    const std::vector<ChannelId> channels = removable(map_, group);
    std::vector<EliminationReader> readers;
    for (size_t r = 0; r < layers.size(); ++r) {
      const LinearLayer& layer = layers[r];
      const Slot& slot = *weight_slot(map_, group, layer.node);
      ReaderPlaces places = *reader_places(slot, channels);
      std::erase_if(places.others, [&](int64_t place) { return is_removed(slot.ids[static_cast<size_t>(place)]); });
      const at::Tensor prior = weight_by_group(compressed_, layer);
      const at::Tensor all = at::arange(prior.size(2) * prior.size(3));
      for (int64_t g = 0; g < prior.size(0); ++g) {
        const SplitMoments& own = moments[r][static_cast<size_t>(g)];
        const at::Tensor W =
            solve_layer(own, all, prior[g].flatten(1), {.ridge = options_.solve.ridge, .choices = {}}).weight;
        readers.push_back(elimination_reader(joined(own.fitted, own.checked),
                                             weighed(W, options_.fisher, layer.node, g), places, prior.size(3)));
      }
    }
    const Elimination elimination =
        eliminate(readers, static_cast<int64_t>(channels.size()), options_.solve.ridge, cut.count);
    for (const int64_t i : elimination.order) result_.removed.insert(channels[static_cast<size_t>(i)]);
  }

  bool is_removed(int64_t id) const { return id != kUnlabelled && result_.removed.contains(ChannelId{id}); }

  at::Tensor kept_rows_of(size_t node, const at::Tensor& prior) const {
    for (const Slot& slot : map_.slots)
      if (slot.node == node && slot.input == 1 && slot.role == SlotRole::consumer)
        return kept_rows(slot, result_.removed, prior.size(3));
    return at::arange(prior.size(2) * prior.size(3));
  }

  // --- batch norms

  void refit_norm(size_t n) {
    const Node& node = compressed_.nodes[n];
    const std::string value = node.inputs[0];
    if (!options_.norms || solved_.contains(value)) return;
    const auto moments = channel_moments(
        *both_, n,
        [&](const BothValues& values) {
          return std::vector{values.before[0].at(value), values.after.at(value)};
        },
        observer_.ranks());
    const ChannelMoments &before = moments[0], &after = moments[1];
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
  const Usage usage_ = usage_of(original_);
  Graph compressed_;  // shaped like the original, with zeros where channels go
  const ChannelMap& map_;
  const RefitOptions& options_;
  Observer& observer_;
  int64_t memory_;                                 // of moments
  std::set<size_t> lost_;                          // nodes that read channels that go
  std::map<size_t, std::vector<Choice>> choices_;  // by the layer where they are made
  std::set<std::string> solved_;                   // outputs of solved layers
  std::optional<SideBySide> both_;
  std::optional<LayerReader> reader_;
  Refitted result_;
};

}  // namespace

std::vector<GroupCut> cuts_of(const ChannelMap& map, const std::set<ChannelId>& removed) {
  std::vector<GroupCut> cuts;
  for (size_t g = 0; g < map.groups.size(); ++g) {
    GroupCut cut{.group = g};
    for (const ChannelId channel : map.groups[g].channels)
      if (removed.contains(channel)) cut.order.push_back(channel);
    cut.count = static_cast<int64_t>(cut.order.size());
    if (cut.count > 0) cuts.push_back(std::move(cut));
  }
  return cuts;
}

Refitted refit(const Graph& graph, const ChannelMap& map, const std::vector<GroupCut>& cuts, const Samples& samples,
               const RefitOptions& options, Observer& observer) {
  return Refit(graph, map, cuts, samples, options, observer).run();
}

}  // namespace pare
