#include "pare/layerwise/side_by_side.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "pare/error.h"
#include "pare/exec/bodies.h"
#include "pare/io/onnx/subgraph.h"
#include "pare/ops/op.h"

namespace pare {

std::vector<at::Tensor> evaluate_node(const Graph& graph, const Node& node, const TensorMap& values) {
  const auto value_of = [&](const std::string& name) {
    const auto found = values.find(name);
    return found != values.end() ? found->second : graph.tensor(name);
  };
  std::vector<at::Tensor> inputs(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (node.has_input(i)) inputs[i] = value_of(node.inputs[i]);
  EvalContext context{.node = node, .inputs = inputs};
  std::optional<NodeBodies> bodies;
  std::vector<at::Tensor> captured;
  if (has_subgraph(node)) {
    bodies.emplace(graph, node);
    for (const auto& capture : node.captures) captured.push_back(value_of(capture));
    context.body = [&](const std::string& attribute, const std::vector<at::Tensor>& given) {
      return bodies->run(attribute, given, captured);
    };
  }
  return evaluate(require_op(node), context);
}

namespace {

void keep(TensorMap& values, const Node& node, const std::vector<at::Tensor>& outputs) {
  for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
    if (!node.outputs[i].empty()) values[node.outputs[i]] = outputs[i];
}

// Bytes of all values, those that are the same in two graphs counted once.
int64_t bytes_of(const BothValues& values) {
  int64_t bytes = 0;
  std::set<const void*> counted;
  const auto count = [&](const TensorMap& map) {
    for (const auto& [name, tensor] : map)
      if (counted.insert(tensor.data_ptr()).second) bytes += static_cast<int64_t>(tensor.nbytes());
  };
  for (const TensorMap& before : values.before) count(before);
  count(values.after);
  return bytes;
}

}  // namespace

SideBySide::SideBySide(References originals, const Graph& compressed, const Samples& samples, SideBySideOptions options)
    : originals_(std::move(originals)),
      compressed_(compressed),
      pieces_(pieces_of(compressed, samples, options.piece > 0 ? options.piece : piece_for(samples, 8))),
      memory_(options.memory),
      twins_(originals_.size()) {
  for (size_t k = 0; k < originals_.size(); ++k)
    for (size_t n = 0; n < originals_.graphs[k]->nodes.size(); ++n)
      twins_[k][originals_.graphs[k]->nodes[n].outputs.front()] = n;
  for (size_t n = 0; n < compressed.nodes.size(); ++n) {
    for (const auto& value : read_by(compressed.nodes[n])) last_reader_[value] = n;
    note_change(n);
  }
}

const Node* SideBySide::twin(const Node& node, size_t k) const {
  const auto found = twins_[k].find(node.outputs.front());
  return found == twins_[k].end() ? nullptr : &originals_.graphs[k]->nodes[found->second];
}

// The values that a node reads, and those that its twins do: they may read what it reads no longer.
std::set<std::string> SideBySide::read_by(const Node& node) const {
  std::set<std::string> values;
  const auto note = [&](const Node* reader) {
    if (reader == nullptr) return;
    values.insert(reader->inputs.begin(), reader->inputs.end());
    values.insert(reader->captures.begin(), reader->captures.end());
  };
  note(&node);
  for (size_t k = 0; k < originals_.size(); ++k) note(twin(node, k));
  return values;
}

bool SideBySide::node_changed(const Node& node) const {
  const Node* other = originals_.size() == 0 ? nullptr : twin(node, 0);
  if (other == nullptr || other->op != node.op || other->inputs.size() != node.inputs.size()) return true;
  const auto differs = [&](const std::string& own, const std::string& old) {
    const auto a = compressed_.tensors.find(own);
    const auto b = originals_.first().tensors.find(old);
    const bool constant = a != compressed_.tensors.end() && b != originals_.first().tensors.end();
    return constant ? !a->second.is_same(b->second) : own != old || changed(own);
  };
  return !std::ranges::equal(node.inputs, other->inputs, std::not_fn(differs)) ||
         !std::ranges::equal(node.captures, other->captures, std::not_fn(differs));
}

void SideBySide::keep_until(const std::string& value, size_t node) {
  size_t& last = last_reader_[value];
  if (node <= last) return;
  last = node;
  kept_until_.emplace_back(value, node);
}

void SideBySide::note_change(size_t node) {
  for (size_t n = node; n < compressed_.nodes.size(); ++n)
    if (node_changed(compressed_.nodes[n]))
      for (const auto& output : compressed_.nodes[n].outputs) changed_.insert(output);
}

BothValues SideBySide::begin_piece(size_t piece) const {
  if (!kept_.empty()) return kept_[piece];
  BothValues values{
      .first = pieces_.begin(piece), .all = pieces_.end(piece) - pieces_.begin(piece), .count = pieces_.real_in(piece)};
  const auto inputs = pieces_.inputs(piece);
  for (size_t i = 0; i < inputs.size(); ++i) values.after[compressed_.inputs.at(i).name] = inputs[i];
  values.before.assign(originals_.size(), values.after);
  return values;
}

void SideBySide::step(size_t n, BothValues& values) const {
  const Node& node = compressed_.nodes[n];
  for (size_t k = 0; k < originals_.size(); ++k)
    if (const Node* other = twin(node, k))
      keep(values.before[k], *other, evaluate_node(*originals_.graphs[k], *other, values.before[k]));
  if (!node_changed(node)) {
    for (const auto& output : node.outputs)
      if (!output.empty()) values.after[output] = values.before[0][output];
  } else {
    keep(values.after, node, evaluate_node(compressed_, node, values.after));
  }
  forget(n, values);
}

// Drops what no node after n reads.
void SideBySide::forget(size_t n, BothValues& values) const {
  const auto drop = [&](const std::string& value) {
    const auto last = last_reader_.find(value);
    if (last != last_reader_.end() && last->second > n) return;
    for (TensorMap& before : values.before) before.erase(value);
    values.after.erase(value);
  };
  for (const auto& value : read_by(compressed_.nodes[n])) drop(value);
  for (const auto& [value, node] : kept_until_)
    if (node == n) drop(value);
  for (const auto& output : compressed_.nodes[n].outputs) drop(output);
}

SideBySide::Pass SideBySide::first_piece(size_t node) const {
  const at::NoGradGuard no_grad;
  Pass pass{.values = begin_piece(0), .end = start_, .kept = std::vector<BothValues>(piece_count())};
  for (size_t n = start_; n < node; ++n) {
    step(n, pass.values);
    if (bytes_of(pass.values) > memory_ / static_cast<int64_t>(piece_count())) continue;
    pass.end = n + 1;
    pass.kept[0] = pass.values;
  }
  return pass;
}

BothValues SideBySide::next_piece(size_t piece, size_t node, Pass& pass) {
  const at::NoGradGuard no_grad;
  // What was kept is given away once it is certain that something later will be kept instead.
  BothValues values = pass.end > start_ && !kept_.empty() ? std::move(kept_[piece]) : begin_piece(piece);
  for (size_t n = start_; n < node; ++n) {
    step(n, values);
    if (n + 1 == pass.end) pass.kept[piece] = values;
  }
  return values;
}

void SideBySide::finish(Pass pass) {
  if (pass.end == start_) return;
  start_ = pass.end;
  kept_ = std::move(pass.kept);
}

}  // namespace pare
