#include "pare/dist/gradient_buckets.h"

#include <ATen/ATen.h>

#include <numeric>

#include "pare/error.h"

namespace pare {

std::vector<std::vector<size_t>> split_into_buckets(const std::vector<int64_t>& bytes, int64_t limit) {
  std::vector<std::vector<size_t>> buckets;
  int64_t filled = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (buckets.empty() || filled + bytes[i] > limit) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(i);
    filled += bytes[i];
  }
  return buckets;
}

struct GradientBuckets::State {
  struct Bucket {
    std::vector<size_t> members;
    at::Tensor flat;
    size_t missing = 0;
    std::unique_ptr<ProcessGroup::Pending> pending;
  };
  struct Member {
    at::Tensor tensor;  // holds no gradient of its own accord
    at::Tensor slot;    // of the bucket, laid out like the tensor
    size_t bucket = 0;
    bool ready = false;
  };

  State(ProcessGroup& ranks, int64_t bucket_bytes) : ranks(ranks), bucket_bytes(bucket_bytes) {}

  void arrange(const std::vector<size_t>& order) {
    buckets.clear();
    // One data type a bucket.
    std::vector<at::ScalarType> types;
    for (const auto& member : members)
      if (std::find(types.begin(), types.end(), member.tensor.scalar_type()) == types.end())
        types.push_back(member.tensor.scalar_type());
    for (const auto type : types) {
      std::vector<size_t> chosen;
      std::vector<int64_t> bytes;
      for (const size_t i : order)
        if (members[i].tensor.scalar_type() == type) {
          chosen.push_back(i);
          bytes.push_back(static_cast<int64_t>(members[i].tensor.nbytes()));
        }
      for (const auto& part : split_into_buckets(bytes, bucket_bytes)) add_bucket(part, chosen, type);
    }
  }

  void add_bucket(const std::vector<size_t>& part, const std::vector<size_t>& chosen, at::ScalarType type) {
    Bucket bucket;
    int64_t count = 0;
    for (const size_t p : part) count += members[chosen[p]].tensor.numel();
    bucket.flat = at::zeros({count}, at::TensorOptions(type));
    int64_t offset = 0;
    for (const size_t p : part) {
      Member& member = members[chosen[p]];
      member.slot = bucket.flat.as_strided(member.tensor.sizes(), member.tensor.strides(), offset);
      member.bucket = buckets.size();
      offset += member.tensor.numel();
      bucket.members.push_back(chosen[p]);
    }
    buckets.push_back(std::move(bucket));
  }

  void on_gradient(size_t i, const at::Tensor& gradient) {
    if (!active || i >= members.size() || members[i].ready) return;
    const at::NoGradGuard no_grad;
    Member& member = members[i];
    member.slot.copy_(gradient);
    member.ready = true;
    arrived.push_back(i);
    --buckets[member.bucket].missing;
    while (next < buckets.size() && buckets[next].missing == 0) send();
  }

  // In the order of the buckets, which is the same on every rank.
  void send() {
    buckets[next].pending = ranks.begin_sum(buckets[next].flat);
    ++next;
  }

  // From rank 0: the order in which gradients came, those that did not at the end.
  std::vector<size_t> agreed_order() {
    const auto count = static_cast<int64_t>(members.size());
    std::vector<int64_t> order(arrived.begin(), arrived.end());
    for (int64_t i = 0; i < count; ++i)
      if (!members[static_cast<size_t>(i)].ready) order.push_back(i);
    const at::Tensor tensor = at::tensor(order, at::kLong);
    ranks.broadcast(tensor);
    const auto* first = tensor.data_ptr<int64_t>();
    return {first, first + count};
  }

  ProcessGroup& ranks;
  const int64_t bucket_bytes;
  std::vector<Member> members;  // in the order of their names
  std::vector<Bucket> buckets;
  std::vector<size_t> arrived;
  size_t next = 0;  // bucket to send
  bool active = false;
  bool ordered = false;
};

GradientBuckets::GradientBuckets(ProcessGroup& ranks, int64_t bucket_bytes)
    : state_(std::make_shared<State>(ranks, bucket_bytes)) {}

GradientBuckets::~GradientBuckets() = default;

void GradientBuckets::begin(const TensorMap& tensors) {
  auto& state = *state_;
  bool same = state.members.size() == tensors.size();
  size_t i = 0;
  for (const auto& entry : tensors) {
    if (!same) break;
    same = state.members[i++].tensor.is_same(entry.second);
  }
  if (!same) {
    state_ = std::make_shared<State>(state.ranks, state.bucket_bytes);  // old hooks lose their state
    for (const auto& [name, tensor] : tensors) {
      if (!tensor.is_non_overlapping_and_dense())
        throw Error(ErrorKind::failed, name, "a trained tensor must lie densely in memory");
      state_->members.push_back({.tensor = tensor});
      tensor.register_hook([weak = std::weak_ptr(state_), at = state_->members.size() - 1](const at::Tensor& gradient) {
        if (const auto strong = weak.lock()) strong->on_gradient(at, gradient);
      });
    }
    std::vector<size_t> order(state_->members.size());
    std::iota(order.rbegin(), order.rend(), 0);
    state_->arrange(order);
  }
  auto& fresh = *state_;
  for (auto& bucket : fresh.buckets) {
    bucket.missing = bucket.members.size();
    bucket.pending.reset();
  }
  for (auto& member : fresh.members) member.ready = false;
  fresh.arrived.clear();
  fresh.next = 0;
  fresh.active = true;
}

void GradientBuckets::finish(TensorMap& tensors) {
  auto& state = *state_;
  const at::NoGradGuard no_grad;
  state.active = false;
  for (const auto& member : state.members)
    if (!member.ready) member.slot.zero_();
  while (state.next < state.buckets.size()) state.send();
  for (auto& bucket : state.buckets) bucket.pending->wait();
  size_t i = 0;
  for (auto& entry : tensors) {
    const auto& member = state.members[i++];
    if (member.ready) entry.second.mutable_grad() = member.slot;
  }
  if (state.ordered) return;
  state.arrange(state.agreed_order());
  state.ordered = true;
}

}  // namespace pare
