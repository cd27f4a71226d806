#include "pare/layerwise/side_by_side.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "pare/error.h"
#include "pare/ops/op.h"

namespace pare {

std::vector<at::Tensor> evaluate_node(const Graph& graph, const Node& node, const TensorMap& values) {
  std::vector<at::Tensor> inputs(node.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!node.has_input(i)) continue;
    const auto found = values.find(node.inputs[i]);
    inputs[i] = found != values.end() ? found->second : graph.tensor(node.inputs[i]);
  }
  return evaluate(require_op(node), {.node = node, .inputs = inputs});
}

namespace {

void keep(TensorMap& values, const Node& node, const std::vector<at::Tensor>& outputs) {
  for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
    if (!node.outputs[i].empty()) values[node.outputs[i]] = outputs[i];
}

// Bytes of all values, those that are the same in both graphs counted once.
int64_t bytes_of(const BothValues& values) {
  int64_t bytes = 0;
  std::set<const void*> counted;
  for (const TensorMap* map : {&values.before, &values.after})
    for (const auto& [name, tensor] : *map)
      if (counted.insert(tensor.data_ptr()).second) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

SideBySide::SideBySide(const Graph& original, const Graph& compressed, const Samples& samples,
                       SideBySideOptions options)
    : original_(original),
      compressed_(compressed),
      pieces_(pieces_of(original, samples, options.piece)),
      memory_(options.memory) {
  for (size_t n = 0; n < original.nodes.size(); ++n) twins_[original.nodes[n].outputs.front()] = n;
  for (size_t n = 0; n < compressed.nodes.size(); ++n) {
    for (const auto& input : compressed.nodes[n].inputs) last_reader_[input] = n;
    if (const Node* other = twin(compressed.nodes[n]))  // may read what its twin reads no longer
      for (const auto& input : other->inputs) last_reader_[input] = n;
    note_change(n);
  }
}

const Node* SideBySide::twin(const Node& node) const {
  const auto found = twins_.find(node.outputs.front());
  return found == twins_.end() ? nullptr : &original_.nodes[found->second];
}

bool SideBySide::node_changed(const Node& node) const {
  const Node* other = twin(node);
  if (other == nullptr || other->op != node.op || other->inputs.size() != node.inputs.size()) return true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto a = compressed_.tensors.find(node.inputs[i]);
    const auto b = original_.tensors.find(other->inputs[i]);
    const bool constant = a != compressed_.tensors.end() && b != original_.tensors.end();
    if (constant ? !a->second.is_same(b->second) : node.inputs[i] != other->inputs[i] || changed(node.inputs[i]))
      return true;
  }
  return false;
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
  for (size_t i = 0; i < inputs.size(); ++i)
    values.before[original_.inputs.at(i).name] = values.after[original_.inputs[i].name] = inputs[i];
  return values;
}

void SideBySide::step(size_t n, BothValues& values) const {
  const Node& node = compressed_.nodes[n];
  const Node* other = twin(node);
  if (other != nullptr) keep(values.before, *other, evaluate_node(original_, *other, values.before));
  if (!node_changed(node)) {
    for (const auto& output : node.outputs)
      if (!output.empty()) values.after[output] = values.before[output];
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
    values.before.erase(value);
    values.after.erase(value);
  };
  for (const auto& input : compressed_.nodes[n].inputs) drop(input);
  if (const Node* other = twin(compressed_.nodes[n]))
    for (const auto& input : other->inputs) drop(input);
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
