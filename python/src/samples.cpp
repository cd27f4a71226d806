#include "samples.h"

#include <ATen/ATen.h>
#include <pybind11/numpy.h>

#include <memory>

#include "convert.h"

namespace pare::python {

namespace {

bool is_array(const py::handle& value) {
  return py::isinstance<py::array>(value) || py::hasattr(value, "__dlpack__") || py::hasattr(value, "__array__");
}

bool is_sequence(const py::handle& value) {
  return py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value);
}

// The rank that a batch has; 0 where the graph does not say.
int64_t batch_rank(const Graph& graph, size_t input) {
  const auto& dims = graph.inputs.at(input).dims;
  return dims ? static_cast<int64_t>(dims->size()) : 0;
}

// One item: inputs, and perhaps labels. A single sample becomes a batch of one.
SampleBatch batch_of(const py::handle& item, const Graph& graph) {
  const size_t count = graph.inputs.size();
  std::vector<at::Tensor> tensors;
  if (is_array(item) && !is_sequence(item)) {
    tensors.push_back(to_tensor(item, "samples"));
  } else if (is_sequence(item)) {
    for (const auto& part : item) tensors.push_back(to_tensor(part, "samples"));
  }
  if (tensors.size() != count && tensors.size() != count + 1)
    throw Error(ErrorKind::usage, "samples", "expected an array{}, found {}",
                count == 1 ? " or a pair of an array and labels"
                           : fmt::format(" for each of {} inputs, and perhaps labels", count),
                py::str(py::type::handle_of(item).attr("__name__")).cast<std::string>());
  SampleBatch batch;
  if (tensors.size() > count) {
    batch.labels = tensors.back();
    tensors.pop_back();
  }
  for (const auto& tensor : tensors)
    if (tensor.dim() == 0) throw Error(ErrorKind::usage, "samples", "expected arrays of samples, found a number");
  const int64_t rank = batch_rank(graph, 0);
  const bool single = rank > 0 && tensors[0].dim() == rank - 1;
  if (single) {
    for (auto& tensor : tensors) tensor = tensor.unsqueeze(0);
    if (batch.labels.defined()) batch.labels = batch.labels.unsqueeze(0);
  }
  batch.inputs = std::move(tensors);
  // Labels of several classes are 0 and 1, those of one a number.
  if (batch.labels.defined()) batch.labels = batch.labels.to(batch.labels.dim() == 2 ? at::kByte : at::kLong);
  return batch;
}

// A Python object that is let go of under the GIL, whoever does it.
std::shared_ptr<py::object> shared(py::object object) {
  return {new py::object(std::move(object)), [](py::object* held) {
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

}  // namespace

bool in_memory(const py::handle& value, const Graph& graph) {
  if (value.is_none()) return true;  // there are none
  if (is_array(value) && !is_sequence(value)) return true;
  if (!is_sequence(value)) return false;
  const auto parts = py::reinterpret_borrow<py::sequence>(value);
  const size_t count = graph.inputs.size();
  if (parts.size() != count && parts.size() != count + 1) return false;
  // A list of samples of a graph of one input is no pair of inputs and labels.
  if (!is_array(parts[0])) return false;
  const int64_t rank = batch_rank(graph, 0);
  return rank == 0 || to_tensor(parts[0], "samples").dim() == rank;
}

Samples samples_from(const py::object& value, const Graph& graph, int64_t limit) {
  if (value.is_none()) return {};
  if (!in_memory(value, graph)) return collect(stream_from(value, graph), limit);
  SampleBatch batch = batch_of(value, graph);
  for (const auto& input : batch.inputs)
    if (input.dim() == 0 || input.size(0) != batch.inputs[0].size(0))
      throw Error(ErrorKind::shape, "samples", "inputs have different numbers of samples");
  if (batch.labels.defined() && batch.labels.size(0) != batch.inputs[0].size(0))
    throw Error(ErrorKind::shape, "samples", "{} samples have {} labels", batch.inputs[0].size(0),
                batch.labels.size(0));
  Samples all = samples_of(std::move(batch.inputs), batch.labels);
  return limit > 0 && all.size > limit ? part_of(all, 0, limit) : all;
}

SampleStream stream_from(const py::object& value, const Graph& graph) {
  if (!py::isinstance<py::iterable>(value))
    throw Error(ErrorKind::usage, "samples", "expected an array or an iterable of arrays, found {}",
                py::str(py::type::handle_of(value).attr("__name__")).cast<std::string>());
  const auto iterator = shared(py::iter(value));
  return [iterator, graph]() -> std::optional<SampleBatch> {
    const py::gil_scoped_acquire gil;
    const auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator->ptr()));
    if (!item) {
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      return std::nullopt;
    }
    return batch_of(item, graph);
  };
}

}  // namespace pare::python
