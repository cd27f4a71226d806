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
#include <string_view>
#include <vector>

#include "pare/core/graph.h"

namespace pare {

// What a network did with a batch.
struct Observation {
  at::Tensor input;
  at::Tensor scores;               // [N, K]
  std::vector<at::Tensor> layers;  // the matched ones, [N, C, h, w]
};

struct Matched {
  const Observation& teacher;
  const Observation& student;
  const at::Tensor& labels;  // as a batch has them
  double drop = 0;           // ρ of sswa
};

struct MatchMethod {
  enum class Layers { none, last, stages };  // matched unless others are asked for
  enum class Gradients { none, layers, input };

  std::string_view name;
  double weight = 0;  // β unless another is asked for
  Layers layers = Layers::last;
  Gradients gradients = Gradients::none;  // with respect to what it needs the teacher's
  at::Tensor (*penalty)(const Matched&) = nullptr;
};

// Without "none", which matches nothing.
const std::vector<MatchMethod>& match_methods();
// Error{usage} for an unknown name; nullptr for "none".
const MatchMethod* find_match_method(const std::string& name);

struct LayerPair {
  std::string teacher, student;  // values
};

// The layers that are matched. `wanted`: NAME of both networks or STUDENT=TEACHER; empty: as the method has it, the
// last spatial value, or the last of every extent that both networks have, in the teacher with its batch norms folded.
// Error{shape} when there is none.
std::vector<LayerPair> matched_layers(const Graph& teacher, const Graph& student, const MatchMethod& method,
                                      const std::vector<std::string>& wanted);

}  // namespace pare
