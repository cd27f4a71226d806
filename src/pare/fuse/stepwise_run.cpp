#include "pare/fuse/stepwise_run.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

namespace pare {

namespace {

constexpr int64_t kPiece = 50;  // samples run at once, at most

std::vector<at::Tensor> inputs_of(const Program& program, const TensorMap& values) {
  std::vector<at::Tensor> inputs;
  for (const auto& input : program.graph().inputs) inputs.push_back(values.at(input.name));
  return inputs;
}

}  // namespace

std::vector<std::vector<at::Tensor>> in_pieces(const Graph& graph, const std::vector<at::Tensor>& samples) {
  const auto& dims = graph.inputs.front().dims;
  const int64_t fixed = dims && !dims->empty() ? dims->front().size : -1;
  const int64_t size = fixed > 0 ? std::min(fixed, kPiece) : kPiece;
  std::vector<std::vector<at::Tensor>> pieces;
  const int64_t count = samples.empty() ? 0 : samples.front().size(0);
  for (int64_t begin = 0; begin < count; begin += size) {
    auto& piece = pieces.emplace_back();
    for (const at::Tensor& sample : samples)
      piece.push_back(sample.slice(0, begin, std::min(sample.size(0), begin + size)));
  }
  return pieces;
}

StepwiseRun::StepwiseRun(const Graph& graph, const std::vector<at::Tensor>& samples, int64_t memory)
    : graph_(graph), memory_(memory) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::string& input : graph.nodes[n].inputs) last_reader_[input] = n;
    for (const std::string& capture : graph.nodes[n].captures) last_reader_[capture] = n;
  }
  for (const auto& piece : in_pieces(graph, samples)) {
    TensorMap& values = values_.emplace_back();
    for (size_t i = 0; i < piece.size(); ++i) values[graph.inputs[i].name] = piece[i];
  }
}

// Nodes begin to end: from what they read of earlier ones to what later ones read of them.
Graph StepwiseRun::part(size_t begin, size_t end) const {
  Graph result;
  result.name = graph_.name;
  result.nodes.assign(graph_.nodes.begin() + static_cast<int64_t>(begin),
                      graph_.nodes.begin() + static_cast<int64_t>(end));
  std::set<std::string> made;
  std::set<std::string> read;
  for (const Node& node : result.nodes) {
    for (const auto* list : {&node.inputs, &node.captures})
      for (const std::string& value : *list) {
        if (value.empty()) continue;
        if (const auto found = graph_.tensors.find(value); found != graph_.tensors.end())
          result.tensors[value] = found->second;
        else if (!made.contains(value) && read.insert(value).second)
          result.inputs.push_back({.name = value});
      }
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const std::string& value : made)
    if (const auto last = last_reader_.find(value); last != last_reader_.end() && last->second >= end)
      result.outputs.push_back({.name = value});
  return result;
}

TensorMap StepwiseRun::run(const Program& program, TensorMap values, size_t end) const {
  auto outputs = program.run(inputs_of(program, values)).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) values[program.graph().outputs[i].name] = outputs[i];
  std::erase_if(values, [&](const auto& value) { return last_reader_.at(value.first) < end; });
  nodes_run_ += static_cast<int64_t>(program.graph().nodes.size());
  return values;
}

void StepwiseRun::advance_to(size_t node) {
  if (node <= node_) return;
  node_ = node;
  again_.clear();
  if (values_.empty()) return;
  const Program program(remove_unused(part(kept_, node)));
  TensorMap first = run(program, values_[0], node);
  int64_t bytes = 0;
  for (const auto& [name, value] : first) bytes += static_cast<int64_t>(value.nbytes());
  if (bytes > memory_ / static_cast<int64_t>(values_.size())) {
    again_ = std::move(first);
    again_of_ = 0;
    return;
  }
  values_[0] = std::move(first);
  for (size_t p = 1; p < values_.size(); ++p) values_[p] = run(program, std::move(values_[p]), node);
  kept_ = node;
}

const TensorMap& StepwiseRun::values_of(size_t piece) const {
  if (kept_ == node_) return values_[piece];
  if (again_.empty() || again_of_ != piece) {
    again_ = run(Program(remove_unused(part(kept_, node_))), values_[piece], node_);
    again_of_ = piece;
  }
  return again_;
}

at::Tensor StepwiseRun::next_output(size_t piece) const {
  Graph next = part(node_, node_ + 1);
  next.outputs = {{.name = graph_.nodes[node_].outputs.front()}};
  const Program program(std::move(next));
  ++nodes_run_;
  return program.run(inputs_of(program, values_of(piece))).outputs.front();
}

}  // namespace pare
