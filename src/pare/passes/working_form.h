// A model as methods work on it, whatever its file says of numbers and batches: in single precision where it is in
// half, and taking any number of images where its batch is fixed but need not be. Where it must be, Program runs a
// batch at a time (exec/fixed_batch.h). What a method made goes back to the file's types by narrowed_like
// (passes/precision.h) and to its batch by close_batch (passes/open_batch.h).
#pragma once

#include "pare/graph.h"

namespace pare {

Graph working_form(const Graph& graph);

}  // namespace pare
