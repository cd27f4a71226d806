// Layer by layer, the free-support barycentre of all networks' neurons is where each of them, the reference too, is
// sent to.
#pragma once

#include <vector>

#include "pare/fuse/methods.h"

namespace pare {

std::vector<Alignment> align_to_barycentre(const AlignmentTask& task, const TransportFusionOptions& options);

}  // namespace pare
