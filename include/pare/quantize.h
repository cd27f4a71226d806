// Quantisation after training: weights as 8-bit or 4-bit integers, activations as 8-bit ones, in ONNX's own form
// (QuantizeLinear and DequantizeLinear, "QDQ"), which ONNX Runtime, OpenVINO and TensorRT read. A few hundred samples
// without labels tell the ranges of activations, and how other weights can make up for what rounding loses.
//
//   pare::QuantizeResult small = pare::quantize(model, samples, {});
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/graph.h"
#include "pare/observer.h"
#include "pare/options.h"
#include "pare/prune.h"
#include "pare/samples.h"

namespace pare {

// Bits of weights. int4 is for matrix products and 1×1 convolutions; the other layers have int8.
enum class WeightBits { int8, int4 };
template <>
struct NamesOf<WeightBits> {
  static constexpr std::string_view names[] = {"int8", "int4"};
};

// Activations as integers of their own range (uint8), of a range about zero (int8), or left in float.
enum class ActivationBits { int8, symmetric, none };
template <>
struct NamesOf<ActivationBits> {
  static constexpr std::string_view names[] = {"int8", "symmetric", "none"};
};

// Which range the integers of an activation cover: all values seen; all but the rarest; the one that keeps the
// distribution most alike (KL divergence); or the one with the least mean squared error.
enum class RangeMethod { minmax, percentile, entropy, mse };
template <>
struct NamesOf<RangeMethod> {
  static constexpr std::string_view names[] = {"minmax", "percentile", "entropy", "mse"};
};

// What is done about rounded weights: nothing; biases give outputs the mean that they had; or each column of weights is
// rounded so that those after it make up for it (OBQ, GPTQ), and biases as well.
enum class RoundingRepair { none, bias, obs };
template <>
struct NamesOf<RoundingRepair> {
  static constexpr std::string_view names[] = {"none", "bias", "obs"};
};

struct QuantizeOptions {
  WeightBits weights = WeightBits::int8;
  ActivationBits activations = ActivationBits::int8;
  RangeMethod range = RangeMethod::mse;
  double percentile = 99.99;
  RoundingRepair compensate = RoundingRepair::obs;
  bool per_tensor = false;                    // one scale for all weights of a layer instead of one for each output
  int64_t block = 0;                          // int4: inputs that share a scale; 0: all of an output
  std::vector<std::string> skip;              // GLOB: layers that stay in float
  bool keep_first = false;                    // the first layer stays in float
  bool keep_last = false;                     // the last one
  int64_t samples = 0;                        // how many are learned from; 0: 256 of those given, 128 that are made
  MadeImages images = MadeImages::distilled;  // where there are no samples
  int64_t distill_steps = 150;
  bool no_mirror = false;          // colour images are used mirrored as well unless this is set
  std::optional<double> max_drop;  // of top-1 (multi-label: of mAP), else Error{quality}
  uint64_t seed = 0;

  void describe(OptionVisitor& options);  // all but the seed
};

struct QuantizedLayer {
  std::string name;
  std::string op;
  int64_t weights = 0;    // how many
  int64_t bits = 0;       // of each; 32: left in float
  std::string reason;     // why it was left
  double error = 0;       // ‖W − Ŵ‖² / ‖W‖² of the weights
  double divergence = 0;  // scan: of the network's answer when this layer alone is quantised
};

struct QuantizeResult {
  Graph graph;
  std::vector<QuantizedLayer> layers;
  std::map<std::string, std::pair<double, double>> ranges;  // of activations, by the name of the value
  Measured before;
  Measured after;
  std::vector<std::string> notes;
  double seconds = 0;
  double method_seconds = 0;
};

// Error{usage} for a model that is quantised already, Error{format} where weights or activations are not finite.
QuantizeResult quantize(const Graph& graph, const Samples& samples, const QuantizeOptions& options,
                        Observer& observer = unobserved());

// Quantises every layer alone, and says what that costs the network's answer (mean KL divergence over samples), dearest
// first. The graph of the result is the one given.
QuantizeResult scan_quantization(const Graph& graph, const Samples& samples, const QuantizeOptions& options,
                                 Observer& observer = unobserved());

}  // namespace pare
