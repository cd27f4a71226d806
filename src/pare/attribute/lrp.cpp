#include "pare/attribute/lrp.h"

#include <ATen/ATen.h>

#include <cmath>

#include "pare/error.h"
#include "pare/explain.h"

namespace pare {

namespace {

at::Tensor positive_part(const at::Tensor& t) { return t.clamp_min(0); }
at::Tensor negative_part(const at::Tensor& t) { return t.clamp_max(0); }

at::Tensor epsilon_rule(const LinearStep& l, const at::Tensor& R, double epsilon) {
  return share(l, {{l.x, l.weight}}, R, {.bias = l.bias, .epsilon = epsilon});
}

at::Tensor gamma_rule(const LinearStep& l, const at::Tensor& R, double gamma, double epsilon) {
  const auto favoured = [&](const at::Tensor& t) { return t.defined() ? t + gamma * positive_part(t) : t; };
  return share(l, {{l.x, favoured(l.weight)}}, R, {.bias = favoured(l.bias), .epsilon = epsilon});
}

at::Tensor applied(const LinearStep& l, const std::vector<Operand>& operands) {
  at::Tensor Z;
  for (const auto& [x, weight] : operands) Z = Z.defined() ? Z + l.apply(x, weight) : l.apply(x, weight);
  return Z;
}

// A unit may have terms of one sign alone (a depthwise filter has few; sums and averages have no weights of either), or
// be active by its bias: what the rule gives nobody, all terms share by their size.
at::Tensor alpha_beta_rule(const LinearStep& l, const at::Tensor& R, double alpha, double beta) {
  const at::Tensor wp = positive_part(l.weight), wn = negative_part(l.weight);
  const bool is_signed = l.x.numel() > 0 && l.x.min().item<double>() < 0;  // inner layers read what a ReLU leaves
  const at::Tensor xp = is_signed ? positive_part(l.x) : l.x, xn = is_signed ? negative_part(l.x) : at::Tensor();
  std::vector<Operand> raising = {{xp, wp}}, lowering;
  if (l.layer()) lowering.push_back({xp, wn});
  if (is_signed) lowering.push_back({xn, wp});
  if (is_signed && l.layer()) raising.push_back({xn, wn});
  if (beta == 0) return share(l, raising, R, {.everywhere = true});
  if (lowering.empty()) return share(l, {{l.x.abs(), l.weight.abs()}}, R, {.everywhere = true});
  const at::Tensor one_sided = applied(l, raising).eq(0).logical_or(applied(l, lowering).eq(0));
  const at::Tensor both = R.masked_fill(one_sided, 0);
  return alpha * share(l, raising, both) - beta * share(l, lowering, both) +
         share(l, {{l.x.abs(), l.weight.abs()}}, R - both, {.everywhere = true});
}

at::Tensor per_channel(const std::vector<double>& values, const at::Tensor& x) {
  if (x.dim() < 2 || (values.size() != 1 && static_cast<int64_t>(values.size()) != x.size(1)))
    throw Error(ErrorKind::shape, "lrp", "{} bounds for an input of {}", values.size(), fmt::join(x.sizes(), "x"));
  std::vector<int64_t> dims(static_cast<size_t>(x.dim()), 1);
  dims[1] = -1;
  return at::tensor(values, x.options()).reshape(dims).expand_as(x);
}

at::Tensor box_rule(const LinearStep& l, const at::Tensor& R, const LrpOptions& options) {
  const Bounds image = bounds_of_images(l.x);
  return box_shares(l, R, options.low.empty() ? image.low : per_channel(options.low, l.x),
                    options.high.empty() ? image.high : per_channel(options.high, l.x));
}

}  // namespace

Bounds bounds_of_images(const at::Tensor& x) {
  std::vector<int64_t> dims(static_cast<size_t>(x.dim()), 1);
  dims[0] = -1;
  const at::Tensor flat = x.flatten(1);
  return {flat.amin(1).reshape(dims).expand_as(x), flat.amax(1).reshape(dims).expand_as(x)};
}

at::Tensor box_shares(const LinearStep& l, const at::Tensor& R, const at::Tensor& low, const at::Tensor& high) {
  return share(l, {{l.x, l.weight}, {-low, positive_part(l.weight)}, {-high, negative_part(l.weight)}}, R);
}

LinearRule lrp_rule(const LrpOptions& options) {
  for (const LrpLayer* layer : {&options.dense, &options.convolution, &options.first})
    if (layer->rule == LrpRule::alpha_beta && std::abs(layer->alpha - layer->beta - 1) > 1e-9)
      throw Error(ErrorKind::usage, "lrp", "alpha {} and beta {} do not differ by 1", layer->alpha, layer->beta);
  return [options](const LinearStep& l, const at::Tensor& R) {
    const LrpLayer& layer = l.first ? options.first : l.kind == LinearKind::dense ? options.dense : options.convolution;
    // Rules without biases let an added constant pass.
    if (l.kind == LinearKind::shift && (layer.rule == LrpRule::alpha_beta || layer.rule == LrpRule::box))
      return R.unsqueeze(0);
    switch (layer.rule) {
      case LrpRule::zero: return epsilon_rule(l, R, 0);
      case LrpRule::epsilon: return epsilon_rule(l, R, layer.epsilon);
      case LrpRule::gamma: return gamma_rule(l, R, layer.gamma, layer.epsilon);
      case LrpRule::alpha_beta: return alpha_beta_rule(l, R, layer.alpha, layer.beta);
      case LrpRule::box: return box_rule(l, R, options);
    }
    throw Error(ErrorKind::usage, "lrp", "unknown rule");
  };
}

namespace {

struct LrpPreset {
  std::string name;
  LrpOptions options;
};

const std::vector<LrpPreset>& preset_list() {
  static constexpr LrpLayer zero{.rule = LrpRule::zero}, epsilon{.rule = LrpRule::epsilon},
      gamma{.rule = LrpRule::gamma}, box{.rule = LrpRule::box};
  static constexpr LrpLayer plus{.alpha = 1, .beta = 0}, alpha2{.alpha = 2, .beta = 1};
  static const std::vector<LrpPreset> list = {
      {"alpha1-beta0", {plus, plus, box, {}, {}}},
      {"zero", {zero, zero, zero, {}, {}}},
      {"epsilon", {epsilon, epsilon, epsilon, {}, {}}},
      {"gamma", {gamma, gamma, gamma, {}, {}}},
      {"z-plus", {plus, plus, plus, {}, {}}},
      {"alpha2-beta1", {alpha2, alpha2, alpha2, {}, {}}},
      {"epsilon-plus", {epsilon, plus, plus, {}, {}}},
      {"epsilon-alpha2-beta1", {epsilon, alpha2, alpha2, {}, {}}},
      {"epsilon-gamma-box", {epsilon, gamma, box, {}, {}}},
  };
  return list;
}

}  // namespace

const std::vector<std::string>& lrp_presets() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const LrpPreset& preset : preset_list()) all.push_back(preset.name);
    return all;
  }();
  return names;
}

LrpOptions lrp_preset(const std::string& name) {
  for (const LrpPreset& preset : preset_list())
    if (preset.name == name) return preset.options;
  throw Error(ErrorKind::usage, "lrp", "unknown preset '{}', expected one of {}", name, fmt::join(lrp_presets(), ", "));
}

}  // namespace pare
