// Where inputs come from: a fixed number of samples in a fixed order, read a piece at a time, so that what runs over
// them needs memory for a piece only. With labels or without. A method that looks at each sample once takes a stream
// as well.
//
//   pare::Samples mine{.size = 50000, .inputs = [&](int64_t begin, int64_t end) { return read_images(begin, end); }};
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace pare {

struct Samples {
  int64_t size = 0;
  // Samples [begin, end), one tensor for each input of the graph. May be called from several threads at once.
  std::function<std::vector<at::Tensor>(int64_t begin, int64_t end)> inputs;
  // What they are, in the same order: int64 [n] of classes, or uint8 [n, classes] of several labels; empty without
  // labels.
  std::function<at::Tensor(int64_t begin, int64_t end)> labels;

  bool labelled() const { return static_cast<bool>(labels); }
};

// Tensors in memory, one for each input, samples along their first axis.
Samples samples_of(std::vector<at::Tensor> inputs, at::Tensor labels = {});

// Some samples, as a stream gives them: one tensor for each input, and labels as above or none.
struct SampleBatch {
  std::vector<at::Tensor> inputs;
  at::Tensor labels;
};
// The next batch of a stream that is read once, of any size; nothing at its end. Called from one thread.
using SampleStream = std::function<std::optional<SampleBatch>()>;

// What a stream gives, kept in memory: all of it, or the first `limit` samples.
Samples collect(const SampleStream& stream, int64_t limit = 0);

// Samples [begin, end) of others.
Samples part_of(const Samples& samples, int64_t begin, int64_t end);

// Each sample, followed by its mirror image, which is as likely. Every input of four axes is turned.
Samples with_mirrored(const Samples& samples);

}  // namespace pare
