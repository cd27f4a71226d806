// An observer watches a method at work: it hears of progress and of whatever is worth knowing, may cancel the method,
// and says which processes share the samples. One object instead of callbacks in every struct of options.
//
//   struct Watch : pare::Observer {
//     void progress(std::string_view what, int64_t done, int64_t all) override { … }
//   };
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "pare/error.h"

namespace pare {

// Processes that work together, numbered by rank. Every rank calls the same functions in the same order. A
// rank that is lost makes the calls of all others fail with an Error that names it. A group is used by one thread at a
// time.
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

// The group of a process that works by itself.
ProcessGroup& alone();
// The group of the processes that torchrun, mpirun, srun or `pare launch` started together, as the environment says
// (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); alone where it says nothing.
std::unique_ptr<ProcessGroup> join_ranks();

// The base class ignores everything. A method may call it from any thread, but only from one at a time.
class Observer {
 public:
  virtual ~Observer() = default;
  // `all` is 0 where nobody knows how much there will be: over a stream.
  virtual void progress(std::string_view /*what*/, int64_t /*done*/, int64_t /*all*/) {}
  virtual void note(const std::string& /*text*/) {}
  virtual bool cancelled() { return false; }
  virtual ProcessGroup& ranks() { return alone(); }

  // Reports progress; throws Error{interrupted} when cancelled.
  void step(std::string_view what, int64_t done, int64_t all) {
    if (cancelled())
      throw Error(ErrorKind::interrupted, std::string(what), "stopped after {} of {}", done,
                  all > 0 ? std::to_string(all) : "an unknown number");
    progress(what, done, all);
  }
};

// An observer that watches nothing.
Observer& unobserved();

}  // namespace pare
