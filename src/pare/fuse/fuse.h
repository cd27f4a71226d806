// Fusion (pare/fuse.h) of models in their working form.
#pragma once

#include <vector>

#include "pare/fuse.h"  // IWYU pragma: export
#include "pare/fuse/optimal_transport.h"

namespace pare {

// `samples` are inputs, one tensor per graph input, or this rank's part of them; empty: no data.
FusionResult fuse(const std::vector<Graph>& models, const FuseOptions& options,
                  const std::vector<at::Tensor>& samples = {}, Observer& observer = unobserved());

}  // namespace pare
