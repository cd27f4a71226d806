// One model run on what its file declares: computed in single precision where that is half, and given back in its
// types.
#pragma once

#include <span>
#include <string>
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

// A tensor as the input that a model declares: of its type, where no number changes by that, and of its extents (the
// first may be another: it is the batch). Error{shape} names `where` the tensor comes from and says what was expected.
at::Tensor as_declared(const ValueInfo& input, const at::Tensor& tensor, const std::string& where);

}  // namespace pare
