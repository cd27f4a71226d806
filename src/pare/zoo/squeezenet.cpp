// SqueezeNet 1.1 (Iandola et al. 2016): fire modules squeeze by a 1x1 convolution and widen by a 1x1 and a 3x3 beside
// each other; the last convolution gives the scores. Torchvision's names: features.0, features.3.{squeeze, expand1x1,
// expand3x3}, classifier.1. On small images the stem keeps the size and there is one pool less.
#include <utility>

#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"

namespace pare {
namespace {

struct Fire {
  int place;
  int64_t squeeze, expand;
  bool pool;  // before it
};
constexpr Fire kFires[] = {{3, 16, 64, true},  {4, 16, 64, false},   {6, 32, 128, true},   {7, 32, 128, false},
                           {9, 48, 192, true}, {10, 48, 192, false}, {11, 64, 256, false}, {12, 64, 256, false}};

// Torchvision's pools round up: one row more at the end where the windows do not fit.
BuiltValue pool(GraphBuilder& b, const BuiltValue& x, const std::string& name) {
  const auto extent = [](int64_t n) { return (std::max<int64_t>(n - 3, 0) + 1) / 2 + 1; };
  Node node{.name = name, .op = "MaxPool", .inputs = {x.name}};
  node.attributes = {{"kernel_shape", std::vector<int64_t>{3, 3}},
                     {"strides", std::vector<int64_t>{2, 2}},
                     {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                     {"ceil_mode", int64_t{1}}};
  return b.append(std::move(node), {x.channels(), extent(x.shape[1]), extent(x.shape[2])});
}

}  // namespace

Graph squeezenet_1_1(const ArchOptions& o) {
  GraphBuilder b("squeezenet1_1", o.input);
  const bool large = imagenet_stem(o), bias = o.bias.value_or(true);
  const auto unit = [&](const BuiltValue& x, const std::string& name, int64_t out, int64_t kernel,
                        ConvOptions options) {
    options.bias = bias;
    return b.activation(b.conv(x, name, out, kernel, options), name + "_activation", o.activation);
  };
  BuiltValue x = unit(b.input(), "features.0", scaled_width(o, 64), 3, {.stride = large ? 2 : 1, .pad = large ? 0 : 1});
  for (const auto& [place, squeeze, expand, pooled] : kFires) {
    const std::string path = fmt::format("features.{}", place);
    if (pooled && (large || place != 3)) x = pool(b, x, fmt::format("features.{}", place - 1));
    x = unit(x, path + ".squeeze", scaled_width(o, squeeze), 1, {});
    const int64_t out = scaled_width(o, expand);
    x = b.concat({unit(x, path + ".expand1x1", out, 1, {}), unit(x, path + ".expand3x3", out, 3, {.pad = 1})},
                 path + ".concat");
  }
  x = unit(b.dropout(x, "dropout", o.dropout), "classifier.1", o.classes, 1, {});
  return std::move(b).finish(b.flatten(b.global_average_pool(x, "avgpool")));
}

}  // namespace pare
