// Tensors and options between Python and the library.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "pare/graph.h"
#include "pare/options.h"

namespace pare::python {

namespace py = pybind11;

// An array that shares the tensor's memory and may not be written to: graphs share their tensors.
py::array to_array(const at::Tensor& tensor);
// The same of a result that only its caller has: it may be written to, and so handed on by DLPack, unless something
// else uses its memory.
py::array to_own_array(at::Tensor tensor);
// Each tensor as an array, by name.
py::dict to_arrays(const TensorMap& tensors);

// A tensor over the memory of a NumPy array, of anything with __dlpack__ (a PyTorch tensor) or __array__, or of what
// numpy.asarray makes of it. `what` names it in errors.
at::Tensor to_tensor(const py::handle& value, const std::string& what);

// Sets the options that keywords name; their underscores are the hyphens of `describe`. Error{usage} names `function`
// and a keyword that is unknown, has a value that does not fit, or has no meaning beside the others.
using Describe = std::function<void(OptionVisitor&)>;
void read_options(const py::dict& keywords, const std::string& function, const Describe& asked, const Describe& usual);
template <typename Options>
Options options_from(const py::dict& keywords, const std::string& function) {
  Options options;
  Options usual;
  read_options(
      keywords, function, [&](OptionVisitor& visitor) { options.describe(visitor); },
      [&](OptionVisitor& visitor) { usual.describe(visitor); });
  return options;
}

// (keyword, default, choices, help) of every option described, for signatures and help texts.
py::list described(const std::function<void(OptionVisitor&)>& describe);

// What the library says of options (`match-layers`) in Python's words (`match_layers`).
std::string as_keywords(const std::string& text);

}  // namespace pare::python
