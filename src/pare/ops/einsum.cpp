// Einsum, and its channels by letters.
#include <ATen/ATen.h>

#include <map>
#include <set>

#include "pare/ops/common.h"
#include "pare/ops/subfamilies.h"

namespace pare {
namespace {
namespace einsum {

using Tensors = std::vector<at::Tensor>;
using at::Tensor;

Tensors evaluate(const EvalContext& context) {
  std::vector<Tensor> operands(context.inputs.begin(), context.inputs.end());
  std::string equation = context.node.text("equation", "");
  std::erase(equation, ' ');
  return {at::einsum(equation, operands)};
}

// The extent of every letter of an equation; '.' stands for the axes under an ellipsis, in order.
struct Letters {
  std::map<char, int64_t> extent;
  Shape ellipsis;
  std::vector<std::string> terms;
  std::string result;
};

Letters letters_of(const Node& node, const std::vector<Shape>& operands) {
  Letters letters;
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  const auto malformed = [&] {
    return Error(ErrorKind::format, describe(node), "the equation '{}' does not fit", equation);
  };
  const size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  for (size_t at = 0; (at = left.find("...")) != std::string::npos;) left.replace(at, 3, ".");
  for (size_t start = 0; start <= left.size();) {
    const size_t comma = std::min(left.find(',', start), left.size());
    letters.terms.push_back(left.substr(start, comma - start));
    start = comma + 1;
  }
  if (letters.terms.size() != operands.size()) throw malformed();
  std::map<char, int> uses;
  for (size_t t = 0; t < operands.size(); ++t) {
    const std::string& term = letters.terms[t];
    const auto dots = term.find('.');
    const size_t named = term.size() - (dots == std::string::npos ? 0 : 1);
    if (named > operands[t].size() || (dots == std::string::npos && named != operands[t].size())) throw malformed();
    const size_t hidden = operands[t].size() - named;
    size_t axis = 0;
    for (const char c : term) {
      if (c == '.') {
        letters.ellipsis = broadcast_dims(letters.ellipsis,
                                          {operands[t].begin() + static_cast<int64_t>(axis),
                                           operands[t].begin() + static_cast<int64_t>(axis + hidden)},
                                          node);
        axis += hidden;
        continue;
      }
      auto& extent = letters.extent.emplace(c, operands[t][axis]).first->second;
      if (extent == 1) extent = operands[t][axis];
      if (extent != operands[t][axis] && operands[t][axis] != 1) throw malformed();
      ++uses[c];
      ++axis;
    }
  }
  if (arrow == std::string::npos) {
    letters.result = letters.ellipsis.empty() ? "" : ".";
    for (const auto& [c, n] : uses)
      if (n == 1) letters.result += c;
  } else {
    letters.result = equation.substr(arrow + 2);
    if (const size_t at = letters.result.find("..."); at != std::string::npos) letters.result.replace(at, 3, ".");
  }
  return letters;
}

std::vector<TensorType> infer(const InferContext& context) {
  std::vector<Shape> operands;
  for (const auto& type : context.types) operands.push_back(type.dims);
  const Letters letters = letters_of(context.node, operands);
  TensorType y{context.in(0).dtype, {}};
  for (const char c : letters.result) {
    if (c == '.') {
      y.dims.insert(y.dims.end(), letters.ellipsis.begin(), letters.ellipsis.end());
    } else {
      const auto found = letters.extent.find(c);
      if (found == letters.extent.end())
        throw Error(ErrorKind::format, describe(context.node), "the result names '{}', which no operand has", c);
      y.dims.push_back(found->second);
    }
  }
  return {y};
}

// --- labels of Einsum: as of a matrix product, by letters

struct Einsum {
  LabelContext& context;
  Letters letters;

  int64_t axis(size_t input, char letter) const {
    const size_t found = letters.terms[input].find(letter);
    return found == std::string::npos ? -1 : static_cast<int64_t>(found);
  }
  bool kept(char letter) const { return letters.result.find(letter) != std::string::npos; }
  bool varying(size_t input, char letter) const {
    const int64_t at = axis(input, letter);
    const Tensor& ids = context.ids(input);
    return at >= 0 && ids.defined() && ids.size(at) > 1;
  }
  std::vector<int64_t> along(size_t input, char letter) { return context.along(input, axis(input, letter)); }
  void give(const std::vector<int64_t>& ids, char letter) {
    context.set(0, ids, static_cast<int64_t>(letters.result.find(letter)));
  }
};

// The letter along which computed operands carry the channels that count: heads (in all terms) before what lies in
// them, or by dimension the other way round. 0: there is none.
char letter_of_channels(const Einsum& e, const std::vector<size_t>& computed) {
  char heads = 0, inside = 0;
  for (const size_t i : computed)
    for (const char letter : e.letters.terms[i]) {
      if (!e.varying(i, letter)) continue;
      const bool everywhere = e.kept(letter) && e.axis(0, letter) >= 0 && e.axis(1, letter) >= 0;
      char& found = everywhere ? heads : inside;
      if (found == 0 || !e.kept(letter)) found = letter;  // what is summed over ends here
    }
  return heads != 0 && (!e.context.by_dimension() || inside == 0) ? heads : inside;
}

void labels_einsum_of_two(Einsum& e) {
  LabelContext& context = e.context;
  const char letter = letter_of_channels(e, {0, 1});
  if (letter == 0) return context.freeze_inputs(fmt::format("{} has no axis of channels", describe(context.node)));
  const std::string reason = fmt::format("{} multiplies it by what has no channels", describe(context.node));
  std::vector<int64_t> ids;
  for (const size_t i : {0, 1}) {
    if (e.axis(i, letter) < 0) {
      if (context.ids(i).defined() && !context.unlabelled(i) && context.ids(i).numel() > 1)
        context.freeze(context.ids(i), fmt::format("{} crosses two kinds of channels", describe(context.node)));
      continue;
    }
    const auto own = e.along(i, letter);
    if (!ids.empty()) context.unite(ids, own, reason);
    if (ids.empty()) ids = own;
  }
  if (e.kept(letter)) e.give(ids, letter);
}

// A weight: channels that it sums over end, others go on, and letters of its own are new channels: one of them, as
// heads or as what lies in all of them.
void labels_einsum_with_weight(Einsum& e, size_t value, size_t weight) {
  LabelContext& context = e.context;
  const char letter = letter_of_channels(e, {value});
  if (letter == 0) context.freeze(context.ids(value), fmt::format("{} has no axis of it", describe(context.node)));
  if (letter != 0 && e.kept(letter)) {
    const auto ids = e.along(value, letter);
    if (e.axis(weight, letter) >= 0) context.slot(weight, e.axis(weight, letter), ids, SlotRole::pass);
    return e.give(ids, letter);
  }
  if (letter != 0) context.slot(weight, e.axis(weight, letter), e.along(value, letter), SlotRole::consumer);
  std::string made;
  for (const char c : e.letters.terms[weight])
    if (e.kept(c) && e.axis(value, c) < 0 && e.letters.extent.at(c) > 1) made += c;
  if (made.empty()) return;
  const char chosen = context.by_dimension() ? made.back() : made.front();
  const auto ids = context.make(e.letters.extent.at(chosen));
  context.slot(weight, e.axis(weight, chosen), ids, SlotRole::producer);
  e.give(ids, chosen);
}

bool has_repeated_letter(const std::string& term) {
  return std::set<char>(term.begin(), term.end()).size() < term.size();
}

void labels_einsum(LabelContext& context) {
  if (context.for_exchange())
    return context.freeze_inputs(
        fmt::format("{} may lose channels, but its blocks are not known", describe(context.node)));
  std::vector<Shape> operands;
  for (const auto& type : context.inputs) operands.push_back(type.dims);
  Einsum e{context, letters_of(context.node, operands)};
  bool simple = e.letters.terms.size() == 2;
  for (const std::string& term : e.letters.terms)
    simple = simple && term.find('.') == std::string::npos && !has_repeated_letter(term);
  for (size_t i = 0; simple && i < operands.size(); ++i)
    for (size_t a = 0; a < operands[i].size(); ++a)
      simple = simple && operands[i][a] == e.letters.extent.at(e.letters.terms[i][a]);
  if (!simple || (context.is_parameter(0) && context.is_parameter(1))) return labels_frozen(context);
  if (context.is_parameter(1)) return labels_einsum_with_weight(e, 0, 1);
  if (context.is_parameter(0)) return labels_einsum_with_weight(e, 1, 0);
  labels_einsum_of_two(e);
}

Cost cost(const CostContext& context) {
  std::vector<Shape> operands;
  for (const auto& type : context.inputs) operands.push_back(type.dims);
  const Letters letters = letters_of(context.node, operands);
  int64_t macs = TensorType{.dims = letters.ellipsis}.count();
  for (const auto& [c, extent] : letters.extent) macs *= extent;
  return {.macs = macs, .flops = 2 * macs};
}

constexpr OpDef kOps[] = {
    {.type = "Einsum",
     .attributes = "equation",
     .since = 12,
     .min_inputs = 1,
     .evaluate = evaluate,
     .infer = infer,
     .cost = cost,
     .labels = labels_einsum},
};

}  // namespace einsum
}  // namespace

std::span<const OpDef> einsum_ops() { return einsum::kOps; }

}  // namespace pare
