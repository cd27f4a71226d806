// Where inputs come from: a fixed number of samples in a fixed order, with or without labels, read piece by piece, so
// that whatever runs over them needs memory for a few pieces only. Methods that look at each sample once also take a
// stream.
//
//   pare::Samples mine{.size = 50000, .inputs = [&](int64_t begin, int64_t end) { return read_images(begin, end); }};
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace pare {

// What labels say of a sample: one class, which of the classes are there, the class of every pixel, or boxes.
enum class LabelKind { one_class, classes, masks, boxes };
// Error{shape} for a tensor that is none of them.
LabelKind label_kind(const at::Tensor& labels);

// The six numbers of a labelled box, in pixels of the picture as a network sees it. A class of −1 fills a row up, and a
// crowd (1, else 0) is many objects in one box, which no detection has to find.
enum class BoxField { left, top, right, bottom, label, crowd };

struct Samples {
  int64_t size = 0;
  // Samples [begin, end), one tensor for each input of the graph. May be called from several threads at once.
  std::function<std::vector<at::Tensor>(int64_t begin, int64_t end)> inputs;
  // Their labels, in the same order: classes as int64 [n]; several each as uint8 [n, classes]; a class for each pixel
  // as uint8 [n, height, width], 255 = void; or boxes (BoxField) as float32 [n, boxes, 6]. Empty where there are none.
  std::function<at::Tensor(int64_t begin, int64_t end)> labels;

  bool labelled() const { return static_cast<bool>(labels); }
};

// Tensors in memory, one for each input, samples along their first axis.
Samples samples_of(std::vector<at::Tensor> inputs, at::Tensor labels = {});

// Some samples of a stream: one tensor for each input, and labels as above or none.
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

// Each sample followed by its mirror image: every input of four axes is flipped left to right.
Samples with_mirrored(const Samples& samples);

}  // namespace pare
