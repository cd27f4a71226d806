// What models give for samples, a few at a time and in their order, so that metrics of large outputs need memory for a
// few pieces only and do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "pare/data/in_order.h"
#include "pare/observer.h"
#include "pare/run.h"
#include "pare/samples.h"

namespace pare {

struct PieceOutputs {
  int64_t begin = 0, end = 0;                    // of the samples
  std::vector<std::vector<at::Tensor>> outputs;  // of each model
};

// As the model takes them: flat where its input has two axes, and in its type. Error{shape} for another number.
std::vector<at::Tensor> taken_by(const Graph& graph, const std::vector<at::Tensor>& inputs);

// As many samples as have the values of one picture of 224², at least one.
int64_t piece_of(const Samples& samples);

PieceOutputs outputs_of(const std::vector<Program>& programs, const Samples& samples, int64_t begin, int64_t end);

// collect(work(first piece)), collect(work(second)) …; `work` runs in several threads.
template <typename Result>
void over_pieces(const std::vector<Program>& programs, const Samples& samples, std::string_view what,
                 Observer& observer, const std::function<Result(const PieceOutputs&)>& work,
                 const std::function<void(Result)>& collect) {
  if (samples.size == 0) return;
  const int64_t piece = piece_of(samples);
  int64_t done = 0;
  in_order<Result>(
      static_cast<size_t>((samples.size + piece - 1) / piece),
      [&](size_t p) {
        const at::NoGradGuard no_grad;
        const int64_t begin = static_cast<int64_t>(p) * piece;
        return work(outputs_of(programs, samples, begin, std::min(begin + piece, samples.size)));
      },
      [&](Result result) {
        collect(std::move(result));
        done = std::min(done + piece, samples.size);
        observer.step(what, done, samples.size);
      });
}

}  // namespace pare
