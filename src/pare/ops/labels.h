// Channel labels: which slices of which tensors belong to the same channel.
//
// Every channel that a layer makes gets an id. A value carries a tensor of ids of its own rank, with extent 1 along the
// axes on which the ids do not vary: [1, C, 1, 1] for the output of a convolution. Operators propagate ids forward;
// pure data movement is executed on the ids themselves. Ids that must go together are united (union-find); ids that
// must stay are frozen with a reason. The id kUnlabelled marks a place that can never be removed.
//
// Channels are followed for one of three uses, as what may be removed and what may be exchanged are not the same:
//
//   removal    the groups of a grouped convolution stay equally wide and a head of attention goes as a whole, so that
//              their channels are united; what whole-axis statistics mix (LayerNormalization) has to stay
//   dimensions the same, but of attention not whole heads go: as many dimensions of every head do, those of queries
//   with
//              those of keys, those of values with what is read of them, and those that a rotation turns in pairs
//   exchange   any order of a stream under LayerNormalization is as good as another: its channels are *kept*, they may
//              move but not go. The channels of a group may move inside it, and the groups as wholes: *blocks*
//
// A graph in a small file can ask for more ids than any memory holds: then a rule throws OutOfMemory, and the analysis
// freezes what the node reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pare/ops/op.h"

namespace pare {

inline constexpr int64_t kUnlabelled = -1;

enum class ChannelUse { removal, dimensions, exchange };

// What an axis of a parameter does with the channels it is indexed by.
enum class SlotRole {
  producer,  // makes them: the output axis of a weight, its bias
  consumer,  // sums over them: the input axis of the next weight
  pass,      // scales or shifts each of them: batch norm, an added constant
};

// Along `axis`, the entries of the tensor belong to the channels `ids`.
struct Slot {
  std::string tensor;
  int64_t axis = 0;
  std::vector<int64_t> ids;
  SlotRole role = SlotRole::pass;
  size_t node = 0;   // index of the node that reads it so
  size_t input = 0;  // and as which of its inputs
  // More than one (exchange only): so many equal parts of axis 0 have lists of their own, one after the other in `ids`,
  // as the groups of a convolution have along the input axis of its weight.
  int64_t parts = 1;
  std::vector<int64_t> made;  // exchange: the ids before they were united
};

// Channels that move together: an exchange carries the blocks of one node into each other as wholes.
struct ChannelBlock {
  size_t node = 0;
  std::vector<int64_t> ids;  // kUnlabelled among them: the block stays where it is
};

// Two ids that a node united.
struct ChannelLink {
  size_t node = 0;
  int64_t a = 0, b = 0;
  auto operator<=>(const ChannelLink&) const = default;
};

// Sets of channel ids that live and die together (removal) or move together (exchange), and what is frozen.
class ChannelSets {
 public:
  explicit ChannelSets(ChannelUse use = ChannelUse::removal) : use_(use) {}

  // `count` new ids made by node `origin`, as a consecutive range; returns the first.
  int64_t make(int64_t count, size_t origin);
  int64_t find(int64_t id) const;  // the representative; kUnlabelled stays
  // All three say whether anything is different afterwards.
  bool unite(int64_t a, int64_t b, const std::string& reason_if_unlabelled);
  bool freeze(int64_t id, const std::string& reason);  // it may neither go nor move
  bool keep(int64_t id, const std::string& reason);    // it may move, but not go
  void block(std::vector<int64_t> ids);                // exchange: they move together
  void enter(size_t node) { node_ = node; }            // whose rule speaks from now on

  ChannelUse use() const { return use_; }
  bool for_exchange() const { return use_ == ChannelUse::exchange; }
  bool frozen(int64_t id) const;                // it may not go
  bool fixed(int64_t id) const;                 // it may not move either
  const std::string& reason(int64_t id) const;  // empty when not frozen
  size_t origin(int64_t id) const { return origin_[static_cast<size_t>(id)]; }
  int64_t size() const { return static_cast<int64_t>(parent_.size()); }
  const std::vector<ChannelBlock>& blocks() const { return blocks_; }
  const std::vector<ChannelLink>& links() const { return links_; }  // exchange only

 private:
  struct Bond {
    std::string reason;  // empty: free
    bool fixed = false;
  };
  bool bind(int64_t id, const std::string& reason, bool fixed);

  ChannelUse use_;
  size_t node_ = 0;
  mutable std::vector<int64_t> parent_;
  std::vector<size_t> origin_;
  std::vector<Bond> bond_;  // of representatives
  std::vector<ChannelBlock> blocks_;
  std::vector<ChannelLink> links_;
};

// Extent 1 along every axis on which the entries do not vary.
at::Tensor compress_ids(const at::Tensor& ids);

// The view an operator's label rule has of the analysis.
class LabelContext {
 public:
  LabelContext(const Node& node, size_t index, std::span<const TensorType> inputs, std::span<const TensorType> outputs,
               std::span<const at::Tensor> input_ids, std::span<const at::Tensor> values,
               std::span<const bool> parameter, ChannelSets& sets, std::vector<Slot>& slots)
      : node(node),
        inputs(inputs),
        outputs(outputs),
        out_ids(outputs.size()),
        index_(index),
        input_ids_(input_ids),
        values_(values),
        parameter_(parameter),
        sets_(sets),
        slots_(slots) {}

  const Node& node;
  std::span<const TensorType> inputs;  // absent ones have no dims
  std::span<const TensorType> outputs;
  std::vector<at::Tensor> out_ids;  // what the rule fills in; undefined = no labels

  bool for_exchange() const { return sets_.for_exchange(); }
  bool by_dimension() const { return sets_.use() == ChannelUse::dimensions; }
  bool has(size_t i) const { return node.has_input(i); }
  bool is_parameter(size_t i) const { return i < parameter_.size() && parameter_[i]; }
  const at::Tensor& value(size_t i) const { return values_[i]; }  // defined where the content is known
  // Ids of input i, undefined when it has none.
  const at::Tensor& ids(size_t i) const { return input_ids_[i]; }
  // Are all ids of input i kUnlabelled?
  bool unlabelled(size_t i) const;
  // Ids of input i with its full extents (a view).
  at::Tensor expanded(size_t i) const;
  // Ids of input i along one axis, after uniting whatever varies along the others.
  std::vector<int64_t> along(size_t i, int64_t axis);
  std::vector<int64_t> along(const at::Tensor& ids, std::span<const int64_t> dims, int64_t axis);

  // New ids for `count` channels of output axis `axis`.
  std::vector<int64_t> make(int64_t count);
  // Sets the ids of output `out`: a list along one axis, or a tensor (compressed here).
  void set(size_t out, const std::vector<int64_t>& ids, int64_t axis);
  void set(size_t out, const at::Tensor& ids);
  void slot(size_t input, int64_t axis, const std::vector<int64_t>& ids, SlotRole role, int64_t parts = 1);
  void unite(std::span<const int64_t> a, std::span<const int64_t> b, const std::string& reason);
  void unite(const at::Tensor& a, const at::Tensor& b, const std::string& reason);  // element by element, broadcast
  void freeze(const at::Tensor& ids, const std::string& reason);
  void freeze(std::span<const int64_t> ids, const std::string& reason);
  // Like freeze, but in an exchange they may still move.
  void keep(const at::Tensor& ids, const std::string& reason);
  // Exchange: these ids move together.
  void block(std::vector<int64_t> ids) { sets_.block(std::move(ids)); }
  // Freezes the ids of every input: the rule of an operator that has none.
  void freeze_inputs(const std::string& reason);

 private:
  size_t index_;
  std::span<const at::Tensor> input_ids_;
  std::span<const at::Tensor> values_;
  std::span<const bool> parameter_;
  ChannelSets& sets_;
  std::vector<Slot>& slots_;
};

// After a removal: the node may change its attributes, and its constant inputs by `replace`.
class RewriteContext {
 public:
  Node& node;
  Graph& graph;
  std::span<const TensorType> inputs;  // before the removal
  std::span<const TensorType> outputs;
  std::span<const at::Tensor> input_keep;  // boolean, shaped like the ids (1 or full extents); undefined = all kept
  std::span<const at::Tensor> output_keep;

  // How many entries along `axis` are kept, and which.
  static std::vector<int64_t> kept(const at::Tensor& keep, std::span<const int64_t> dims, int64_t axis);
  std::vector<int64_t> kept_in(size_t i, int64_t axis) const { return kept(input_keep[i], inputs[i].dims, axis); }
  std::vector<int64_t> kept_out(size_t i, int64_t axis) const { return kept(output_keep[i], outputs[i].dims, axis); }
  // Gives the node its own constant for input i, which may have been absent (other readers of the old one keep it).
  void replace(size_t input, const at::Tensor& value);
};

}  // namespace pare
