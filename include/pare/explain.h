// Every attribution method through one interface: a map for (image, class) pairs of a model.
//
//   gradcam, hirescam, gradcam++                at a layer
//   gradient, input-x-gradient, ig, smoothgrad  at the input
//   ebp, contrastive-ebp                        at a layer, or the input
//   lrp, rap                                    at the input, or a layer
//
// Where an input or a layer has channels, its map is their sum; for gradient and smoothgrad it is the largest
// magnitude, for rap and contrastive-ebp the positive part of the sum. An Attributor is immutable and may be used by
// several threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/samples.h"

namespace pare {

class OptionVisitor;

struct AttributionOptions {
  std::string method = "gradcam";    // of attribution_methods()
  std::string layer;                 // empty: the last spatial activation for layer methods, else the input
  std::string lrp = "alpha1-beta0";  // of lrp_presets()
  int64_t steps = 20;                // ig
  int64_t samples = 16;              // smoothgrad
  double noise = 0.15;               // smoothgrad
  uint64_t seed = 0;                 // smoothgrad
  int64_t memory =
      int64_t{2} << 30;  // bytes for the values of all pairs explained at once; class activation maps need few

  void describe(OptionVisitor& options);
  void check() const;  // Error{usage} for an option of another method
};

// The names that `method` and `lrp` take.
const std::vector<std::string>& attribution_methods();
const std::vector<std::string>& lrp_presets();

struct Attribution {
  at::Tensor maps;       // [P, h, w], as large as the layer or the input
  at::Tensor scores;     // [N, K], of the images
  at::Tensor classes;    // int64 [P]: what each map explains
  at::Tensor relevance;  // [P], lrp, ebp, rap: the sum that arrived at the layer or passed beside it
  at::Tensor expected;   // [P]: the sum that should have (the score, or 1); ig: the score's difference

  // |arrived − expected| / |expected| of each pair, 0 where nothing was expected; undefined for other methods.
  at::Tensor errors() const;
  double largest_error() const;  // NaN for other methods
  double mean_error() const;
};

class Attributor {
 public:
  // Error{usage} for an unknown method or layer, Error{shape} where a layer has no spatial extent.
  Attributor(const Graph& model, AttributionOptions options);
  ~Attributor();
  Attributor(Attributor&&) noexcept;

  // Images as the model takes them, [N, C, H, W] or [N, features]; pair p explains image rows[p] (all, in order, when
  // undefined) for classes[p] (the top class when undefined). A model with a fixed batch takes that many pairs at a
  // time. Error{unsupported} names an operator without a rule.
  Attribution explain(const at::Tensor& images, const at::Tensor& rows = {}, const at::Tensor& classes = {}) const;

  const std::string& layer() const;  // the value that maps are taken at
  const AttributionOptions& options() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

struct ExplainOptions {
  AttributionOptions attribution;
  std::vector<int64_t> classes;  // to explain: one for each sample, or one for all; none: each sample's top class
  int64_t batch = 32;            // samples explained at once
};

// One map for each sample. Error{shape} for a model of several inputs.
Attribution explain(const Graph& model, const Samples& samples, const ExplainOptions& options = {},
                    Observer& observer = unobserved());
// Over a stream, with memory for a batch and for the maps.
Attribution explain(const Graph& model, const SampleStream& samples, const ExplainOptions& options = {},
                    Observer& observer = unobserved());

// [P, h, w] to [P, height, width], bilinear with half-pixel centres.
at::Tensor resize_maps(const at::Tensor& maps, int64_t height, int64_t width);

}  // namespace pare
