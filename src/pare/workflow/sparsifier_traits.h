// What the checks of options need to know about a sparsifier. The list is in workflow/sparsify.cpp.
#pragma once

#include <string>
#include <vector>

namespace pare {

struct SparsifierTraits {
  const char* name;
  bool dense_first = false;        // trains the dense network before anything else
  bool finds_count = false;        // finds by itself how many weights go
  bool rounds = false;             // removes in several rounds
  bool rounds_say = false;         // `round-rate` says how many go where `sparsity` does not
  bool masks_in_training = false;  // by weights that move: the options of masks are part of it
  bool whole_channels = false;     // removes them, not weights
  bool one_shot = false;           // from samples of a trained network, without labels and training
  bool solves = false;             // one_shot: layers are solved again for what goes
  bool mask_logits = false;        // masks begin with `s-init`
  bool early_weights = false;      // goes back to weights that only a training from the start has
  bool at_once = false;            // nothing is trained but the dense network before it, and fine-tuning
  bool mask_at_end = false;        // its mask is that of the last step, which fits no earlier epoch and no average
};

// Error{usage} for an unknown name.
const SparsifierTraits& sparsifier_traits(const std::string& name);
// The names of the sparsifiers with this trait.
std::vector<std::string> sparsifiers_with(bool SparsifierTraits::*trait);

}  // namespace pare
