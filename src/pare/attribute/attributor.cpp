#include "pare/explain.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "pare/analysis/scores.h"
#include "pare/analysis/shapes.h"
#include "pare/attribute/explained.h"
#include "pare/attribute/lrp.h"
#include "pare/attribute/methods.h"
#include "pare/core/option_scope.h"
#include "pare/error.h"
#include "pare/passes/for_inference.h"
#include "pare/run.h"

namespace pare {

void AttributionOptions::describe(OptionVisitor& visitor) {
  visitor.heading("heat maps");
  visitor.essential().field("method", method, "attribution method", attribution_methods());
  visitor.essential().field("layer", layer,
                            "layer that the map is taken at; 'input' for the image (default: as the method needs)");
  visitor.field("lrp", lrp, "rules of the layers", lrp_presets());
  visitor.field("steps", steps, "points on the way from the mean colour");
  visitor.field("samples", samples, "noisy copies");
  visitor.field("noise", noise, "deviation of the noise, as a part of the image's range");
  visitor.only({"lrp"}, {with("method", {"lrp"})});
  visitor.only({"steps"}, {with("method", {"ig"})});
  visitor.only({"samples", "noise"}, {with("method", {"smoothgrad"})});
}

void AttributionOptions::check() const { check_scopes(*this); }

namespace {

// What the nodes after the one that makes `value` read and make.
std::vector<std::string> values_after(const Graph& graph, const std::string& value) {
  std::set<std::string> needed;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (const auto& output : node->outputs)
      if (!output.empty()) needed.insert(output);
    if (std::find(node->outputs.begin(), node->outputs.end(), value) != node->outputs.end()) break;
    for (const auto& input : node->inputs)
      if (!input.empty() && !graph.is_constant(input) && input != graph.inputs[0].name) needed.insert(input);
  }
  return {needed.begin(), needed.end()};
}

// Attributions of several pieces in one, of which the first `pairs` are kept.
Attribution joined(const std::vector<Attribution>& pieces, int64_t pairs) {
  Attribution out;
  for (const auto field : {&Attribution::maps, &Attribution::scores, &Attribution::classes, &Attribution::relevance,
                           &Attribution::expected}) {
    std::vector<at::Tensor> parts;
    for (const auto& piece : pieces)
      if ((piece.*field).defined()) parts.push_back(piece.*field);
    if (!parts.empty()) out.*field = at::cat(parts).narrow(0, 0, pairs);
  }
  return out;
}

// The channels of [P, C, h, w] in one.
at::Tensor collapsed(const at::Tensor& attribution, Collapse how) {
  if (attribution.dim() != 4)
    throw Error(ErrorKind::shape, "attribution", "a layer of {} has no spatial extent",
                fmt::join(attribution.sizes(), "x"));
  if (how == Collapse::largest) return attribution.abs().amax(1);
  const at::Tensor sum = attribution.sum(1);
  return how == Collapse::positive ? sum.clamp_min(0) : sum;
}

}  // namespace

at::Tensor Attribution::errors() const {
  if (!relevance.defined()) return {};
  const at::Tensor wanted = expected.to(at::kDouble);
  return ((relevance.to(at::kDouble) - wanted).abs() / wanted.abs()).masked_fill(wanted.eq(0), 0);
}

double Attribution::largest_error() const {
  const at::Tensor each = errors();
  return each.defined() && each.numel() > 0 ? each.max().item<double>() : std::nan("");
}

double Attribution::mean_error() const {
  const at::Tensor each = errors();
  return each.defined() && each.numel() > 0 ? each.mean().item<double>() : std::nan("");
}

namespace {

// All values of every pair are held, their gradients or relevance, and copies of some.
int64_t pairs_in_memory(const Graph& graph, int64_t memory) {
  constexpr int64_t kCopies = 3;
  int64_t bytes = 1;
  for (const auto& [value, type] : analysis_shapes(graph, {.batch = 1}).types)
    if (!graph.is_constant(value)) bytes += kCopies * type.count() * static_cast<int64_t>(at::elementSize(type.dtype));
  return std::max<int64_t>(memory / bytes, 1);
}

std::vector<std::string> layers_named(const AttributionOptions& options) {
  return options.layer.empty() ? std::vector<std::string>{} : std::vector{options.layer};
}

}  // namespace

struct Attributor::State {
  State(const Graph& model, AttributionOptions wanted)
      : options(std::move(wanted)),
        method(find_attribution_method(options.method)),
        graph(explained_graph(model, layers_named(options))) {
    const auto& dims = graph.inputs[0].dims;
    if (dims && !dims->empty() && (*dims)[0].fixed()) fixed_batch = (*dims)[0].size;
    layer = !options.layer.empty() ? find_value(model, options.layer)  // a folded norm's name is gone, its value is not
            : method.at_layer      ? last_spatial_activation(graph)
                                   : graph.inputs[0].name;
    if (method.gradient != nullptr && layer != graph.inputs[0].name)
      throw Error(ErrorKind::usage, "layer", "{} explains the input, not '{}'", options.method, options.layer);
    if (method.rule != nullptr) method.rule(options);  // an unknown preset is told before anything runs
    if (method.cam && layer == graph.inputs[0].name)
      throw Error(ErrorKind::usage, "layer", "{} needs a layer, not the input", options.method);
    if (method.cam) {
      Cut cut = cut_after(graph, layer);
      front.emplace(for_inference(cut.front));
      back.emplace(std::move(cut.back));
      takes_rows = cut.boundary.size() == 1;
    } else {
      whole.emplace(graph);
      most_pairs = pairs_in_memory(graph, options.memory);
      takes_rows = method.rule == nullptr;
    }
    if (method.rule != nullptr) walked = values_after(graph, layer);
  }

  // Only the part after the layer is differentiated.
  Attribution explain_by_cam(const at::Tensor& images, const at::Tensor& rows, const at::Tensor& classes) const {
    std::vector<at::Tensor> boundary;
    {
      const at::NoGradGuard no_grad;
      boundary = front->run({&images, 1}).outputs;
    }
    Attribution out;
    if (rows.defined()) {  // the scores of all images, then the pairs
      const at::NoGradGuard no_grad;
      out.scores = score_rows(back->run(boundary).outputs.at(0));
      boundary[0] = boundary[0].index_select(0, rows);
    }
    const at::AutoGradMode recording(true);
    const at::Tensor A = boundary[0].contiguous().detach().requires_grad_();
    boundary[0] = A;
    const at::Tensor scores = score_rows(back->run(boundary).outputs.at(0));
    if (!rows.defined()) out.scores = scores.detach();
    out.classes = classes.defined() ? classes : top_classes(scores.detach());
    class_scores(with_gradient(scores, layer), out.classes).sum().backward();
    if (!A.grad().defined()) throw Error(ErrorKind::usage, layer, "the scores do not depend on it");
    const at::NoGradGuard no_grad;
    out.maps = class_activation_map(A.detach(), A.grad(), *method.cam);
    return out;
  }

  Attribution explain_by_gradient(const at::Tensor& images, const at::Tensor& x, const at::Tensor& rows,
                                  const at::Tensor& classes, const std::vector<int64_t>& picture) const {
    Attribution out = with_scores(images, rows, classes);
    const InputAttribution found = method.gradient(*whole, x, out.classes, options);
    if (found.delta.defined()) {
      out.relevance = found.attribution.flatten(1).sum(1);
      out.expected = out.relevance - found.delta;
    }
    out.maps = collapsed(as_picture(found.attribution, picture), method.collapse);
    return out;
  }

  Attribution explain_by_walk(const at::Tensor& images, const at::Tensor& classes,
                              const std::vector<int64_t>& picture) const {
    const at::NoGradGuard no_grad;
    RunResult run = whole->run({&images, 1}, {.taps = walked});
    run.tapped[graph.inputs[0].name] = images;
    Attribution out;
    out.scores = score_rows(run.outputs.at(0));
    out.classes = classes.defined() ? classes : top_classes(out.scores);
    const at::Tensor score = class_scores(out.scores, out.classes);
    const at::Tensor one = at::zeros_like(out.scores).scatter(1, out.classes.unsqueeze(1), 1.0);
    const auto walk = [&](const at::Tensor& start, const LinearRule& rule) {
      return walk_back(graph, run.tapped, start.reshape(run.outputs[0].sizes()), layer, rule);
    };
    const Walked walked_to = walk(method.from_score ? one * score.unsqueeze(1) : one, method.rule(options));
    at::Tensor R = walked_to.relevance;
    out.relevance = R.flatten(1).sum(1) + walked_to.beside;
    out.expected = method.from_score ? score : at::ones_like(score);
    if (method.opposite != nullptr) R = R - walk(one, method.opposite(options)).relevance;
    // Relevance of a negative score has its sign; maps show what the score rests on.
    if (method.from_score) R = R * at::where(score.lt(0), -1.0, 1.0).to(R.dtype()).reshape(first_axis(R));
    out.maps = collapsed(layer == graph.inputs[0].name ? as_picture(R, picture) : R, method.collapse);
    return out;
  }

  at::Tensor scores_of(const at::Tensor& images) const {
    const at::NoGradGuard no_grad;
    const RunResult run = method.cam ? back->run(front->run({&images, 1}).outputs) : whole->run({&images, 1});
    return score_rows(run.outputs.at(0));
  }

  Attribution with_scores(const at::Tensor& images, const at::Tensor& rows, const at::Tensor& classes) const {
    Attribution out{.scores = scores_of(images), .classes = classes};
    if (!classes.defined()) out.classes = top_classes(rows.defined() ? out.scores.index_select(0, rows) : out.scores);
    return out;
  }

  // `rows` only where takes_rows.
  Attribution explain(const at::Tensor& images, const at::Tensor& rows, const at::Tensor& classes,
                      const std::vector<int64_t>& picture) const {
    if (method.cam) return explain_by_cam(images, rows, classes);
    if (method.rule != nullptr) return explain_by_walk(images, classes, picture);
    const at::Tensor x = rows.defined() ? images.index_select(0, rows) : images;
    return explain_by_gradient(images, x, rows, classes, picture);
  }

  // Pairs in pieces of `batch`, each pair with its own image. A graph of a fixed batch runs on so many and no other
  // number (it may hold a Reshape to [1, -1]): image 0 and class 0 fill the last piece.
  Attribution explain_in_pieces(const at::Tensor& images, const at::Tensor& rows, const at::Tensor& classes,
                                const std::vector<int64_t>& picture, int64_t batch) const {
    const at::Tensor pairs = rows.defined() ? rows : at::arange(images.size(0), at::kLong);
    const int64_t count = pairs.size(0);
    if (classes.defined() && classes.numel() != count)
      throw Error(ErrorKind::shape, "attribution", "{} classes for {} pairs", classes.numel(), count);
    const int64_t full = filled(std::max<int64_t>(count, 1));
    const auto piece_of = [&](const at::Tensor& list, int64_t begin) {
      return list.defined() ? at::constant_pad_nd(list, {0, full - count}).slice(0, begin, begin + batch) : list;
    };
    std::vector<Attribution> pieces;
    for (int64_t begin = 0; begin < full; begin += batch)
      pieces.push_back(explain(images.index_select(0, piece_of(pairs, begin)), {}, piece_of(classes, begin), picture));
    Attribution out = joined(pieces, count);
    if (rows.defined()) out.scores = scores_by_image(images, rows, out.scores);
    return out;
  }

  // The smallest number of images, not below `count`, that whole batches have.
  int64_t filled(int64_t count) const {
    return fixed_batch > 0 ? (count + fixed_batch - 1) / fixed_batch * fixed_batch : count;
  }

  // [N, K] out of the scores of pairs; an image without a pair is run for its own.
  at::Tensor scores_by_image(const at::Tensor& images, const at::Tensor& rows, const at::Tensor& pair_scores) const {
    const at::NoGradGuard no_grad;
    at::Tensor scores = at::zeros({images.size(0), pair_scores.size(1)}, pair_scores.options());
    const at::Tensor known = at::zeros({images.size(0)}, at::kBool).index_fill(0, rows, true);
    scores.index_copy_(0, rows, pair_scores);
    for (int64_t n = 0; n < images.size(0); ++n)
      if (!known[n].item<bool>())
        scores[n].copy_(scores_of(images.index_select(0, at::full({filled(1)}, n, at::kLong)))[0]);
    return scores;
  }

  static std::vector<int64_t> first_axis(const at::Tensor& t) {
    std::vector<int64_t> dims(static_cast<size_t>(t.dim()), 1);
    dims[0] = -1;
    return dims;
  }

  // Inputs that were flattened for the model become pictures again.
  static at::Tensor as_picture(const at::Tensor& attribution, const std::vector<int64_t>& picture) {
    return attribution.reshape({attribution.size(0), picture[0], picture[1], picture[2]});
  }

  AttributionOptions options;
  const AttributionMethod& method;
  Graph graph;
  std::string layer;
  std::vector<std::string> walked;  // values that a walk to the layer needs
  int64_t fixed_batch = 0;          // that the graph runs on; 0: any number
  int64_t most_pairs = 0;           // that fit into memory; 0: any number
  bool takes_rows = false;          // images run once for all their pairs: what pairs share has a row for each image
  std::optional<Program> whole, front, back;
};

Attributor::Attributor(const Graph& model, AttributionOptions options)
    : state_(std::make_unique<const State>(model, std::move(options))) {}
Attributor::~Attributor() = default;
Attributor::Attributor(Attributor&&) noexcept = default;

const std::string& Attributor::layer() const { return state_->layer; }
const AttributionOptions& Attributor::options() const { return state_->options; }

Attribution Attributor::explain(const at::Tensor& images, const at::Tensor& rows, const at::Tensor& classes) const {
  const auto& dims = state_->graph.inputs[0].dims;
  at::Tensor input = dims && dims->size() == 2 ? images.flatten(1) : images;
  if (input.scalar_type() != state_->graph.inputs[0].dtype) input = input.to(state_->graph.inputs[0].dtype);
  std::vector<int64_t> picture = {1, 1, input.numel() / std::max<int64_t>(input.size(0), 1)};
  if (images.dim() == 4) picture = {images.size(1), images.size(2), images.size(3)};
  const int64_t pairs = rows.defined() ? rows.size(0) : input.size(0);
  const int64_t fixed = state_->fixed_batch, most = state_->most_pairs;
  const int64_t batch = fixed > 0 ? fixed : std::max<int64_t>(most > 0 ? std::min(pairs, most) : pairs, 1);
  const bool at_once = fixed > 0 ? pairs == fixed : pairs <= batch;
  const bool whole = at_once && (!rows.defined() || (fixed == 0 && state_->takes_rows));
  return whole || input.size(0) == 0 ? state_->explain(input, rows, classes, picture)
                                     : state_->explain_in_pieces(input, rows, classes, picture, batch);
}

at::Tensor resize_maps(const at::Tensor& maps, int64_t height, int64_t width) {
  if (maps.size(1) == height && maps.size(2) == width) return maps;
  return at::upsample_bilinear2d(maps.unsqueeze(1), {height, width}, /*align_corners=*/false).squeeze(1);
}

}  // namespace pare
