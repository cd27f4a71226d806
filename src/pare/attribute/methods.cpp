#include "pare/attribute/methods.h"

#include "pare/attribute/excitation.h"
#include "pare/attribute/gradients.h"
#include "pare/attribute/lrp.h"
#include "pare/attribute/rap.h"
#include "pare/error.h"

namespace pare {

namespace {

InputAttribution plain(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                       const AttributionOptions&) {
  return {.attribution = input_gradient(program, x, classes)};
}

InputAttribution times_input(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                             const AttributionOptions&) {
  return {.attribution = input_x_gradient(program, x, classes)};
}

InputAttribution integrated(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                            const AttributionOptions& options) {
  Integrated found = integrated_gradients(program, x, classes, {.steps = options.steps});
  return {.attribution = std::move(found.attribution), .delta = std::move(found.delta)};
}

InputAttribution smooth(const Program& program, const at::Tensor& x, const at::Tensor& classes,
                        const AttributionOptions& options) {
  return {.attribution = smooth_gradient(program, x, classes,
                                         {.samples = options.samples, .noise = options.noise, .seed = options.seed})};
}

LinearRule excitation(const AttributionOptions&) { return excitation_rule(); }
LinearRule inhibition(const AttributionOptions&) { return excitation_rule(/*opposite=*/true); }
LinearRule layer_wise(const AttributionOptions& options) { return lrp_rule(lrp_preset(options.lrp)); }
LinearRule relative(const AttributionOptions&) { return rap_rule(); }

constexpr AttributionMethod kAttributionMethods[] = {
    {.name = "gradcam", .at_layer = true, .cam = CamKind::grad},
    {.name = "hirescam", .at_layer = true, .cam = CamKind::hires},
    {.name = "gradcam++", .at_layer = true, .cam = CamKind::grad_plus_plus},
    {.name = "gradient", .collapse = Collapse::largest, .gradient = plain},
    {.name = "input-x-gradient", .gradient = times_input},
    {.name = "ig", .gradient = integrated},
    {.name = "smoothgrad", .collapse = Collapse::largest, .gradient = smooth},
    {.name = "ebp", .at_layer = true, .rule = excitation},
    {.name = "contrastive-ebp",
     .collapse = Collapse::positive,
     .at_layer = true,
     .rule = excitation,
     .opposite = inhibition},
    {.name = "lrp", .rule = layer_wise, .from_score = true},
    {.name = "rap", .collapse = Collapse::positive, .rule = relative, .from_score = true},
};

}  // namespace

std::span<const AttributionMethod> attribution_method_list() { return kAttributionMethods; }

const std::vector<std::string>& attribution_methods() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& method : kAttributionMethods) all.emplace_back(method.name);
    return all;
  }();
  return names;
}

const AttributionMethod& find_attribution_method(const std::string& name) {
  for (const auto& method : kAttributionMethods)
    if (method.name == name) return method;
  throw Error(ErrorKind::usage, "method", "unknown method '{}', expected one of {}", name,
              fmt::join(attribution_methods(), ", "));
}

}  // namespace pare
