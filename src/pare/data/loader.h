// Batches of a data set, normalised to float32, made ahead of time by background threads.
//
// Several loaders can divide every batch among themselves, each giving its part: all parts together are what one loader
// gives.
//
// What a batch holds depends only on (seed, epoch, batch index), never on the number of threads: each epoch's order is
// a Fisher–Yates shuffle seeded by (seed, epoch), each batch's augmentation by (seed, epoch, index). A position (epoch,
// batch) can therefore be stored and gone back to.
//
//   Loader loader(data, {.batch = 128, .shuffle = true, .seed = 1});
//   while (auto batch = loader.next()) train_on(batch->images, batch->labels);
//
// is one epoch; the next call of next() starts another.
//
// A Loader is used by one thread at a time. A batch stays valid for as long as it (or any tensor that shares its
// memory) is held; memory that nobody holds any more is used again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "pare/data/augment.h"
#include "pare/data/dataset.h"

namespace pare {

struct Batch {
  at::Tensor images;   // float32 [n, C, H, W]
  at::Tensor labels;   // int64 [n]; of multi-label data float32 [n, K], 1 = present
  int64_t index = 0;   // in its epoch
  int64_t whole = 0;   // images of all parts together
  double share = 1;    // of this part in a sum over all parts
  at::Tensor samples;  // int64 [n]: the images' places in the data; undefined where they are not as stored there
  int64_t total = 0;   // images of the data
};

struct LoaderPosition {
  int64_t epoch = 0;
  int64_t batch = 0;  // the next one to come
  bool operator==(const LoaderPosition&) const = default;
};

struct LoaderOptions {
  int64_t batch = 128;
  bool shuffle = false;
  bool drop_last = false;  // leave out the last batch of an epoch when it is smaller
  uint64_t seed = 0;
  int threads = 1;       // background threads; 0: batches are made inside next()
  int64_t prefetch = 4;  // batches made ahead, at most
  int64_t part = 0;      // of each batch; a batch of fewer images than `parts` is given whole to all
  int64_t parts = 1;
  AugmentOptions augment;
  // Called with the bytes of each batch, uint8 [n, C, H, W], after the augmentation and from the background threads at
  // the same time; returns bytes of the same shape, new or in place.
  std::function<at::Tensor(at::Tensor images, Random& random)> transform;
};

class Loader {
 public:
  Loader(Dataset dataset, LoaderOptions options, LoaderPosition start = {});
  ~Loader();  // stops the threads after the batch each is at
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // The next batch of this epoch, or nothing, once, at its end. An exception of a background thread is rethrown here in
  // place of its batch, and again by every later call until seek().
  std::optional<Batch> next();

  LoaderPosition position() const;     // of the batch that next() will give
  void seek(LoaderPosition position);  // batch may be batches(): the epoch's end
  int64_t batches() const;             // of an epoch
  const Dataset& dataset() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// float32 [N, C, H, W] of (byte / 255 - mean) / std, on the calling thread; `out` is contiguous and of the same shape.
void normalize_bytes(const at::Tensor& bytes, const std::vector<double>& mean, const std::vector<double>& std,
                     at::Tensor& out);

// Images [begin, end) of a data set, normalised, without a loader.
Batch make_batch(const Dataset& dataset, int64_t begin, int64_t end);

}  // namespace pare
