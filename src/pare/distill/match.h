// Matching: a penalty that makes a student look where its teacher looks. A method sees what both networks did with a
// batch; it is one function and one line of the list in match.cpp.
//
//   at        equally weighted maps at the end of every stage                     attention.h
//   at-grad   gradients of the loss at the input                                  gradient_attention.h
//   ewa       equally weighted maps at one layer                                  attention.h
//   swa       maps weighted by the sensitivity of the class score                 sensitivity.h
//   sswa      the same, with channels of the teacher left out at random           sensitivity.h
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "pare/distill.h"  // IWYU pragma: export
#include "pare/graph.h"

namespace pare {

// Error{usage} for an unknown name; nullptr for "none".
const MatchMethod* find_match_method(const std::string& name);

struct LayerPair {
  std::string teacher, student;  // values
};

// The layers that are matched. `wanted`: NAME in both networks or STUDENT=TEACHER; empty: as the method has it, the
// last spatial value, or the last of every extent that both networks have, in the teacher with its batch norms folded.
// Error{shape} when there is none.
std::vector<LayerPair> matched_layers(const Graph& teacher, const Graph& student, const MatchMethod& method,
                                      const std::vector<std::string>& wanted);

}  // namespace pare
