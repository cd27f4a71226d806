// RNN, GRU and LSTM: inputs X [length, batch, inputs], W [directions, gates · hidden, inputs], R [directions, gates ·
// hidden, hidden], B [directions, 2 · gates · hidden], lengths, first h, first c, P (peepholes of an LSTM).
//
//   RNN   h' = f(Wx + Rh + b)
//   GRU   z = f(…), r = f(…), n = g(Wx + R(r ∘ h) + b) or g(Wx + r ∘ (Rh + b_R) + b_W);  h' = (1 − z) ∘ n + z ∘ h
//   LSTM  i, o, F = f(… + p ∘ c), n = g(…);  c' = F ∘ c + i ∘ n,  h' = o ∘ k(c')
#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>

#include "pare/ops/common.h"
#include "pare/ops/families.h"

namespace pare {
namespace {
namespace recurrent {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// --- activations, by name

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;

  Tensor operator()(const Tensor& x) const {
    if (name == "sigmoid") return at::sigmoid(x);
    if (name == "tanh") return at::tanh(x);
    if (name == "relu") return at::relu(x);
    if (name == "affine") return x * alpha + beta;
    if (name == "leakyrelu") return at::leaky_relu(x, alpha);
    if (name == "thresholdedrelu") return at::where(x > alpha, x, at::zeros_like(x));
    if (name == "scaledtanh") return at::tanh(x * beta) * alpha;
    if (name == "hardsigmoid") return at::clamp(x * alpha + beta, 0, 1);
    if (name == "elu") return at::elu(x, alpha);
    if (name == "softsign") return x / (1 + at::abs(x));
    return at::softplus(x, 1, 1e6);
  }
};

struct KnownActivation {
  std::string_view name;
  int parameters;
  double alpha, beta;
};

constexpr KnownActivation kActivations[] = {
    {"sigmoid", 0, 0, 0},         {"tanh", 0, 0, 0},         {"relu", 0, 0, 0},
    {"affine", 2, 1, 0},          {"leakyrelu", 1, 0.01, 0}, {"elu", 1, 1, 0},
    {"thresholdedrelu", 1, 1, 0}, {"scaledtanh", 2, 1, 1},   {"hardsigmoid", 2, 0.2, 0.5},
    {"softsign", 0, 0, 0},        {"softplus", 0, 0, 0},
};

// The functions of all directions, one after the other. Parameters are listed for those that have any.
std::vector<Activation> activations_of(const Node& node, const std::vector<std::string>& usual, int64_t directions) {
  std::vector<std::string> names;
  if (const auto found = node.attributes.find("activations"); found != node.attributes.end()) {
    const auto* list = std::get_if<std::vector<std::string>>(&found->second);
    if (list == nullptr) throw Error(ErrorKind::format, describe(node), "activations are not names");
    names = *list;
  }
  if (names.empty())
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  if (std::ssize(names) != directions * std::ssize(usual))
    throw Error(ErrorKind::format, describe(node), "has {} activations, expected {}", names.size(),
                directions * std::ssize(usual));
  const auto alphas = node.reals("activation_alpha"), betas = node.reals("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> result;
  for (std::string name : names) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto* known = std::ranges::find(kActivations, name, &KnownActivation::name);
    if (known == std::end(kActivations))
      throw Error(ErrorKind::unsupported, describe(node), "has the activation '{}'", name);
    Activation function{name, known->alpha, known->beta};
    if (known->parameters > 0 && alpha < alphas.size()) function.alpha = alphas[alpha++];
    if (known->parameters > 1 && beta < betas.size()) function.beta = betas[beta++];
    result.push_back(function);
  }
  return result;
}

// --- what the three have in common

struct Extents {
  int64_t length, batch, inputs, hidden, directions;
  bool batch_first;
};

Extents extents_of(const Node& node, std::span<const int64_t> x, std::span<const int64_t> w, std::span<const int64_t> r,
                   int64_t gates) {
  const bool batch_first = node.integer("layout", 0) != 0;
  const std::string direction = node.text("direction", "forward");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool fits = x.size() == 3 && w.size() == 3 && r.size() == 3 && w[0] == directions && r[0] == directions &&
                    w[1] % gates == 0 && r[1] == w[1] && r[2] == w[1] / gates && w[2] == x[2] &&
                    node.integer("hidden_size", w[1] / gates) == w[1] / gates;
  if (!fits)
    throw Error(ErrorKind::shape, describe(node), "weights {} and {} do not fit {}, {}", to_string(w), to_string(r),
                to_string(x), direction);
  return {x[batch_first ? 1 : 0], x[batch_first ? 0 : 1], x[2], w[1] / gates, directions, batch_first};
}

// One direction of a layer, ready to go from token to token.
struct Cell {
  const Node& node;
  Tensor recurrent;  // [gates · hidden, hidden]
  Tensor bias;       // added to the recurrent part, [gates · hidden]; undefined where it is added to the inputs'
  Tensor peepholes;  // [3 · hidden]
  std::span<const Activation> functions;
  double clip = 0;

  Tensor act(size_t i, const Tensor& x) const { return functions[i](clip > 0 ? at::clamp(x, -clip, clip) : x); }
};

struct State {
  Tensor h, c;
};

State step_rnn(const Cell& cell, const Tensor& x, const State& state) {
  return {cell.act(0, x + at::matmul(state.h, cell.recurrent.t())), {}};
}

State step_gru(const Cell& cell, const Tensor& x, const State& state) {
  const int64_t n = state.h.size(1);
  const auto r = cell.recurrent.split(n, 0);
  const auto parts = x.split(n, 1);
  const auto bias = cell.bias.split(n, 0);
  const Tensor z = cell.act(0, parts[0] + at::matmul(state.h, r[0].t()) + bias[0]);
  const Tensor reset = cell.act(0, parts[1] + at::matmul(state.h, r[1].t()) + bias[1]);
  const Tensor back = cell.node.integer("linear_before_reset", 0) != 0
                          ? reset * (at::matmul(state.h, r[2].t()) + bias[2])
                          : at::matmul(reset * state.h, r[2].t()) + bias[2];
  return {(1 - z) * cell.act(1, parts[2] + back) + z * state.h, {}};
}

State step_lstm(const Cell& cell, const Tensor& x, const State& state) {
  const int64_t n = state.h.size(1);
  const auto parts = (x + at::matmul(state.h, cell.recurrent.t())).split(n, 1);  // i, o, forget, candidate
  const auto peep = [&](size_t i, const Tensor& c) {
    return cell.peepholes.defined() ? cell.peepholes.narrow(0, static_cast<int64_t>(i) * n, n) * c : at::zeros_like(c);
  };
  const Tensor i = cell.act(0, parts[0] + peep(0, state.c));
  const Tensor forget = cell.node.integer("input_forget", 0) != 0 ? 1 - i : cell.act(0, parts[2] + peep(2, state.c));
  const Tensor c = forget * state.c + i * cell.act(1, parts[3]);
  const Tensor o = cell.act(0, parts[1] + peep(1, c));
  return {o * cell.functions[2](c), c};
}

using Step = State (*)(const Cell&, const Tensor&, const State&);

struct Kind {
  int64_t gates;
  Step step;
  std::vector<std::string> usual;  // activations
  bool has_memory;
};

Tensor first_state(const EvalContext& context, size_t input, const Extents& e, int64_t direction) {
  const Tensor& x = context.in(0);
  if (!context.has(input)) return at::zeros({e.batch, e.hidden}, x.options());
  const Tensor state = e.batch_first ? context.in(input).transpose(0, 1) : context.in(input);
  if (state.sizes() != at::IntArrayRef{e.directions, e.batch, e.hidden})
    throw Error(ErrorKind::shape, describe(context.node), "a first state of {} for {} samples of {}",
                to_string(context.in(input).sizes()), e.batch, e.hidden);
  return state[direction];
}

Tensor part_of(const EvalContext& context, size_t input, int64_t direction, const Shape& dims) {
  if (!context.has(input)) return {};
  if (context.in(input).sizes() != at::IntArrayRef(dims))
    throw Error(ErrorKind::shape, describe(context.node), "input {} is {}, expected {}", input,
                to_string(context.in(input).sizes()), to_string(dims));
  return context.in(input)[direction];
}

// Lengths of the samples, [batch, 1]; undefined where all are of full length.
Tensor lengths_of(const EvalContext& context, const Extents& e) {
  if (!context.has(4)) return {};
  const Tensor lengths = context.in(4).to(at::kLong);
  if (lengths.dim() != 1 || lengths.size(0) != e.batch)
    throw Error(ErrorKind::shape, describe(context.node), "{} lengths for {} samples", lengths.numel(), e.batch);
  return lengths.unsqueeze(1);
}

struct Run {
  Tensor y;  // [length, batch, hidden]
  State last;
};

Run run_direction(const EvalContext& context, const Kind& kind, const Extents& e, int64_t direction, bool backwards,
                  const std::vector<Activation>& functions) {
  const int64_t width = kind.gates * e.hidden;
  const size_t per_direction = kind.usual.size();
  const Tensor bias = part_of(context, 3, direction, {e.directions, 2 * width});
  Cell cell{.node = context.node,
            .recurrent = context.in(2)[direction],
            .peepholes = part_of(context, 7, direction, {e.directions, 3 * e.hidden}),
            .functions = std::span(functions).subspan(static_cast<size_t>(direction) * per_direction, per_direction),
            .clip = context.node.real("clip", 0)};
  cell.bias = bias.defined() ? bias.narrow(0, width, width) : at::zeros({width}, context.in(0).options());
  const Tensor sequence = e.batch_first ? context.in(0).transpose(0, 1) : context.in(0);
  Tensor x = at::matmul(sequence, context.in(1)[direction].t());
  if (bias.defined()) x = x + bias.narrow(0, 0, width);
  if (kind.step != step_gru) x = x + cell.bias;
  State state{first_state(context, 5, e, direction),
              kind.has_memory ? first_state(context, 6, e, direction) : Tensor()};
  const Tensor lengths = lengths_of(context, e);
  Tensors outputs(static_cast<size_t>(e.length));
  for (int64_t k = 0; k < e.length; ++k) {
    const int64_t t = backwards ? e.length - 1 - k : k;
    const State next = kind.step(cell, x[t], state);
    if (lengths.defined()) {
      const Tensor within = lengths > t;
      outputs[static_cast<size_t>(t)] = at::where(within, next.h, at::zeros_like(next.h));
      state.h = at::where(within, next.h, state.h);
      if (kind.has_memory) state.c = at::where(within, next.c, state.c);
    } else {
      outputs[static_cast<size_t>(t)] = next.h;
      state = next;
    }
  }
  const Tensor y = outputs.empty() ? at::zeros({0, e.batch, e.hidden}, x.options()) : at::stack(outputs);
  return {y, state};
}

Tensors run(const EvalContext& context, const Kind& kind) {
  const Node& node = context.node;
  const Extents e = extents_of(node, context.in(0).sizes(), context.in(1).sizes(), context.in(2).sizes(), kind.gates);
  constexpr int64_t most_steps = 1'000'000;  // a long sequence of nothing takes no memory, but time
  if (e.length > most_steps)
    throw Error(ErrorKind::unsupported, describe(node), "goes over {} steps, more than {}", e.length, most_steps);
  const auto functions = activations_of(node, kind.usual, e.directions);
  check_size({context.in(0).scalar_type(), {e.length, e.directions, e.batch, e.hidden}}, describe(node));
  Tensors y, h, c;
  for (int64_t d = 0; d < e.directions; ++d) {
    const bool backwards = d == 1 || node.text("direction", "forward") == "reverse";
    const Run one = run_direction(context, kind, e, d, backwards, functions);
    y.push_back(one.y);
    h.push_back(one.last.h);
    c.push_back(one.last.c);
  }
  const int64_t across = e.batch_first ? 1 : 0;
  Tensor all = at::stack(y, 1);  // [length, directions, batch, hidden]
  if (e.batch_first) all = all.permute({2, 0, 1, 3});
  Tensors result = {all, at::stack(h, across)};
  if (kind.has_memory) result.push_back(at::stack(c, across));
  return result;
}

Kind rnn_kind() { return {1, step_rnn, {"Tanh"}, false}; }
Kind gru_kind() { return {3, step_gru, {"Sigmoid", "Tanh"}, false}; }
Kind lstm_kind() { return {4, step_lstm, {"Sigmoid", "Tanh", "Tanh"}, true}; }

template <Kind (*kind)()>
Tensors evaluate(const EvalContext& context) {
  return run(context, kind());
}

template <Kind (*kind)()>
std::vector<TensorType> infer(const InferContext& context) {
  const Extents e = extents_of(context.node, context.in(0).dims, context.in(1).dims, context.in(2).dims, kind().gates);
  const auto dtype = context.in(0).dtype;
  const TensorType state{
      dtype, e.batch_first ? Shape{e.batch, e.directions, e.hidden} : Shape{e.directions, e.batch, e.hidden}};
  const TensorType y{dtype, e.batch_first ? Shape{e.batch, e.length, e.directions, e.hidden}
                                          : Shape{e.length, e.directions, e.batch, e.hidden}};
  return {y, state, state};
}

Cost cost(const CostContext& context) {
  const Shape& x = context.inputs[0].dims;
  const int64_t macs = x[0] * x[1] * (context.inputs[1].count() + context.inputs[2].count());
  return {.macs = macs, .flops = 2 * macs};
}

// What is read is summed over; the hidden units feed themselves and stay.
void labels(LabelContext& context) {
  const Tensor& ids = context.ids(0);
  const bool along_inputs = ids.defined() && ids.dim() == 3 && ids.size(2) == ids.numel();
  if (!along_inputs || !context.is_parameter(1) || context.for_exchange())
    return context.freeze_inputs(fmt::format("{} goes over it step by step", describe(context.node)));
  context.slot(1, 2, context.along(0, 2), SlotRole::consumer);
  for (size_t i = 2; i < context.inputs.size(); ++i)
    if (context.has(i) && !context.is_parameter(i) && context.ids(i).defined())
      context.freeze(context.ids(i), fmt::format("it is a state of {}", describe(context.node)));
}

template <Kind (*kind)()>
constexpr OpDef op(std::string_view type, std::string_view attributes, size_t most) {
  return {.type = type,
          .attributes = attributes,
          .since = 7,
          .min_inputs = 3,
          .max_inputs = most,
          .evaluate = evaluate<kind>,
          .infer = infer<kind>,
          .cost = cost,
          .labels = labels,
          .traits = {.learned = {1, 2, 3, 7}}};
}

constexpr OpDef kOps[] = {
    op<rnn_kind>("RNN", "activation_alpha activation_beta activations clip direction hidden_size layout", 6),
    op<gru_kind>(
        "GRU", "activation_alpha activation_beta activations clip direction hidden_size layout linear_before_reset", 6),
    op<lstm_kind>("LSTM", "activation_alpha activation_beta activations clip direction hidden_size input_forget layout",
                  8),
};

}  // namespace recurrent
}  // namespace

std::span<const OpDef> recurrent_ops() { return recurrent::kOps; }

}  // namespace pare
