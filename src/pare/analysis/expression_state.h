// The work of channel_expressions(): ids and expressions as they are made, node by node.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pare/analysis/channel_expressions.h"

namespace pare {

using Ids = at::Tensor;  // of expressions, int64

inline constexpr int64_t kLargestValue = 1 << 22;  // entries that are looked at one by one

class ExpressionState {
 public:
  ExpressionState(const Graph& graph, const ChannelMap& map) : graph(graph), map(map) {
    result.list.emplace_back();  // kUnknown
  }

  const Graph& graph;
  const ChannelMap& map;
  ChannelExpressions result;

  // Unknown where an operand is.
  ExpressionId add(Expression expression);
  ExpressionId affine(size_t n, ExpressionId x, double scale, double shift);

  const TensorType* type(const std::string& value) const { return map.shapes.find(value); }
  // Ids of an operand, with its own rank; unknown where there are none.
  Ids ids(const std::string& value);
  // A function of every id.
  Ids applied(size_t n, const Ids& x, Law law, bool elementwise);
  // Ids that vary along axis 1 alone, as a list over all channels; nothing where they vary elsewhere.
  std::optional<std::vector<ExpressionId>> along_channels(const std::string& value) const;
  static Ids channel_ids(const std::vector<ExpressionId>& list, size_t rank);

  // Every id by `function`, each once.
  Ids mapped(const Ids& from, const std::function<ExpressionId(ExpressionId)>& function) const;

 private:
  Ids constants(const at::Tensor& tensor);
};

// What a node makes of its operands' ids; nothing where it has no rule.
//   combined    arithmetic, element by element, broadcast
//   windowed    pools, reductions, resizes, paddings, instance norms
//   multiplied  a product whose channels lie along an axis that it does not sum over: linear in each of them
std::vector<Ids> combined(ExpressionState& state, size_t node);
std::vector<Ids> windowed(ExpressionState& state, size_t node, Law law);
std::vector<Ids> multiplied(ExpressionState& state, size_t node);

}  // namespace pare
