// The native part of the module `pare`.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <thread>

#include "bind.h"
#include "convert.h"
#include "pare/core/memory.h"
#include "pare/pare.h"

namespace pare::python {

namespace {

template <typename Options>
py::list options_of() {
  Options options;
  return described([&](OptionVisitor& visitor) { options.describe(visitor); });
}

// What a function of the module takes as keywords, as the library describes it.
py::list options_of_function(const std::string& name) {
  static const std::map<std::string, py::list (*)()> functions = {
      {"load", options_of<ModelOptions>},
      {"build", options_of<ModelOptions>},
      {"evaluate", options_of<EvaluateOptions>},
      {"explain", options_of<AttributionOptions>},
      {"verify", options_of<VerifyOptions>},
      {"prune", options_of<PruneOptions>},
      {"compress", options_of<CompressOptions>},
      {"fuse", options_of<FuseOptions>},
      {"train", options_of<TrainingOptions>},
      {"distill", options_of<DistillOptions>},
      {"sparsify", options_of<SparsifyOptions>},
      {"quantize", options_of<QuantizeOptions>},
      {"scan_quantization", options_of<QuantizeOptions>},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? py::list() : found->second();
}

// Errors are the classes of pare/errors.py.
void raise(const Error& error) {
  const py::object made =
      py::module_::import("pare.errors")
          .attr("make")(std::string(to_string(error.kind())), as_keywords(error.where()), as_keywords(error.message()));
  PyErr_SetObject(py::type::handle_of(made).ptr(), made.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error);
  } catch (const OutOfMemory& refused) {
    raise({ErrorKind::memory, "a tensor", to_string(refused)});
  } catch (const c10::Error& error) {  // no check foresaw it
    raise({ErrorKind::failed, "libtorch", error.what_without_backtrace()});
  }
}

}  // namespace

}  // namespace pare::python

PYBIND11_MODULE(_pare, module) {
  using namespace pare::python;
  module.attr("__version__") = pare::kVersion;
  py::register_exception_translator(&translate);
  // libtorch begins with one thread.
  at::set_num_threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  module.def("options_of", &options_of_function);
  module.def("architectures", &pare::architecture_names);
  module.def("set_threads", [](int count) { at::set_num_threads(std::max(1, count)); });
  bind_graph(module);
  bind_measures(module);
  bind_methods(module);
}
