// How ranks (pare/observer.h) find each other.
//
//   std::unique_ptr<ProcessGroup> ranks = join(place_from_environment());
//   ranks->sum(tensor);   // in place, over all ranks
#pragma once

#include <memory>

#include "pare/dist/place.h"
#include "pare/observer.h"  // IWYU pragma: export

namespace pare {

// Size 1: a group that does nothing. More: by Gloo.
std::unique_ptr<ProcessGroup> join(const RankPlace& place);
std::unique_ptr<ProcessGroup> join_by_gloo(const RankPlace& place);

}  // namespace pare
