// pare.Graph: a model as a value.
#include <ATen/ATen.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bind.h"
#include "convert.h"
#include "pare/inspect.h"
#include "pare/io.h"
#include "pare/run.h"

namespace pare::python {

namespace {

py::object to_python(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> py::object {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, at::Tensor>)
          return to_array(value);
        else if constexpr (std::is_same_v<T, OpaqueAttribute>)
          return py::bytes(value.bytes);
        else
          return py::cast(value);
      },
      attribute);
}

py::dict to_python(const Node& node) {
  py::dict attributes;
  for (const auto& [name, value] : node.attributes) attributes[py::str(name)] = to_python(value);
  return py::dict(py::arg("name") = node.name, py::arg("op") = node.op, py::arg("domain") = node.domain,
                  py::arg("inputs") = node.inputs, py::arg("outputs") = node.outputs,
                  py::arg("attributes") = attributes);
}

py::list to_python(const std::vector<Node>& nodes) {
  py::list list;
  for (const auto& node : nodes) list.append(to_python(node));
  return list;
}

// A number, a name, or None for an extent that the file leaves open.
py::object to_python(const Dim& dim) {
  if (dim.fixed() && !dim.assumed) return py::int_(dim.size);
  return dim.symbol.empty() ? py::object(py::none()) : py::object(py::str(dim.symbol));
}

py::list to_python(const std::vector<ValueInfo>& values) {
  py::list list;
  for (const auto& value : values) {
    py::object shape = py::none();
    if (value.dims) {
      py::list dims;
      for (const auto& dim : *value.dims) dims.append(to_python(dim));
      shape = py::tuple(dims);
    }
    list.append(py::dict(py::arg("name") = value.name,
                         py::arg("dtype") = to_array(at::empty({0}, value.dtype)).dtype().attr("name"),
                         py::arg("shape") = shape));
  }
  return list;
}

Graph read_bytes(const py::object& model) {
  const py::object plain = py::hasattr(model, "SerializeToString") ? model.attr("SerializeToString")() : model;
  const auto bytes = plain.cast<std::string>();
  const py::gil_scoped_release release;
  return from_onnx(std::as_bytes(std::span(bytes)));
}

Graph with_tensors(const Graph& graph, const py::dict& arrays) {
  Graph result = graph;
  for (const auto& [key, value] : arrays) {
    const auto name = key.cast<std::string>();
    if (!graph.is_constant(name)) throw Error(ErrorKind::usage, name, "is not a tensor of the graph");
    result.tensors[name] = to_tensor(value, name).clone().to(graph.tensor(name).scalar_type());
  }
  return result;
}

std::string text_of(const Graph& graph) {
  const ModelCost cost = cost_of(graph);
  return fmt::format("<pare.Graph '{}': {} nodes, {} parameters, {} MACs>", graph.name, graph.nodes.size(),
                     cost.parameters, cost.macs);
}

}  // namespace

void bind_graph(py::module_& module) {
  py::class_<Graph>(module, "Graph")
      .def_static("from_onnx", &read_bytes, py::arg("model"))
      .def(
          "to_onnx",
          [](const Graph& graph, int64_t opset) {
            std::string bytes;
            {
              const py::gil_scoped_release release;
              bytes = to_onnx(graph, opset);
            }
            return py::bytes(bytes);
          },
          py::arg("opset") = 13)
      .def(
          "save",
          [](const Graph& graph, const std::string& path, int64_t opset, bool force) {
            const py::gil_scoped_release release;
            return save(graph, path, {.opset = opset, .force = force});
          },
          py::arg("path"), py::arg("opset") = 13, py::arg("force") = false)
      .def("with_tensors", &with_tensors, py::arg("tensors"))
      .def_property_readonly("name", [](const Graph& graph) { return graph.name; })
      .def_property_readonly("inputs", [](const Graph& graph) { return to_python(graph.inputs); })
      .def_property_readonly("outputs", [](const Graph& graph) { return to_python(graph.outputs); })
      .def_property_readonly("nodes", [](const Graph& graph) { return to_python(graph.nodes); })
      .def_property_readonly("tensors", [](const Graph& graph) { return to_arrays(graph.tensors); })
      .def_property_readonly("metadata", [](const Graph& graph) { return graph.metadata; })
      .def_property_readonly("parameters", [](const Graph& graph) { return cost_of(graph).parameters; })
      .def_property_readonly("macs", [](const Graph& graph) { return cost_of(graph).macs; })
      .def("__copy__", [](const Graph& graph) { return graph; })
      .def("__repr__", &text_of);
  module.def("load", [](const std::string& path, const py::dict& keywords) {
    const auto options = options_from<ModelOptions>(keywords, "load");
    const py::gil_scoped_release release;
    return load(path, options);
  });
  module.def("build", [](const py::dict& keywords, uint64_t seed) {
    const auto options = options_from<ModelOptions>(keywords, "build");
    const py::gil_scoped_release release;
    return build(options, seed);
  });
  module.def("run", [](const Graph& graph, const std::vector<py::object>& inputs) {
    std::vector<at::Tensor> tensors;
    for (const auto& input : inputs) tensors.push_back(to_tensor(input, "inputs"));
    std::vector<at::Tensor> outputs;
    {
      const py::gil_scoped_release release;
      outputs = run(graph, tensors);
    }
    py::list arrays;
    for (auto& output : outputs) arrays.append(to_own_array(std::move(output)));
    return arrays;
  });
}

}  // namespace pare::python
