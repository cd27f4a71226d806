// Optimisers: SGD with momentum (Nesterov's too), Adam and AdamW, with the arithmetic of torch::optim, each as one pass
// over the parameters. They write into the tensors they are given: training owns its copies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pare/core/options.h"
#include "pare/graph.h"
#include "pare/train.h"  // IWYU pragma: export

namespace pare {

// How one tensor differs from the rest.
struct ParameterSettings {
  double rate = 1;    // times the learning rate
  bool decay = true;  // takes part in the weight decay at all
  bool adam = false;  // by Adam, whatever the rest is trained by
};

class Optimizer {
 public:
  explicit Optimizer(OptimizerOptions options) : options_(std::move(options)) {}

  // One step over the tensors of `raw` that have a gradient, which is multiplied by `gradient_scale` first and then
  // forgotten. `settings` says how a tensor differs.
  void step(TensorMap& raw, double lr, double gradient_scale = 1,
            const std::function<ParameterSettings(const std::string&)>& settings = {});

  // The moments, "velocity/NAME" or "first/NAME" and "second/NAME", and "steps" (a scalar): what a checkpoint holds.
  TensorMap state() const { return state_; }
  void restore(const TensorMap& state);  // of tensors of its own
  // Forgets the moments of a tensor where the mask is false, so that nothing moves there until a gradient does.
  void forget(const std::string& name, const at::Tensor& mask);

 private:
  struct Step {
    double lr = 0;
    double scale = 1;
    double count = 0;  // this one included
  };
  void update(const std::string& name, const at::Tensor& w, const Step& step, const ParameterSettings& own);
  at::Tensor& moment(const std::string& kind, const std::string& name, const at::Tensor& like);

  OptimizerOptions options_;
  TensorMap state_;
};

// The moments of state() that belong to the tensor `name`, by their keys.
std::vector<std::string> moment_keys(const std::string& name);

// The Euclidean norm of all gradients together.
double gradient_norm(const TensorMap& raw);

}  // namespace pare
