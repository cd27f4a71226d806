#include "pare/attribute/walk.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "pare/error.h"
#include "pare/ops/op.h"
#include "pare/ops/traits.h"

namespace pare {

namespace {

// Data movement, and what picks the largest: relevance goes where the elements came from.
bool is_moved(OpKind kind) { return moves_elements(kind) || kind == OpKind::maximum || kind == OpKind::choice; }

at::Tensor evaluate_node(const Node& node, const std::vector<at::Tensor>& inputs) {
  return require_op(node).evaluate({.node = node, .inputs = inputs}).at(0);
}

// Shares the memory of x, which nobody writes to.
at::Tensor leaf(const at::Tensor& x) { return x.detach().requires_grad_(); }

class RelevanceWalk {
 public:
  RelevanceWalk(const Graph& graph, const TensorMap& values, const LinearRule& rule)
      : graph_(graph), values_(values), rule_(rule), usage_(usage_of(graph)) {
    std::set<std::string>& made = computed_;
    made.insert(graph.inputs.at(0).name);
    for (const auto& node : graph.nodes)
      if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& name) { return made.contains(name); }))
        made.insert(node.outputs.begin(), node.outputs.end());
    near_.insert(graph.inputs[0].name);
    for (const auto& node : graph.nodes)
      if (reads_the_input(node)) near_.insert(node.outputs.begin(), node.outputs.end());
  }

  Walked run(const at::Tensor& start, const std::string& to) {
    to_ = to;
    relevance_[graph_.outputs.at(0).name] = start;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const auto reached = [&](const auto& name) { return relevance_.contains(name); };
      if (!std::any_of(node->outputs.begin(), node->outputs.end(), reached)) continue;
      if (std::find(node->outputs.begin(), node->outputs.end(), to) != node->outputs.end()) break;
      step(*node);
      for (const auto& output : node->outputs) relevance_.erase(output);
    }
    const auto found = relevance_.find(to);
    if (found == relevance_.end()) throw Error(ErrorKind::usage, to, "the scores do not depend on it");
    Walked walked{.relevance = found->second, .beside = at::zeros({start.size(0)}, start.options())};
    for (const auto& [name, relevance] : relevance_)
      if (name != to && relevance.dim() > 0 && relevance.size(0) == start.size(0))
        walked.beside = walked.beside + relevance.reshape({start.size(0), -1}).sum(1);
    return walked;
  }

 private:
  const at::Tensor& value(const std::string& name) const {
    if (graph_.is_constant(name)) return graph_.tensor(name);
    return values_.at(name);
  }
  bool computed(const Node& node, size_t i) const { return node.has_input(i) && computed_.contains(node.inputs[i]); }
  std::vector<size_t> computed_inputs(const Node& node) const {
    std::vector<size_t> list;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (computed(node, i)) list.push_back(i);
    return list;
  }
  std::vector<at::Tensor> inputs(const Node& node) const {
    std::vector<at::Tensor> list;
    for (const auto& name : node.inputs) list.push_back(name.empty() ? at::Tensor() : value(name));
    return list;
  }

  // Whether a layer lies between the node and the scores.
  bool below_a_layer(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](const auto& name) { return below_.contains(name); });
  }

  void add(const Node& node, size_t i, const at::Tensor& relevance) {
    if (kind_of(node) == OpKind::linear || below_a_layer(node)) below_.insert(node.inputs[i]);
    auto& sum = relevance_[node.inputs[i]];
    const at::Tensor fitting = relevance.sizes() == value(node.inputs[i]).sizes()
                                   ? relevance
                                   : at::sum_to(relevance, value(node.inputs[i]).sizes());
    sum = sum.defined() ? sum + fitting : fitting;
  }

  [[noreturn]] static void refuse(const Node& node, const std::string& why) {
    throw Error(ErrorKind::unsupported, describe(node), "has no rule for relevance: {}", why);
  }

  void step(const Node& node) {
    const auto from = computed_inputs(node);
    if (from.empty()) return;
    const OpKind kind = kind_of(node);
    if (!node.domain.empty()) refuse(node, "it is not one of ONNX's own operators");
    if (kind == OpKind::extents || kind == OpKind::filled) return;  // made of extents alone
    if (is_moved(kind)) return move(node, from);
    const auto found = relevance_.find(node.outputs.at(0));
    if (found == relevance_.end()) refuse(node, "the scores depend on another output than its first");
    const at::Tensor& R = found->second;
    if (kind == OpKind::activation || kind == OpKind::same) return add(node, 0, R);
    if (kind == OpKind::product) return scale(node, from, R);
    if (kind == OpKind::linear) return layer(node, from, R);
    if (kind == OpKind::average || kind == OpKind::interpolation) return average(node, R);
    if (kind == OpKind::sum) return sum(node, from, R);
    if (is_batch_norm(node)) return normalize(node, from, R);
    refuse(node, "neither linear, an activation, nor data movement");
  }

  // Jᵀ R over every output that has relevance. What is picked from constants or counts as integers depends on the input
  // by choice alone: relevance ends there.
  void move(const Node& node, const std::vector<size_t>& from) {
    const at::AutoGradMode recording(true);
    auto all = inputs(node);
    for (const size_t i : from)
      if (at::isFloatingType(all[i].scalar_type())) all[i] = leaf(all[i]);
    const auto outputs = require_op(node).evaluate({.node = node, .inputs = all});
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (const auto found = relevance_.find(node.outputs[o]);
          found != relevance_.end() && outputs.at(o).requires_grad())
        outputs[o].backward(found->second, /*retain_graph=*/true);
    for (const size_t i : from)
      if (all[i].requires_grad() && all[i].grad().defined()) add(node, i, all[i].grad());
  }

  void scale(const Node& node, const std::vector<size_t>& from, const at::Tensor& R) {
    if (node.op == "Div" && computed(node, 1)) refuse(node, "its divisor is computed");
    if (from.size() == 1) return add(node, from[0], R);
    const std::string first = gate(node.inputs[0]), second = gate(node.inputs[1]);
    const bool both = !first.empty() && !second.empty();
    // A Clip may be a ReLU6 that is gated by something else.
    const bool gated_by_first = both ? first != "Clip" : !first.empty();
    const bool gated_by_second = both ? second != "Clip" : !second.empty();
    if (node.inputs[0] == node.inputs[1] || gated_by_first == gated_by_second)
      refuse(node, "it joins two computed values of which not just one is a gate");
    add(node, gated_by_first ? 1 : 0, R);
  }

  // The operator of the gate that makes the value, moved and multiplied by constants or not; empty where it is none.
  std::string gate(std::string name) const {
    for (auto made = usage_.producer.find(name); made != usage_.producer.end(); made = usage_.producer.find(name)) {
      const Node& node = graph_.nodes[made->second];
      const OpTraits& traits = traits_of(node);
      if (traits.gate) return node.op;
      const auto from = computed_inputs(node);
      const bool as_it_is = (moves_elements(traits.kind) && traits.kind != OpKind::join) || traits.kind == OpKind::same;
      if (!as_it_is && !(traits.kind == OpKind::product && from.size() == 1)) break;
      name = node.inputs[as_it_is ? 0 : from[0]];
    }
    return "";
  }

  void layer(const Node& node, const std::vector<size_t>& from, const at::Tensor& R) {
    const size_t at = from[0];
    const auto layer =
        from.size() == 1 && at < 2 ? linear_layer(node, 1 - at, value(node.inputs[1 - at]).dim()) : std::nullopt;
    if (!layer) refuse(node, "its weight is computed");
    LinearStep step{.node = node,
                    .kind = layer->is_convolution() ? LinearKind::convolution : LinearKind::dense,
                    .x = value(node.inputs[at]),
                    .weight = value(node.inputs[1 - at]),
                    .head = !below_a_layer(node),
                    .first = near_.contains(node.inputs[at])};
    if (node.has_input(2)) {
      step.bias = value(node.inputs[2]) * layer->beta;
      if (step.kind == LinearKind::convolution) {
        std::vector<int64_t> dims(static_cast<size_t>(step.x.dim()), 1);
        dims[1] = -1;
        step.bias = step.bias.reshape(dims);
      }
    }
    if (const auto added = biases_.find(node.outputs[0]); added != biases_.end()) step.bias = added->second;
    step.apply = [&node, at](const at::Tensor& x, const at::Tensor& weight) {
      return evaluate_node(node, at == 0 ? std::vector{x, weight} : std::vector{weight, x});
    };
    add(node, at, rule_(step, R));
  }

  // Only data movement and sums and products with constants (a normalisation) lie between the graph's input and what
  // the node makes.
  bool reads_the_input(const Node& node) const {
    const auto from = computed_inputs(node);
    const auto reads = [&](size_t i) { return i < node.inputs.size() && near_.contains(node.inputs[i]); };
    const OpKind kind = kind_of(node);
    if (kind == OpKind::sum || kind == OpKind::product) return from.size() == 1 && reads(from[0]);
    if (kind == OpKind::join || kind == OpKind::choice)
      return !from.empty() && std::all_of(from.begin(), from.end(), reads);
    return (kind == OpKind::same || moves_elements(kind) || is_batch_norm(node)) && reads(0);
  }

  LinearStep unweighted(const Node& node, LinearKind kind, const at::Tensor& x) const {
    return {.node = node, .kind = kind, .x = x, .weight = at::ones({}, x.options())};
  }

  // Values along a new first axis, which add up.
  LinearStep stacked(const Node& node, LinearKind kind, const at::Tensor& terms) const {
    LinearStep step = unweighted(node, kind, terms);
    step.apply = [](const at::Tensor& x, const at::Tensor& weight) { return x.sum(0) * weight; };
    return step;
  }

  void average(const Node& node, const at::Tensor& R) {
    auto all = inputs(node);
    LinearStep step = unweighted(node, LinearKind::average, all[0]);
    step.apply = [&](const at::Tensor& x, const at::Tensor& weight) {
      auto given = all;
      given[0] = x;
      return evaluate_node(node, given) * weight;
    };
    add(node, 0, rule_(step, R));
  }

  // scale · x plus a constant.
  void normalize(const Node& node, const std::vector<size_t>& from, const at::Tensor& R) {
    if (from.size() != 1 || from[0] != 0) refuse(node, "its parameters are computed");
    const at::Tensor x = value(node.inputs[0]);
    std::vector<int64_t> dims(static_cast<size_t>(x.dim()), 1);
    dims[x.dim() > 1 ? 1 : 0] = -1;
    const auto parameter = [&](size_t i) { return value(node.inputs[i]).to(x.scalar_type()).reshape(dims); };
    const at::Tensor scale = parameter(1) / (parameter(4) + node.real("epsilon", 1e-5)).sqrt();
    LinearStep step = stacked(node, LinearKind::shift, (x * scale).unsqueeze(0));
    step.bias = parameter(2) - parameter(3) * scale;
    step.first = near_.contains(node.inputs[0]);
    add(node, 0, rule_(step, R)[0]);
  }

  void sum(const Node& node, const std::vector<size_t>& from, const at::Tensor& R) {
    const auto sign = [&](size_t i) { return node.op == "Sub" && i == 1 ? -1.0 : 1.0; };
    const double part = node.op == "Mean" ? 1.0 / static_cast<double>(node.inputs.size()) : 1.0;
    at::Tensor constants;
    std::vector<at::Tensor> terms;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const double factor = sign(i) * part;
      const at::Tensor term = factor == 1 ? value(node.inputs[i]) : value(node.inputs[i]) * factor;
      if (computed(node, i))
        terms.push_back(term.expand(R.sizes()));
      else
        constants = constants.defined() ? constants + term : term;
    }
    if (from.size() == 1 && part == 1 && sign(from[0]) == 1 && makes_without_bias(node.inputs[from[0]], R)) {
      biases_[node.inputs[from[0]]] = constants;
      return add(node, from[0], R);
    }
    LinearStep step = stacked(node, from.size() == 1 ? LinearKind::shift : LinearKind::sum, at::stack(terms));
    step.bias = constants;
    step.first = step.kind == LinearKind::shift && near_.contains(node.inputs[from[0]]);
    const at::Tensor shares = rule_(step, R);
    for (size_t t = 0; t < from.size(); ++t) add(node, from[t], shares[static_cast<int64_t>(t)]);
  }

  // Whether the value is that of a layer without a bias which nothing but one node reads: a constant that this adds is
  // the layer's bias, and the layer's rule has the shares.
  bool makes_without_bias(const std::string& name, const at::Tensor& R) const {
    const auto made = usage_.producer.find(name);
    if (name == to_ || made == usage_.producer.end() || usage_.consumers.at(name).size() != 1) return false;
    const Node& node = graph_.nodes[made->second];
    return kind_of(node) == OpKind::linear && !node.has_input(2) && value(name).sizes() == R.sizes();
  }

  const Graph& graph_;
  const TensorMap& values_;
  const LinearRule& rule_;
  const Usage usage_;
  std::string to_;
  std::set<std::string> near_;                // what only normalisations lie before
  std::map<std::string, at::Tensor> biases_;  // of layers that have them added by another node, by their values
  std::set<std::string> computed_;
  std::map<std::string, at::Tensor> relevance_;
  std::set<std::string> below_;  // values whose relevance came through a layer
};

}  // namespace

Applied::Applied(const LinearStep& step, const at::Tensor& x, const at::Tensor& weight) {
  const at::AutoGradMode recording(true);
  x_ = leaf(x);
  recorded_ = step.apply(x_, weight);
  z_ = recorded_.detach();
}

at::Tensor Applied::transposed(const at::Tensor& s) const {
  at::Tensor leaf = x_;
  leaf.mutable_grad().reset();
  recorded_.backward(s, /*retain_graph=*/true, /*create_graph=*/false, at::TensorList(&leaf, 1));
  return leaf.grad();
}

at::Tensor share(const LinearStep& step, const std::vector<Operand>& operands, const at::Tensor& relevance,
                 const ShareOptions& options) {
  std::vector<Applied> applied;
  at::Tensor Z = options.bias;
  for (const auto& operand : operands) {
    applied.emplace_back(step, operand.x, operand.weight);
    Z = Z.defined() ? Z + applied.back().z() : applied.back().z();
  }
  if (options.epsilon > 0) Z = Z + options.epsilon * at::where(Z.lt(0), -at::ones_like(Z), at::ones_like(Z));
  const at::Tensor empty = Z.eq(0);
  const at::Tensor s = (relevance / Z).masked_fill_(empty, 0);
  at::Tensor shares;
  for (size_t t = 0; t < operands.size(); ++t) {
    const at::Tensor pulled = applied[t].transposed(s);
    shares = shares.defined() ? shares.addcmul_(operands[t].x, pulled) : operands[t].x * pulled;
  }
  if (!options.everywhere) return shares;
  // What nobody has contributed to, all contribute to by their size, and where all of them are 0 by their weights.
  at::Tensor left = relevance.masked_fill(empty.logical_not(), 0);
  for (const at::Tensor& size : {step.x.abs(), at::ones_like(step.x)}) {
    if (!left.any().item<bool>()) break;
    const Applied all(step, size, step.weight.abs());
    const at::Tensor none = all.z().eq(0);
    shares = shares + size * all.transposed((left / all.z()).masked_fill_(none, 0));
    left = left.masked_fill(none.logical_not(), 0);
  }
  return shares;
}

Walked walk_back(const Graph& graph, const TensorMap& values, const at::Tensor& start, const std::string& to,
                 const LinearRule& rule) {
  const at::NoGradGuard no_grad;
  return RelevanceWalk(graph, values, rule).run(start, to);
}

}  // namespace pare
