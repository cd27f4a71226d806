#include "pare/prune/reader_filters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

namespace pare {

namespace {

using Kind = ExpressionKind;
using Channels = std::vector<ExpressionId>;

constexpr int64_t kMostNumbers = 1 << 25;  // of the filters of a reader

class Reading {
 public:
  Reading(const Graph& graph, const ChannelExpressions& expressions) : graph_(graph), expressions_(expressions) {}

  ReaderFilters read(const Channels& channels) {
    const Expression& first = expressions_[channels.front()];
    switch (first.kind) {
      case Kind::row: return layer(channels);
      case Kind::affine:
        return affine(read(operands(channels, 0)), numbers(channels, &Expression::scale),
                      numbers(channels, &Expression::shift));
      case Kind::norm: return normalized(read(operands(channels, 0)), channels);
      case Kind::function: return applied(channels);
      case Kind::depthwise: return filtered(read(operands(channels, 0)), channels);
      case Kind::sum: return remembered(channels);
      case Kind::product: return multiplied(channels);
      case Kind::at: return read(operands(channels, 0));
      case Kind::extremum: return refused(first.node);
      case Kind::constant:
      case Kind::unknown: break;
    }
    ReaderFilters result;
    result.reason = "its channels come by a way that merging cannot follow";
    return result;
  }

 private:
  const Node& node(size_t n) const { return graph_.nodes[n]; }
  ReaderFilters refused(size_t n) const {
    ReaderFilters result;
    result.reason = fmt::format("its channels come through {}, which merging cannot see through", describe(node(n)));
    return result;
  }

  Channels operands(const Channels& channels, size_t i) const {
    Channels result;
    for (const ExpressionId id : channels) result.push_back(expressions_[id].operands[i]);
    return result;
  }
  at::Tensor numbers(const Channels& channels, double Expression::*member) const {
    std::vector<double> result;
    for (const ExpressionId id : channels) result.push_back(expressions_[id].*member);
    return at::tensor(result, at::kDouble);
  }
  std::vector<int64_t> places(const Channels& channels) const {
    std::vector<int64_t> result;
    for (const ExpressionId id : channels) result.push_back(expressions_[id].place);
    return result;
  }

  ReaderFilters layer(const Channels& channels) const {
    const Expression& first = expressions_[channels.front()];
    ReaderFilters result;
    const std::string& name = node(first.node).name;
    result.filters.layer = name.empty() ? node(first.node).outputs.front() : name;
    result.filters.weight = weight_rows(graph_, first, places(channels));
    result.filters.bias = numbers(channels, &Expression::shift);
    return result;
  }

  static at::Tensor scaled_rows(const at::Tensor& rows, const at::Tensor& scale) {
    return scale.eq(1).all().item<bool>() ? rows : rows * scale.unsqueeze(1);
  }

  static ReaderFilters affine(ReaderFilters x, const at::Tensor& g, const at::Tensor& h) {
    if (!x.reason.empty()) return x;
    GroupFilters& f = x.filters;
    if (f.activation) {
      x.scale = x.scale.defined() ? x.scale * g : g;
      x.shift = x.shift.defined() ? x.shift * g + h : h;
    } else if (f.norm) {
      f.norm->gamma = f.norm->gamma * g;
      f.norm->beta = f.norm->beta * g + h;
    } else {
      f.weight = scaled_rows(f.weight, g);
      f.bias = f.bias * g + h;
    }
    return x;
  }

  ReaderFilters normalized(ReaderFilters x, const Channels& channels) const {
    if (!x.reason.empty()) return x;
    const auto parameter = [&](size_t i) {
      std::vector<double> result;
      for (const ExpressionId id : channels) result.push_back(expressions_[id].norm[i]);
      return at::tensor(result, at::kDouble);
    };
    NormParameters norm{parameter(0), parameter(1), parameter(2), parameter(3)};
    if (x.filters.activation || x.filters.norm) {
      const at::Tensor g = norm.gamma / norm.sigma;
      return affine(std::move(x), g, norm.beta - norm.mean * g);
    }
    norm.mean = norm.mean - x.filters.bias;  // a bias before a batch norm only moves its mean
    x.filters.bias = at::zeros_like(x.filters.bias);
    x.filters.norm = norm;
    return x;
  }

  // As if no activation were on the way: the rows as the batch norm and the post step scale them.
  static ReaderFilters looked_through(ReaderFilters x) {
    GroupFilters& f = x.filters;
    at::Tensor rows = f.folded().to(at::kDouble);
    if (x.scale.defined()) rows = rows * x.scale.unsqueeze(1);
    GroupFilters bare;
    bare.layer = f.layer;
    bare.weight = rows;
    bare.bias = x.shift.defined() ? x.shift : at::zeros({rows.size(0)}, at::kDouble);
    return {.filters = std::move(bare), .scale = {}, .shift = {}, .reason = {}};
  }

  ReaderFilters applied(const Channels& channels) {
    const Expression& first = expressions_[channels.front()];
    ReaderFilters x = read(operands(channels, 0));
    if (!x.reason.empty()) return x;
    if (!first.elementwise) return through_window(std::move(x), first);
    auto function = function_of(channels);
    if (!function) return refused(first.node);
    return activated(std::move(x), std::move(function));
  }

  static ReaderFilters activated(ReaderFilters x, const ChannelFunction& function) {
    if (x.scale.defined() || x.shift.defined()) x = looked_through(std::move(x));
    if (const ChannelFunction inner = x.filters.activation)
      x.filters.activation = [inner, function](const at::Tensor& a) { return function(inner(a)); };
    else
      x.filters.activation = function;
    return x;
  }

  ReaderFilters through_window(ReaderFilters x, const Expression& window) const {
    if (window.law == Law::rigid) return refused(window.node);
    const bool turned = x.scale.defined() && x.scale.le(0).any().item<bool>();
    const bool keeps = window.law == Law::average || (window.law == Law::order && !turned) || !x.shift.defined();
    return keeps ? x : looked_through(std::move(x));
  }

  ChannelFunction function_of(const Channels& channels) const {
    const Expression& first = expressions_[channels.front()];
    if (first.operands.size() < 2) return activation_function(graph_, node(first.node));
    const at::Tensor slope = numbers(operands(channels, 1), &Expression::shift).unsqueeze(1);  // PRelu
    return [slope](const at::Tensor& a) {
      const at::Tensor s = a.dim() == 1 ? slope.squeeze(1) : slope;
      return at::where(a < 0, a * s, a);
    };
  }

  // Depthwise layers multiply the columns of the filters before them and sums put them side by side: a short chain of
  // both asks for more than any memory holds.
  static bool too_large(int64_t rows, int64_t columns) { return columns > kMostNumbers / std::max<int64_t>(rows, 1); }
  ReaderFilters too_large_at(size_t n) const {
    ReaderFilters result;
    result.reason = fmt::format("its filters, multiplied out up to {}, are too large to compare", describe(node(n)));
    return result;
  }

  ReaderFilters filtered(ReaderFilters x, const Channels& channels) const {
    if (!x.reason.empty()) return x;
    GroupFilters& f = x.filters;
    const Expression& first = expressions_[channels.front()];
    const int64_t columns = f.weight.size(1) * (f.depthwise.defined() ? f.depthwise.size(1) : 1);
    const at::Tensor kernel = weight_rows(graph_, first, places(channels)).to(at::kDouble);
    if (too_large(f.weight.size(0), columns * kernel.size(1))) return too_large_at(first.node);
    if (f.depthwise.defined()) f.weight = f.rows();
    if (f.norm) f.weight = scaled_rows(f.weight, f.norm->gamma / f.norm->sigma);
    if (x.scale.defined()) f.weight = scaled_rows(f.weight, x.scale);
    f.depthwise = kernel;
    f.bias = numbers(channels, &Expression::shift);
    f.norm.reset();
    f.activation = nullptr;
    return {.filters = std::move(f), .scale = {}, .shift = {}, .reason = {}};
  }

  // Operands may be sums of the same again.
  ReaderFilters remembered(const Channels& channels) {
    const auto found = sums_.find(channels);
    return found != sums_.end() ? found->second : sums_.emplace(channels, summed(channels)).first->second;
  }

  ReaderFilters summed(const Channels& channels) {
    std::vector<at::Tensor> parts;
    int64_t columns = 0;
    for (size_t i = 0; i < expressions_[channels.front()].operands.size(); ++i) {
      ReaderFilters x = read(operands(channels, i));
      if (!x.reason.empty()) return x;
      x = looked_through(std::move(x));
      parts.push_back(x.filters.weight);
      columns += x.filters.weight.size(1);
      if (too_large(x.filters.weight.size(0), columns)) return too_large_at(expressions_[channels.front()].node);
      if (x.filters.bias.any().item<bool>()) parts.push_back(x.filters.bias.unsqueeze(1));
    }
    ReaderFilters result;
    result.filters.weight = at::cat(parts, 1);
    result.filters.bias = at::zeros({static_cast<int64_t>(channels.size())}, at::kDouble);
    return result;
  }

  // x·f(x), as exporters write SiLU, or x times a gate.
  ReaderFilters multiplied(const Channels& channels) {
    const Expression& first = expressions_[channels.front()];
    for (size_t i = 0; i < 2; ++i) {
      const Channels x = operands(channels, i), gate = operands(channels, 1 - i);
      const Expression& last = expressions_[gate.front()];
      if (last.kind != Kind::function || !last.elementwise || last.law != Law::rigid) continue;
      ReaderFilters read_x = read(x);
      if (!read_x.reason.empty() || operands(gate, 0) != x) return read_x;
      const ChannelFunction inner = function_of(gate);
      if (!inner) return refused(first.node);
      return activated(std::move(read_x), [inner](const at::Tensor& a) { return a * inner(a); });
    }
    return refused(first.node);
  }

  const Graph& graph_;
  const ChannelExpressions& expressions_;
  std::map<Channels, ReaderFilters> sums_;
};

}  // namespace

ReaderFilters reader_filters(const Graph& graph, const ChannelExpressions& expressions,
                             const std::vector<ExpressionId>& channels) {
  return Reading(graph, expressions).read(channels);
}

int64_t Skeletons::of(ExpressionId id) {
  if (const auto found = known_.find(id); found != known_.end()) return found->second;
  const Expression& e = expressions_[id];
  std::vector<int64_t> key = {static_cast<int64_t>(e.kind), static_cast<int64_t>(e.node), e.part};
  if (e.kind == Kind::at) key.push_back(e.place);
  for (const ExpressionId operand : e.operands) key.push_back(of(operand));
  return known_[id] = numbers_.try_emplace(key, static_cast<int64_t>(numbers_.size())).first->second;
}

}  // namespace pare
