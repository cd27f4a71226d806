// Data that moves: where the entries of a value's channels go when an operator only rearranges them.
//
// The operator is executed twice, on the places of the channels and on the positions inside a channel. A place of the
// result holds the entries of one place of the input in some pattern: all of them in order (−1), or an interned list of
// positions (one pixel of a flattened map, a cut, a transposition).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "pare/graph.h"
#include "pare/ops/op.h"

namespace pare {

// Lists of positions by number; equal ones have equal numbers.
class Patterns {
 public:
  int64_t intern(const std::vector<int64_t>& positions) {
    return numbers_.try_emplace(positions, static_cast<int64_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::vector<int64_t>, int64_t> numbers_;
};

struct MovedPlaces {
  at::Tensor places;              // int64, extent 1 where they do not vary: flat index into the input's ids
  std::vector<int64_t> patterns;  // of each of them; −1: all entries in order
};

bool moves_data(const Node& node);

// `ids` have extent 1 or that of `dims`; `others` are the node's inputs after the first. One result per output.
std::vector<MovedPlaces> move_places(const Node& node, std::vector<at::Tensor> others, const at::Tensor& ids,
                                     const Shape& dims, Patterns& patterns);

}  // namespace pare
