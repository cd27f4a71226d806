// A model as methods work on it, whatever its file says of numbers and batches: in single precision where it is in
// half, and taking any number of images where its batch is fixed but need not be. Where it must be, Program runs a
// batch at a time (exec/fixed_batch.h). What a method made goes back to the file's types and batch.
#pragma once

#include "pare/core/graph.h"

namespace pare {

Graph working_form(const Graph& graph);

// `result` was made of working_form(original).
Graph as_in_file(Graph result, const Graph& original);

}  // namespace pare
