#include "pare/passes/open_batch.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "pare/analysis/shapes.h"
#include "pare/error.h"
#include "pare/exec/fixed_batch.h"
#include "pare/ops/op.h"
#include "pare/run.h"

namespace pare {

namespace {

// Inputs and outputs with an open batch.
Graph with_open_extents(Graph graph, int64_t batch) {
  for (auto* infos : {&graph.inputs, &graph.outputs})
    for (auto& info : *infos)
      if (info.dims && !info.dims->empty() && info.dims->front().size == batch) info.dims->front() = {.symbol = "N"};
  return graph;
}

Graph with_fixed_extents(Graph graph, int64_t batch) {
  for (auto& input : graph.inputs) input.dims->front() = {.size = batch};
  return graph;
}

bool has_first_extents(const Graph& graph) {
  return !graph.inputs.empty() && std::all_of(graph.inputs.begin(), graph.inputs.end(), [](const ValueInfo& input) {
    return input.dims && !input.dims->empty();
  });
}

// Shapes with the batch and with twice as many images: what doubles is the batch's.
struct BatchProbes {
  int64_t batch;
  Shapes once, twice;

  BatchProbes(const Graph& graph, int64_t b)
      : batch(b), once(infer_shapes(graph, {.batch = b})), twice(infer_shapes(graph, {.batch = 2 * b})) {}

  // The axis that doubles, if it is the only one that changes; −1: none does. Nothing where that is not known.
  std::optional<int64_t> axis(const std::string& value) const {
    const TensorType* a = once.find(value);
    const TensorType* b = twice.find(value);
    if (a == nullptr || b == nullptr || a->rank() != b->rank()) return {};
    int64_t found = -1;
    for (int64_t i = 0; i < a->rank(); ++i) {
      const int64_t x = a->dims[static_cast<size_t>(i)], y = b->dims[static_cast<size_t>(i)];
      if (x == y) continue;
      if (y != 2 * x || found >= 0) return {};
      found = i;
    }
    return found;
  }
};

int64_t product(const Shape& dims, int64_t begin, int64_t end) {
  return std::accumulate(dims.begin() + begin, dims.begin() + end, int64_t{1}, std::multiplies<>());
}

// Where the batch goes in a Reshape of values whose axis `a` it is: images stay apart in the order of elements when
// what comes before it is as long as before. Where the batch is not the first axis the rest has to be as long too, or
// it could go to either side.
std::optional<int64_t> batch_axis_after(const Shape& in, int64_t a, const Shape& out, int64_t batch) {
  const auto rank = static_cast<int64_t>(out.size());
  for (int64_t b = 0; b < rank; ++b) {
    if (product(out, 0, b) != product(in, 0, a) || out[static_cast<size_t>(b)] % batch != 0) continue;
    if (a == 0 || product(out, b + 1, rank) == product(in, a + 1, static_cast<int64_t>(in.size()))) return b;
  }
  return {};
}

enum class Rewritten { no, yes, impossible };

class Opening {
 public:
  Opening(Graph graph, int64_t batch) : graph_(std::move(graph)), batch_(batch) {}

  // One rewriting moves the shapes of all that follows.
  std::optional<Graph> run() {
    for (size_t rounds = 0; rounds <= graph_.nodes.size(); ++rounds) {
      const Rewritten done = rewrite_first();
      if (done == Rewritten::impossible) return {};
      if (done == Rewritten::no) return std::move(graph_);
    }
    return {};
  }

  bool changed() const { return changed_; }

 private:
  Rewritten rewrite_first() {
    const BatchProbes probes(graph_, batch_);
    for (auto& node : graph_.nodes) {
      if (!node.domain.empty()) continue;
      Rewritten done = Rewritten::no;
      if (node.op == "Reshape") done = rewrite_reshape(node, probes);
      if (node.op == "Expand") done = rewrite_expand(node, probes);
      if (node.op == "Resize") done = rewrite_resize(node, probes);
      if (done != Rewritten::no) return done;
    }
    return Rewritten::no;
  }

  Rewritten rewrite_reshape(Node& node, const BatchProbes& probes) {
    const auto a = probes.axis(node.inputs[0]);
    const TensorType* in = probes.once.find(node.inputs[0]);
    const TensorType* out = probes.once.find(node.outputs[0]);
    if (!a || *a < 0 || out == nullptr || !graph_.is_constant(node.inputs[1])) return Rewritten::no;
    const auto b = batch_axis_after(in->dims, *a, out->dims, batch_);
    if (b && probes.axis(node.outputs[0]) == b) return Rewritten::no;
    if (!b || node.integer("allowzero", 0) != 0) return Rewritten::impossible;
    Shape shape = integers(node.inputs[1]);
    const auto at = static_cast<size_t>(*b);
    const bool copies = b == a && out->dims[at] == in->dims[at];
    if (!copies)
      for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] == -1) shape[i] = out->dims[i];
    shape[at] = copies ? 0 : -1;
    replace(node, 1, shape);
    return Rewritten::yes;
  }

  // Along the batch an extent of one lets every other through.
  Rewritten rewrite_expand(Node& node, const BatchProbes& probes) {
    const auto a = probes.axis(node.inputs[0]);
    const TensorType* in = probes.once.find(node.inputs[0]);
    if (!a || *a < 0 || !graph_.is_constant(node.inputs[1])) return Rewritten::no;
    Shape shape = integers(node.inputs[1]);
    const int64_t at = *a + static_cast<int64_t>(shape.size()) - in->rank();
    if (at < 0 || shape[static_cast<size_t>(at)] == 1) return Rewritten::no;
    if (shape[static_cast<size_t>(at)] != in->dims[static_cast<size_t>(*a)]) return Rewritten::impossible;
    shape[static_cast<size_t>(at)] = 1;
    replace(node, 1, shape);
    return Rewritten::yes;
  }

  // Sizes of all axes become those of all but the batch.
  Rewritten rewrite_resize(Node& node, const BatchProbes& probes) {
    const auto a = probes.axis(node.inputs[0]);
    const TensorType* in = probes.once.find(node.inputs[0]);
    if (!a || *a < 0 || !node.has_input(3) || node.has("axes") || !graph_.is_constant(node.inputs[3]))
      return Rewritten::no;
    Shape sizes = integers(node.inputs[3]), axes;
    if (sizes.size() != in->dims.size() || sizes[static_cast<size_t>(*a)] != in->dims[static_cast<size_t>(*a)] ||
        node.has_input(1))
      return Rewritten::impossible;
    for (int64_t i = 0; i < in->rank(); ++i)
      if (i != *a) axes.push_back(i);
    sizes.erase(sizes.begin() + *a);
    node.attributes["axes"] = axes;
    replace(node, 3, sizes);
    return Rewritten::yes;
  }

  Shape integers(const std::string& value) const {
    const at::Tensor list = graph_.tensor(value).to(at::kLong).contiguous();
    return {list.data_ptr<int64_t>(), list.data_ptr<int64_t>() + list.numel()};
  }

  void replace(Node& node, size_t input, const Shape& list) {
    const std::string name = fresh_name(graph_, node.name + "_any_batch");
    graph_.tensors[name] = at::tensor(list, at::kLong);
    node.inputs[input] = name;
    changed_ = true;
  }

  Graph graph_;
  int64_t batch_;
  bool changed_ = false;
};

bool same(const at::Tensor& found, const at::Tensor& expected) {
  if (found.sizes() != expected.sizes() || found.scalar_type() != expected.scalar_type()) return false;
  const at::Tensor a = found.to(at::kDouble), b = expected.to(at::kDouble);
  const double scale = b.numel() > 0 ? at::nan_to_num(b.abs(), 0, 0, 0).max().item<double>() : 0;
  return at::allclose(a, b, 0, 1e-3 * scale, /*equal_nan=*/true);
}

// Two batches at once against one after the other, on random numbers.
bool same_image_by_image(const Graph& original, const Graph& opened, int64_t batch) {
  const at::NoGradGuard no_grad;
  try {
    const auto inputs = random_inputs(opened, 2 * batch, 0);
    const auto expected = forward(with_fixed_extents(original, batch), inputs).outputs;
    const auto found = forward(opened, inputs).outputs;
    return std::equal(found.begin(), found.end(), expected.begin(), expected.end(), same);
  } catch (const Error&) {
    return false;
  }
}

// A graph whose batch is open means what it does with several images, if it takes them.
bool takes_several(const Graph& graph) {
  const at::NoGradGuard no_grad;
  try {
    forward(graph, random_inputs(graph, 2, 0));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<Graph> open_batch(const Graph& graph) {
  if (!has_first_extents(graph)) return graph;
  const int64_t fixed = fixed_batch(graph);
  const bool any_fixed = std::any_of(graph.inputs.begin(), graph.inputs.end(),
                                     [](const ValueInfo& input) { return input.dims->front().fixed(); });
  if (fixed == 0 && any_fixed) return {};
  const int64_t batch = std::max<int64_t>(fixed, 1);
  Opening opening(with_open_extents(graph, batch), batch);
  std::optional<Graph> opened = opening.run();
  if (fixed == 0 && (!opened || !opening.changed() || takes_several(graph))) return graph;
  if (!opened || !same_image_by_image(graph, *opened, batch)) return {};
  return remove_unused(std::move(*opened));
}

namespace {

// Sizes of some axes, which older opsets do not know, are those of all again.
void close_resize(Graph& graph, Node& node, int64_t batch) {
  const at::Tensor sizes = graph.tensor(node.inputs[3]);
  const Shape axes = node.integers("axes");
  int64_t left_out = 0;
  while (std::find(axes.begin(), axes.end(), left_out) != axes.end()) ++left_out;
  const std::string name = fresh_name(graph, node.name + "_sizes");
  graph.tensors[name] = at::cat({sizes.narrow(0, 0, left_out), at::full({1}, batch, sizes.options()),
                                 sizes.narrow(0, left_out, sizes.numel() - left_out)});
  node.inputs[3] = name;
  node.attributes.erase("axes");
}

void close_extents(std::vector<ValueInfo>& infos, const std::vector<ValueInfo>& originals) {
  for (auto& info : infos)
    for (const auto& original : originals)
      if (info.name == original.name && info.dims && original.dims && !info.dims->empty() && !original.dims->empty())
        info.dims->front() = original.dims->front();
}

}  // namespace

Graph close_batch(Graph graph, const Graph& original) {
  close_extents(graph.inputs, original.inputs);
  close_extents(graph.outputs, original.outputs);
  const Usage made = usage_of(original);
  const int64_t batch = fixed_batch(original);
  for (auto& node : graph.nodes) {
    const auto twin = made.producer.find(node.outputs.at(0));
    if (batch > 0 && node.op == "Resize" && node.has("axes") && twin != made.producer.end() &&
        !original.nodes[twin->second].has("axes"))
      close_resize(graph, node, batch);
  }
  return remove_unused(std::move(graph));
}

}  // namespace pare
