// N:M goes along the inputs that a layer sums over, found here by the layer itself: an output's gradient with respect
// to the weight is not zero at just the weights that it sums over.
#include "pare/sparsify/pattern.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pare/error.h"
#include "pare/run.h"
#include "pare/sparsify/mask.h"

namespace pare {
namespace {

struct Layer {
  const char* what;
  Node node;
  std::vector<int64_t> input;
  std::vector<int64_t> weight;
  bool from_the_left = false;
};

std::vector<Layer> layers() {
  const auto node = [](const char* op, std::map<std::string, Attribute> attributes = {}) {
    return Node{.name = "layer", .op = op, .outputs = {"y"}, .attributes = std::move(attributes)};
  };
  const std::vector<int64_t> ones = {1, 1};
  return {
      {"Conv", node("Conv", {{"kernel_shape", ones}}), {1, 8, 1, 1}, {6, 8, 1, 1}},
      {"grouped Conv", node("Conv", {{"kernel_shape", ones}, {"group", int64_t{2}}}), {1, 16, 1, 1}, {6, 8, 1, 1}},
      {"ConvTranspose", node("ConvTranspose", {{"kernel_shape", ones}}), {1, 8, 1, 1}, {8, 6, 1, 1}},
      {"grouped ConvTranspose",
       node("ConvTranspose", {{"kernel_shape", ones}, {"group", int64_t{2}}}),
       {1, 12, 1, 1},
       {12, 5, 1, 1}},
      {"Gemm", node("Gemm"), {1, 8}, {8, 6}},
      {"Gemm, transB", node("Gemm", {{"transB", int64_t{1}}}), {1, 8}, {6, 8}},
      {"MatMul", node("MatMul"), {1, 8}, {8, 6}},
      {"MatMul from the left", node("MatMul"), {8, 1}, {6, 8}, true},
  };
}

Graph graph_of(Layer layer, const at::Tensor& weight) {
  layer.node.inputs = layer.from_the_left ? std::vector<std::string>{"w", "x"} : std::vector<std::string>{"x", "w"};
  Graph graph{.name = layer.what, .nodes = {layer.node}, .tensors = {{"w", weight}}};
  std::vector<Dim> dims;
  for (const int64_t extent : layer.input) dims.push_back({.size = extent});
  graph.inputs = {{.name = "x", .dims = dims}};
  graph.outputs = {{.name = "y"}};
  return graph;
}

TEST(Pattern, NoOutputSumsOverMoreThanNOfM) {
  at::manual_seed(2);
  for (const auto& layer : layers()) {
    const at::Tensor weight = at::rand(layer.weight) + 0.1;
    const Graph graph = graph_of(layer, weight);
    const InputAxes axes = input_axes(graph, {"w"});
    const at::Tensor mask = pattern_mask(weight, {1, 4}, axes.at("w"));
    const Program program(graph);
    const at::Tensor trained = weight.clone().requires_grad_();
    const TensorMap parameters = {{"w", trained}};
    const at::Tensor x = at::ones(layer.input);
    const at::Tensor y = program.run({&x, 1}, {.training = true, .parameters = &parameters}).outputs.at(0).flatten();
    for (int64_t output = 0; output < y.numel(); ++output) {
      trained.mutable_grad() = at::Tensor();
      y[output].backward({}, /*keep_graph=*/true);
      const at::Tensor mine = trained.grad().ne(0);
      const auto inputs = mine.sum().item<int64_t>();
      const auto kept = mine.logical_and(mask).sum().item<int64_t>();
      EXPECT_EQ(kept, inputs / 4 + inputs % 4) << layer.what << ", output " << output << " of " << inputs << " inputs";
    }
  }
}

TEST(Pattern, WhatStaysDenseIsSaid) {
  const TensorMap tensors = {{"a", at::rand({6, 10})}, {"b", at::rand({10, 8})}, {"c", at::rand({4, 4})}};
  const auto notes = left_dense(tensors, {2, 4}, {{"c", {.axis = -1}}});
  ASSERT_EQ(notes.size(), 2);
  EXPECT_THAT(notes[0], ::testing::HasSubstr("a: the last 2 of 10 inputs"));
  EXPECT_THAT(notes[1], ::testing::HasSubstr("c is read along two axes"));
}

}  // namespace
}  // namespace pare
