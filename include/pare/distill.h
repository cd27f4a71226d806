// Trains a student that learns from a teacher and looks where it looks: with the student's loss on the labels L, the
// teacher's soft targets KD and a matching penalty R,
//
//   (1 − α) L + α KD + β R
//
// α = 0.9 and T = 4 are the published values for students trained anew; pruned networks are fine-tuned with α = 0. The
// teacher runs in inference mode, the student in training mode; each step runs both once.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/samples.h"
#include "pare/train.h"

namespace pare {

// Matching: a penalty that makes a student look where its teacher looks. A method sees what both networks did with a
// batch.

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

  std::string name;
  double weight = 0;  // β unless another is asked for
  Layers layers = Layers::last;
  Gradients gradients = Gradients::none;  // what the teacher's are taken with respect to
  std::function<at::Tensor(const Matched&)> penalty;
};

// All of them, without "none", which matches nothing.
const std::deque<MatchMethod>& match_methods();
// Adds one, before anything is trained. Error{usage} for a name that is taken.
void add_match_method(MatchMethod method);

struct DistillationOptions {
  double alpha = 0.9;
  double temperature = 4;
  std::string match = "none";
  std::optional<double> match_weight;     // β; none: the method's own
  double drop = 0.3;                      // ρ of sswa
  std::vector<std::string> match_layers;  // NAME in both networks, or STUDENT=TEACHER; none: as the method has them

  void describe(OptionVisitor& options);
  void check() const;  // Error{usage}
  bool any() const { return alpha > 0 || match != "none"; }
};

struct DistillOptions {
  DistillationOptions distillation;
  TrainingOptions training;

  void describe(OptionVisitor& options);
};

// As train() does; what is trained is the student.
TrainingResult distill(const Graph& student, const Graph& teacher, const Samples& samples,
                       const DistillOptions& options, Observer& observer = unobserved());

}  // namespace pare
