// What the checks of options need to know of a sparsifier. The list of them is in workflow/sparsify.cpp.
#pragma once

#include <string>

namespace pare {

struct SparsifierTraits {
  const char* name;
  bool dense_first = false;        // trains the dense network before anything else
  bool finds_count = false;        // finds by itself how many weights go
  bool rounds = false;             // removes in several
  bool rounds_say = false;         // they say how many go where `sparsity` does not
  bool masks_in_training = false;  // by weights that move: the options of masks are part of it
  bool whole_channels = false;     // removes them, not weights
  bool one_shot = false;           // from samples of a trained network, without labels and training
  bool mask_at_end = false;        // its mask is that of the last step, which fits no earlier epoch and no average
};

// Error{usage} when there is none of that name.
const SparsifierTraits& sparsifier_traits(const std::string& name);

}  // namespace pare
