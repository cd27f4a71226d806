#include "pare/data/loader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "pare/data/batch_memory.h"
#include "pare/error.h"

namespace pare {

namespace {

std::vector<uint8_t> mean_bytes(const Dataset& dataset) {
  std::vector<uint8_t> bytes;
  for (const double mean : dataset.mean)
    bytes.push_back(static_cast<uint8_t>(std::clamp(std::lround(mean * 255), 0L, 255L)));
  return bytes;
}

}  // namespace

struct Loader::State {
  State(Dataset data, LoaderOptions wanted) : dataset(std::move(data)), options(std::move(wanted)) {
    check_dataset(dataset);
    if (options.batch < 1) throw Error(ErrorKind::usage, "batch", "{} is not positive", options.batch);
    if (options.parts < 1 || options.part < 0 || options.part >= options.parts)
      throw Error(ErrorKind::usage, "part", "there is no part {} of {}", options.part, options.parts);
    if (options.prefetch < 1) throw Error(ErrorKind::usage, "prefetch", "{} is not positive", options.prefetch);
    if (!holds_bytes()) check_numbers();
    if (options.threads < 0) throw Error(ErrorKind::usage, "threads", "{} is negative", options.threads);
    const int64_t size = dataset.size();
    batches = options.drop_last ? size / options.batch : (size + options.batch - 1) / options.batch;
    if (batches == 0)
      throw Error(ErrorKind::usage, "batch", "{} images do not fill one batch of {}", size, options.batch);
    fill = holds_bytes() ? mean_bytes(dataset) : std::vector<uint8_t>(static_cast<size_t>(dataset.channels()), 0);
    memory = std::make_shared<BatchMemory>(std::min(options.batch, size) * (dataset.images.numel() / size));
    slots.resize(static_cast<size_t>(options.prefetch));
  }

  bool holds_bytes() const { return dataset.images.scalar_type() == at::kByte; }

  // What images that are numbers already, as a network sees them, cannot have done to them.
  void check_numbers() const {
    if (options.augment.resized_crop)
      throw Error(ErrorKind::usage, OptionName{"augment"},
                  "{} are numbers, not pictures: flip, crop and cutout can be done to them, resized-crop cannot",
                  dataset.name);
    if (options.augment.any() && dataset.height() * dataset.width() == 1)
      throw Error(ErrorKind::usage, OptionName{"augment"}, "{} have no height and width", dataset.name);
    if (options.transform) throw Error(ErrorKind::usage, "transform", "{} are numbers, not bytes", dataset.name);
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake_workers.notify_all();
    for (auto& worker : workers) worker.join();
  }

  // Everything below `slots` in this struct is guarded by `mutex`.
  struct Slot {
    int64_t ticket = -1;  // generation of the batch in it
    Batch batch;
    std::exception_ptr failure;
  };

  using Order = std::shared_ptr<const std::vector<int64_t>>;

  void start_workers() {
    for (int i = 0; i < options.threads; ++i) workers.emplace_back([this] { work(); });
  }

  // Begins at `to`; what was made for another position is forgotten.
  void open(LoaderPosition to) {
    Order fresh;
    if (options.shuffle) {
      Random random(mix_seed({options.seed, static_cast<uint64_t>(to.epoch)}));
      fresh = std::make_shared<std::vector<int64_t>>(random_permutation(dataset.size(), random));
    }
    const std::lock_guard lock(mutex);
    position = to;
    order = std::move(fresh);
    ++generation;
    next_batch = to.batch;
    for (auto& slot : slots) slot = {};
    wake_workers.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      wake_workers.wait(
          lock, [&] { return stop || (next_batch < batches && next_batch < position.batch + options.prefetch); });
      if (stop) return;
      const int64_t index = next_batch++, epoch = position.epoch, made_for = generation;
      const Order batch_order = order;
      lock.unlock();
      Slot made{.ticket = index};
      try {
        made.batch = make(epoch, index, batch_order);
      } catch (...) {
        made.failure = std::current_exception();
      }
      lock.lock();
      if (made_for != generation) continue;
      slots[static_cast<size_t>(index % options.prefetch)] = std::move(made);
      wake_consumer.notify_one();
    }
  }

  Batch make(int64_t epoch, int64_t index, const Order& batch_order) {
    const int64_t first = index * options.batch, whole = std::min(options.batch, dataset.size() - first);
    const bool shared = whole >= options.parts;
    const int64_t skipped = shared ? whole * options.part / options.parts : 0;
    const int64_t begin = first + skipped;
    const int64_t count = shared ? whole * (options.part + 1) / options.parts - skipped : whole;
    const int64_t image = dataset.images.numel() / dataset.size();
    const at::IntArrayRef sizes = dataset.images.sizes();
    auto chosen = at::empty({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i)
      chosen.data_ptr<int64_t>()[i] = batch_order ? (*batch_order)[static_cast<size_t>(begin + i)] : begin + i;
    Batch batch{.labels = dataset.labels.index_select(0, chosen), .index = index, .whole = whole};
    batch.total = dataset.size();
    if (!options.augment.any() && !options.transform) batch.samples = chosen;
    batch.share = static_cast<double>(count) / static_cast<double>(shared ? whole : whole * options.parts);
    if (dataset.multi_label()) batch.labels = batch.labels.to(at::kFloat);
    Random random(mix_seed({options.seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(index), 1}));
    if (!holds_bytes()) {
      batch.images = dataset.images.index_select(0, chosen);
      if (options.augment.any())
        batch.images = augmented_part({first, whole, skipped, count}, batch.images, batch_order, random);
      return batch;
    }
    auto bytes = at::empty({count, sizes[1], sizes[2], sizes[3]}, at::kByte);
    const auto* from = dataset.images.data_ptr<uint8_t>();
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(bytes.data_ptr<uint8_t>() + i * image, from + chosen.data_ptr<int64_t>()[i] * image,
                  static_cast<size_t>(image));
    if (options.augment.any()) bytes = augmented_part({first, whole, skipped, count}, bytes, batch_order, random);
    if (options.transform) bytes = transformed(bytes, random);
    batch.images = memory->take(bytes.sizes());
    normalize_bytes(bytes, dataset.mean, dataset.std, batch.images);
    return batch;
  }

  // Which images of an epoch a batch holds, and which of them this part.
  struct BatchRange {
    int64_t first, whole, skipped, count;
  };

  // Drawn for the whole batch, so that every part gets its own.
  at::Tensor augmented_part(const BatchRange& range, const at::Tensor& bytes, const Order& batch_order,
                            Random& random) const {
    const auto at = [&](int64_t i) {
      return static_cast<size_t>(batch_order ? (*batch_order)[static_cast<size_t>(range.first + i)] : range.first + i);
    };
    AugmentOptions augment = options.augment;
    const bool full = augment.resized_crop && !dataset.files.empty();
    std::vector<ImageExtents> extents;
    for (int64_t i = 0; full && i < range.whole; ++i) extents.push_back(dataset.files[at(i)].extents);
    const auto all = draw_augmentations(augment, range.whole, bytes.size(2), bytes.size(3), random, extents);
    const std::vector<ImageAugmentation> drawn(all.begin() + range.skipped, all.begin() + range.skipped + range.count);
    if (!full) return augmented(bytes, augment, drawn, fill);
    std::vector<const PictureFile*> files;
    for (int64_t i = 0; i < range.count; ++i) files.push_back(&dataset.files[at(range.skipped + i)]);
    augment.resized_crop = false;
    return augmented(resized_crop(files, drawn, {bytes.size(1), bytes.size(2), bytes.size(3)}), augment, drawn, fill);
  }

  at::Tensor transformed(const at::Tensor& bytes, Random& random) {
    at::Tensor out = options.transform(bytes, random).contiguous();
    if (out.sizes() != bytes.sizes() || out.scalar_type() != at::kByte)
      throw Error(ErrorKind::shape, "transform", "made {} {} of uint8 {}", c10::toString(out.scalar_type()),
                  fmt::join(out.sizes(), "x"), fmt::join(bytes.sizes(), "x"));
    return out;
  }

  Batch take() {
    if (options.threads == 0) {
      Batch batch = make(position.epoch, position.batch, order);
      ++position.batch;
      return batch;
    }
    std::unique_lock lock(mutex);
    auto& slot = slots[static_cast<size_t>(position.batch % options.prefetch)];
    wake_consumer.wait(lock, [&] { return slot.ticket == position.batch; });
    if (slot.failure) std::rethrow_exception(slot.failure);
    Batch batch = std::move(slot.batch);
    slot = {};
    ++position.batch;
    lock.unlock();
    wake_workers.notify_one();
    return batch;
  }

  Dataset dataset;
  LoaderOptions options;
  int64_t batches = 0;
  std::vector<uint8_t> fill;
  std::shared_ptr<BatchMemory> memory;

  std::mutex mutex;
  std::condition_variable wake_workers, wake_consumer;
  std::vector<Slot> slots;  // a ring: batch i is in slot i % prefetch
  LoaderPosition position;  // of the consumer; written by the consumer only
  Order order;              // null: as stored
  int64_t generation = 0;   // how often open() was called
  int64_t next_batch = 0;   // that a worker will begin
  bool stop = false;
  bool at_end = false;  // the consumer was told of the epoch's end and the next has not begun
  std::vector<std::thread> workers;
};

Loader::Loader(Dataset dataset, LoaderOptions options, LoaderPosition start)
    : state_(std::make_unique<State>(std::move(dataset), std::move(options))) {
  seek(start);
  state_->start_workers();
}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

std::optional<Batch> Loader::next() {
  auto& state = *state_;
  if (state.at_end) {
    state.at_end = false;
    state.open({state.position.epoch, 0});
  }
  if (state.position.batch < state.batches) return state.take();
  // Workers see no batch to begin until the next epoch is opened, so this needs no more than the lock.
  const std::lock_guard lock(state.mutex);
  state.at_end = true;
  state.next_batch = state.batches;
  state.position = {state.position.epoch + 1, 0};
  return std::nullopt;
}

LoaderPosition Loader::position() const { return state_->position; }

void Loader::seek(LoaderPosition position) {
  if (position.epoch < 0 || position.batch < 0 || position.batch > state_->batches)
    throw Error(ErrorKind::usage, "position", "epoch {} batch {} is not in epochs of {} batches", position.epoch,
                position.batch, state_->batches);
  state_->at_end = false;
  state_->open(position);
}

int64_t Loader::batches() const { return state_->batches; }
const Dataset& Loader::dataset() const { return state_->dataset; }

}  // namespace pare
