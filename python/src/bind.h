// The parts of the module. They speak in dicts, lists and arrays; pare/__init__.py makes types of them.
#pragma once

#include <pybind11/pybind11.h>

namespace pare::python {

namespace py = pybind11;

void bind_graph(py::module_& module);
void bind_measures(py::module_& module);  // inspect, evaluate, explain, verify, diff, report
void bind_methods(py::module_& module);   // prune, fuse, train, distill, sparsify

}  // namespace pare::python
