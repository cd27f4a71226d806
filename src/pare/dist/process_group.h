// Processes that work on one thing together, numbered by rank. Every rank calls the same functions in the same order.
//
//   std::unique_ptr<ProcessGroup> ranks = join(place_from_environment());
//   ranks->sum(tensor);   // in place, over all ranks
//
// A rank that is lost makes the calls of all others fail with an Error that names it. A group is used by one thread at
// a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "pare/dist/place.h"

namespace pare {

class ProcessGroup {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };

  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool main() const { return rank() == 0; }  // the one that writes and prints
  bool alone() const { return size() == 1; }

  // In place; the tensor is dense, and left alone until wait() returns.
  virtual std::unique_ptr<Pending> begin_sum(const at::Tensor& tensor) = 0;
  virtual void broadcast(const at::Tensor& tensor) = 0;  // of rank 0, in place
  void sum(const at::Tensor& tensor) { begin_sum(tensor)->wait(); }
  void barrier();
  double broadcast(double value);

  // A new tensor, with its gradient: the sum over the ranks of theirs.
  at::Tensor differentiable_sum(const at::Tensor& tensor);

  // Tells the others why this rank ends early.
  virtual void leave(const std::string& reason) = 0;
};

// Size 1: a group that does nothing. More: by Gloo.
std::unique_ptr<ProcessGroup> join(const RankPlace& place);
std::unique_ptr<ProcessGroup> join_by_gloo(const RankPlace& place);
// The group of a process that works by itself.
ProcessGroup& alone();

}  // namespace pare
