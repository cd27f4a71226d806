// One model run on what its file declares: computed in single precision where that is half, and given back in its
// types.
#pragma once

#include <span>
#include <vector>

#include "pare/graph.h"
#include "pare/run.h"

namespace pare {

class DeclaredRun {
 public:
  explicit DeclaredRun(const Graph& model);

  std::vector<at::Tensor> operator()(std::span<const at::Tensor> inputs) const;
  const Graph& graph() const { return program_.graph(); }

 private:
  Program program_;
  std::vector<ValueInfo> outputs_;
};

}  // namespace pare
