#include "pare/passes/working_form.h"

#include "pare/passes/open_batch.h"
#include "pare/passes/precision.h"

namespace pare {

Graph working_form(const Graph& graph) {
  const Graph wide = widened(graph);
  return open_batch(wide).value_or(wide);
}

}  // namespace pare
