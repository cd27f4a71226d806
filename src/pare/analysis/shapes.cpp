#include "pare/analysis/shapes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <set>

#include "pare/core/memory.h"
#include "pare/ops/dtype.h"
#include "pare/ops/op.h"

namespace pare {

const TensorType* Shapes::find(const std::string& value) const {
  const auto found = types.find(value);
  return found == types.end() ? nullptr : &found->second;
}

namespace {

// What inputs call an open first extent: the same name in another input is the same extent. A name that an input has
// for its later extents too says nothing.
std::set<std::string> batch_names(const Graph& graph) {
  std::set<std::string> names, several = {""};
  for (const auto& input : graph.inputs) {
    if (!input.dims || input.dims->empty() || input.dims->front().fixed()) continue;
    const std::string& name = input.dims->front().symbol;
    names.insert(name);
    for (size_t i = 1; i < input.dims->size(); ++i)
      if ((*input.dims)[i].symbol == name) several.insert(name);
  }
  for (const auto& name : several) names.erase(name);
  return names;
}

constexpr int64_t kLargestKnownValue = 1 << 16;    // elements
constexpr uint64_t kMostKnownBytes = 64ull << 20;  // of all values together

class ShapeInference {
 public:
  ShapeInference(const Graph& graph, const ShapeOptions& options)
      : graph_(graph), options_(options), batch_names_(batch_names(graph)) {}

  Shapes run() {
    const MemoryScope scope(kMostKnownBytes);
    for (const auto& [name, tensor] : graph_.tensors)
      result_.types[name] = {tensor.scalar_type(), tensor.sizes().vec()};
    for (const auto& input : graph_.inputs) bind_input(input);
    for (const auto& node : graph_.nodes) {
      infer_node(node);
      take_statements(node);
    }
    return std::move(result_);
  }

 private:
  void bind_input(const ValueInfo& input) {
    TensorType type{input.dtype, {}};
    if (const auto given = options_.inputs.find(input.name); given != options_.inputs.end()) {
      type.dims = given->second;
    } else if (!input.dims) {
      result_.unknown[input.name] = "the rank of the input is not known";
      return;
    } else {
      for (size_t i = 0; i < input.dims->size(); ++i) {
        const Dim& dim = (*input.dims)[i];
        const bool batch = i == 0 || batch_names_.contains(dim.symbol);
        if (!dim.fixed() && !batch && options_.open == 0) {
          result_.unknown[input.name] = fmt::format("extent {} of the input is open", i);
          return;
        }
        type.dims.push_back(dim.fixed() ? dim.size : batch ? options_.batch : options_.open);
        if (!dim.symbol.empty()) symbols_.emplace(dim.symbol, type.dims.back());
      }
    }
    try {
      result_.types[input.name] = checked(fmt::format("input '{}'", input.name), type);
    } catch (const Error& error) {
      result_.unknown[input.name] = error.what();
    }
  }

  const at::Tensor* known(const std::string& value) const {
    if (const auto found = graph_.tensors.find(value); found != graph_.tensors.end()) return &found->second;
    const auto found = result_.values.find(value);
    return found == result_.values.end() ? nullptr : &found->second;
  }

  void infer_node(const Node& node) {
    const std::string key = node.outputs.empty() ? node.name : node.outputs.front();
    try {
      const OpDef& op = require_op(node);
      const size_t n = node.inputs.size();
      std::vector<TensorType> types(n);
      std::vector<at::Tensor> values(n);
      const auto present = std::make_unique<bool[]>(n);
      bool all_known = true;
      for (size_t i = 0; i < n; ++i) {
        present[i] = node.has_input(i);
        if (!present[i]) continue;
        const TensorType* type = result_.find(node.inputs[i]);
        if (type == nullptr) {
          result_.unknown[key] = fmt::format("'{}' has no known type", node.inputs[i]);
          return;
        }
        types[i] = *type;
        if (const at::Tensor* value = known(node.inputs[i]))
          values[i] = *value;
        else
          all_known = false;
      }
      const auto outputs = op.infer({node, types, values, {present.get(), n}});
      for (size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i)
        if (!node.outputs[i].empty()) result_.types[node.outputs[i]] = checked(describe(node), outputs[i]);
      const bool shape_only = op.traits.kind == OpKind::extents;
      if (shape_only) values[0] = at::zeros({}, at::kFloat).expand(types[0].dims);
      if ((all_known || shape_only) && small(outputs) && !reads_carried(node, graph_)) remember(node, op, values);
    } catch (const UnknownValue&) {
      result_.unknown[key] = "its shape depends on data";
    } catch (const Error& error) {
      result_.unknown[key] = error.what();
    } catch (const std::exception&) {
      result_.unknown[key] = fmt::format("{}: its inputs do not fit it", describe(node));
    }
  }

  // Where no rule gives the type of an output, the file may say it: extents, or names of those of inputs.
  void take_statements(const Node& node) {
    bool all = !node.outputs.empty();
    for (const auto& output : node.outputs) {
      if (output.empty() || result_.types.contains(output)) continue;
      const auto stated = graph_.stated.find(output);
      const auto dims = stated == graph_.stated.end() ? std::nullopt : stated_dims(stated->second);
      if (dims) result_.types[output] = {stated->second.dtype, *dims};
      all = all && dims.has_value();
    }
    if (all) result_.unknown.erase(node.outputs.front());
  }

  std::optional<Shape> stated_dims(const ValueInfo& info) const {
    if (!info.dims) return std::nullopt;
    Shape dims;
    int64_t count = 1;
    for (const Dim& dim : *info.dims) {
      const auto known = symbols_.find(dim.symbol);
      const int64_t extent = dim.fixed()               ? dim.size
                             : known != symbols_.end() ? known->second
                             : dims.empty()            ? options_.batch
                                                       : options_.open;
      const bool open = !dim.fixed() && known == symbols_.end() && !dims.empty() && options_.open == 0;
      if (open || (extent > 0 && count > (int64_t{1} << 48) / extent)) return std::nullopt;
      count *= std::max<int64_t>(extent, 1);
      dims.push_back(extent);
    }
    return dims;
  }

  // A type whose elements can be counted, with any one of its extents left out too.
  static const TensorType& checked(const std::string& where, const TensorType& type) {
    int64_t count = 1;
    for (const int64_t dim : type.dims) {
      if (dim < 0 || (dim > 0 && count > (int64_t{1} << 48) / dim))
        throw Error(ErrorKind::shape, where, "would be {}, larger than any memory", to_string(type));
      count *= std::max<int64_t>(dim, 1);
    }
    return type;
  }

  static bool small(const std::vector<TensorType>& types) {
    return std::all_of(types.begin(), types.end(), [](const auto& t) { return t.count() <= kLargestKnownValue; });
  }

  // A value that would take too much is not known, like one that depends on data.
  void remember(const Node& node, const OpDef& op, const std::vector<at::Tensor>& values) {
    std::vector<at::Tensor> outputs;
    try {
      outputs = evaluate(op, {.node = node, .inputs = values});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::memory) throw;
    }
    for (size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty() && outputs[i].defined()) result_.values[node.outputs[i]] = outputs[i];
  }

  const Graph& graph_;
  const ShapeOptions& options_;
  const std::set<std::string> batch_names_;
  std::map<std::string, int64_t> symbols_;  // of open extents of inputs, and what they are
  Shapes result_;
};

// Heights, widths and lengths that networks are usually given: what pooling and merging halve often comes first.
constexpr int64_t kUsualSizes[] = {224, 32, 256, 512, 64, 320, 640, 48, 96, 128, 1024, 16000};

bool is_open(const ValueInfo& input, size_t axis) { return input.dims->size() > axis && !(*input.dims)[axis].fixed(); }

// Where other inputs begin with an open batch and this one with a fixed extent, as the states of recurrent layers do
// with the number of layers, the second is the batch.
bool has_batch_second(const Graph& graph, const ValueInfo& input) {
  return !is_open(input, 0) && is_open(input, 1) &&
         std::ranges::any_of(graph.inputs, [](const ValueInfo& other) { return other.dims && is_open(other, 0); });
}

// The open extents of an input that `size` would stand for, in its shape; nothing where there are none.
std::optional<Shape> assumed_shape(const Graph& graph, const ValueInfo& input, const std::set<std::string>& batches,
                                   int64_t batch, int64_t size) {
  if (!input.dims) return std::nullopt;
  const bool batch_second = has_batch_second(graph, input);
  bool assumed = false;
  Shape shape;
  for (size_t i = 0; i < input.dims->size(); ++i) {
    const Dim& dim = (*input.dims)[i];
    const bool known_batch = i == 0 || batches.contains(dim.symbol);
    assumed = assumed || (!dim.fixed() && !known_batch);
    shape.push_back(dim.fixed() ? dim.size : known_batch || (i == 1 && batch_second) ? batch : size);
  }
  return assumed ? std::optional(shape) : std::nullopt;
}

std::map<std::string, Shape> assumed_shapes(const Graph& graph, const ShapeOptions& options, int64_t size) {
  std::map<std::string, Shape> shapes;
  const auto batches = batch_names(graph);
  for (const auto& input : graph.inputs)
    if (!options.inputs.contains(input.name))
      if (const auto shape = assumed_shape(graph, input, batches, options.batch, size)) shapes[input.name] = *shape;
  return shapes;
}

}  // namespace

Shapes infer_shapes(const Graph& graph, const ShapeOptions& options) { return ShapeInference(graph, options).run(); }

Shapes analysis_shapes(const Graph& graph, const ShapeOptions& options) {
  if (options.open > 0 || assumed_shapes(graph, options, 1).empty()) return infer_shapes(graph, options);
  std::optional<Shapes> best;
  for (const int64_t size : kUsualSizes) {
    ShapeOptions given = options;
    const auto assumed = assumed_shapes(graph, options, size);
    given.inputs.insert(assumed.begin(), assumed.end());
    Shapes shapes = infer_shapes(graph, given);
    if (best && best->unknown.size() <= shapes.unknown.size()) continue;
    best = std::move(shapes);
    best->assumed = assumed;
    if (best->unknown.empty()) break;
  }
  return *best;
}

}  // namespace pare
