#include "pare/workflow/rewind.h"

#include "pare/error.h"
#include "pare/sparsify/fixed_mask.h"
#include "pare/sparsify/mask.h"

namespace pare {

TrainingJob dense_job(int64_t rewind) {
  TrainingJob job{.kind = "dense", .what = "dense", .definition = R"({"what":"dense"})"};
  if (rewind > 0) job.keep_epochs = {rewind};
  return job;
}

EarlyIterate early_iterate(const Graph& initial, const TrainingOutcome& dense, int64_t epoch) {
  if (epoch == 0) return {.graph = initial};
  if (const auto ran = static_cast<int64_t>(dense.state.history.size()); ran < epoch)
    throw Error(ErrorKind::usage, OptionName{"rewind"}, "the dense training ended after epoch {}, before epoch {}", ran,
                epoch);
  EarlyIterate early{.epoch = epoch, .graph = dense.graph, .state = as_start(dense.after_epoch(epoch))};
  for (const TensorMap* tensors : {&early.state->raw, &early.state->statistics})
    for (const auto& [name, tensor] : *tensors)
      if (early.graph.is_constant(name)) early.graph.tensors[name] = tensor;
  return early;
}

EarlyIterate masked(const EarlyIterate& early, const TensorMap& masks) {
  EarlyIterate result{.epoch = early.epoch, .graph = masked(early.graph, masks)};
  if (early.state) result.state = masked(*early.state, masks);
  return result;
}

TrainingOptions training_from(const EarlyIterate& early, TrainingOptions training) {
  training.train.first_epoch = early.epoch;
  return training;
}

}  // namespace pare
