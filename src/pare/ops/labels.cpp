#include "pare/ops/labels.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/core/memory.h"

namespace pare {

namespace {

// Values whose ids vary over many places name the same pairs again and again, one soon after the other.
void remember_link(std::vector<ChannelLink>& links, const ChannelLink& link) {
  if (link.a == link.b || link.a == kUnlabelled || link.b == kUnlabelled) return;
  const auto recent = links.end() - std::min<int64_t>(64, static_cast<int64_t>(links.size()));
  if (std::find(recent, links.end(), link) == links.end()) links.push_back(link);
}

constexpr int64_t kMostChannels = 1 << 22;  // of a graph
constexpr int64_t kLongestAxis = 1 << 24;   // that ids are listed along

void refuse_beyond(int64_t most, int64_t held, int64_t count) {
  constexpr uint64_t each = sizeof(int64_t);
  if (count > most - held)
    throw OutOfMemory(each * static_cast<uint64_t>(count), each * static_cast<uint64_t>(held),
                      each * static_cast<uint64_t>(most));
}

}  // namespace

int64_t ChannelSets::make(int64_t count, size_t origin) {
  refuse_beyond(kMostChannels, size(), count);
  const int64_t first = size();
  for (int64_t i = 0; i < count; ++i) {
    parent_.push_back(first + i);
    origin_.push_back(origin);
    bond_.emplace_back();
  }
  return first;
}

int64_t ChannelSets::find(int64_t id) const {
  if (id == kUnlabelled) return id;
  while (parent_[static_cast<size_t>(id)] != id) {
    auto& up = parent_[static_cast<size_t>(id)];
    up = parent_[static_cast<size_t>(up)];
    id = up;
  }
  return id;
}

bool ChannelSets::unite(int64_t a, int64_t b, const std::string& reason_if_unlabelled) {
  if (for_exchange()) remember_link(links_, {node_, a, b});
  a = find(a);
  b = find(b);
  if (a == b) return false;
  if (a == kUnlabelled || b == kUnlabelled) return freeze(std::max(a, b), reason_if_unlabelled);
  if (b < a) std::swap(a, b);  // the oldest id represents the set
  parent_[static_cast<size_t>(b)] = a;
  const Bond bond = bond_[static_cast<size_t>(b)];
  if (!bond.reason.empty()) bind(a, bond.reason, bond.fixed);
  return true;
}

// The first reason stays, but that of what may not move goes before that of what may.
bool ChannelSets::bind(int64_t id, const std::string& reason, bool fixed) {
  id = find(id);
  if (id == kUnlabelled) return false;
  Bond& bond = bond_[static_cast<size_t>(id)];
  if (!bond.reason.empty() && (bond.fixed || !fixed)) return false;
  bond = {reason, fixed};
  return true;
}

bool ChannelSets::freeze(int64_t id, const std::string& reason) { return bind(id, reason, true); }

bool ChannelSets::keep(int64_t id, const std::string& reason) { return bind(id, reason, !for_exchange()); }

void ChannelSets::block(std::vector<int64_t> ids) { blocks_.push_back({node_, std::move(ids)}); }

bool ChannelSets::frozen(int64_t id) const { return id == kUnlabelled || !reason(id).empty(); }

bool ChannelSets::fixed(int64_t id) const { return id == kUnlabelled || bond_[static_cast<size_t>(find(id))].fixed; }

const std::string& ChannelSets::reason(int64_t id) const {
  static const std::string none;
  return id == kUnlabelled ? none : bond_[static_cast<size_t>(find(id))].reason;
}

at::Tensor compress_ids(const at::Tensor& ids) {
  at::Tensor result = ids;
  for (int64_t axis = 0; axis < ids.dim(); ++axis) {
    if (result.size(axis) <= 1) continue;
    const auto first = result.narrow(axis, 0, 1);
    if (result.stride(axis) == 0 || result.eq(first).all().item<bool>()) result = first;
  }
  return result.contiguous();
}

bool LabelContext::unlabelled(size_t i) const {
  return !input_ids_[i].defined() || input_ids_[i].eq(kUnlabelled).all().item<bool>();
}

at::Tensor LabelContext::expanded(size_t i) const {
  if (!ids(i).defined()) return at::full({}, kUnlabelled, at::kLong).expand(inputs[i].dims);
  return ids(i).expand(inputs[i].dims);
}

std::vector<int64_t> LabelContext::along(size_t i, int64_t axis) { return along(ids(i), inputs[i].dims, axis); }

std::vector<int64_t> LabelContext::along(const at::Tensor& ids, std::span<const int64_t> dims, int64_t axis) {
  const int64_t extent = dims[static_cast<size_t>(axis)];
  refuse_beyond(kLongestAxis, 0, extent);
  if (!ids.defined()) return std::vector<int64_t>(static_cast<size_t>(extent), kUnlabelled);
  // Rows: positions along the axis. Everything in a row must be one channel.
  at::Tensor rows = ids.movedim(axis, 0).reshape({ids.size(axis), -1});
  const at::Tensor dense = rows.contiguous();
  const auto* data = dense.data_ptr<int64_t>();
  const int64_t length = rows.size(1);
  for (int64_t r = 0; r < rows.size(0); ++r)
    for (int64_t k = 1; k < length; ++k)
      sets_.unite(data[r * length], data[r * length + k], "it is tied to a part that is not a channel");
  const at::Tensor column = rows.select(1, 0).expand({extent}).contiguous();
  if (rows.size(0) == 1 && extent > 1) {  // one channel spread over the whole axis
    freeze(column, "one channel covers a whole axis");
    return std::vector<int64_t>(static_cast<size_t>(extent), kUnlabelled);
  }
  return {column.data_ptr<int64_t>(), column.data_ptr<int64_t>() + extent};
}

std::vector<int64_t> LabelContext::make(int64_t count) {
  const int64_t first = sets_.make(count, index_);
  std::vector<int64_t> ids(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) ids[static_cast<size_t>(i)] = first + i;
  return ids;
}

void LabelContext::set(size_t out, const std::vector<int64_t>& ids, int64_t axis) {
  if (out >= outputs.size()) return;
  Shape dims(outputs[out].dims.size(), 1);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(ids.size());
  out_ids[out] = at::tensor(ids, at::kLong).reshape(dims);
}

void LabelContext::set(size_t out, const at::Tensor& ids) {
  if (out < outputs.size()) out_ids[out] = compress_ids(ids);
}

void LabelContext::slot(size_t input, int64_t axis, const std::vector<int64_t>& ids, SlotRole role, int64_t parts) {
  const Shape& dims = inputs[input].dims;
  if (axis < 0 || axis >= std::ssize(dims) || parts * dims[static_cast<size_t>(axis)] != std::ssize(ids))
    throw Error(ErrorKind::shape, describe(node), "input {} is {}, which has no place for {} channels along axis {}",
                input, to_string(dims), ids.size(), axis);
  slots_.push_back({node.inputs[input], axis, ids, role, index_, input, parts, {}});
}

void LabelContext::unite(std::span<const int64_t> a, std::span<const int64_t> b, const std::string& reason) {
  for (size_t i = 0; i < a.size(); ++i) sets_.unite(a[i], b[i], reason);
}

void LabelContext::unite(const at::Tensor& a, const at::Tensor& b, const std::string& reason) {
  const auto both = at::broadcast_tensors({a, b});
  const at::Tensor x = both[0].contiguous();
  const at::Tensor y = both[1].contiguous();
  unite({x.data_ptr<int64_t>(), static_cast<size_t>(x.numel())},
        {y.data_ptr<int64_t>(), static_cast<size_t>(y.numel())}, reason);
}

void LabelContext::freeze(std::span<const int64_t> ids, const std::string& reason) {
  for (const int64_t id : ids) sets_.freeze(id, reason);
}

void LabelContext::freeze(const at::Tensor& ids, const std::string& reason) {
  if (!ids.defined()) return;
  const at::Tensor flat = ids.contiguous();
  freeze(std::span(flat.data_ptr<int64_t>(), static_cast<size_t>(flat.numel())), reason);
}

void LabelContext::keep(const at::Tensor& ids, const std::string& reason) {
  if (!ids.defined()) return;
  const at::Tensor flat = ids.contiguous();
  for (int64_t i = 0; i < flat.numel(); ++i) sets_.keep(flat.data_ptr<int64_t>()[i], reason);
}

void LabelContext::freeze_inputs(const std::string& reason) {
  for (const auto& ids : input_ids_) freeze(ids, reason);
}

std::vector<int64_t> RewriteContext::kept(const at::Tensor& keep, std::span<const int64_t> dims, int64_t axis) {
  const int64_t extent = dims[static_cast<size_t>(axis)];
  std::vector<int64_t> result;
  if (!keep.defined() || keep.size(axis) == 1) {
    for (int64_t i = 0; i < extent; ++i) result.push_back(i);
    return result;
  }
  const at::Tensor any = keep.movedim(axis, 0).reshape({extent, -1}).any(1).contiguous();
  for (int64_t i = 0; i < extent; ++i)
    if (any.data_ptr<bool>()[i]) result.push_back(i);
  return result;
}

void RewriteContext::replace(size_t input, const at::Tensor& value) {
  if (node.inputs.size() <= input) node.inputs.resize(input + 1);
  const std::string name = fresh_name(graph, fmt::format("{}_{}_pruned", node.name, input));
  graph.tensors[name] = value;
  node.inputs[input] = name;
}

}  // namespace pare
