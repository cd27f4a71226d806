// Samples as Python has them. For a graph of n inputs they are
//   an array                                  where n is 1
//   a tuple or list of n arrays, or of n + 1  the last of which are the labels
//   any other iterable                        of arrays or of tuples as above, each of them a batch, or one sample
//                                             with one axis less than the graph's input: a torch.utils.data.DataLoader
#pragma once

#include <pybind11/pybind11.h>

#include "pare/graph.h"
#include "pare/samples.h"

namespace pare::python {

namespace py = pybind11;

// Arrays in memory, or nothing: then they are to be streamed.
bool in_memory(const py::handle& value, const Graph& graph);

// Of arrays, without a copy; an iterable is read, up to `limit` samples (0: all). `None` is no samples.
Samples samples_from(const py::object& value, const Graph& graph, int64_t limit = 0);

// An iterable read as it is used, under the GIL.
SampleStream stream_from(const py::object& value, const Graph& graph);

}  // namespace pare::python
