// MobileNetV1 (Howard et al. 2017): a convolution, then 13 pairs of a depthwise 3x3 and a pointwise 1x1 convolution,
// each with batch norm and activation. Names of the common PyTorch implementation: model.0.{0 conv, 1 bn, 2 act},
// model.1.{0 depthwise, 1 bn, 2 act, 3 pointwise, 4 bn, 5 act}, …, fc.
#include <fmt/format.h>

#include <utility>

#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"

namespace pare {
namespace {

struct Separable {
  int64_t out;
  int64_t stride;
};
constexpr Separable kMobileBlocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                                       {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};

}  // namespace

Graph mobilenet_v1(const ArchOptions& o) {
  GraphBuilder b("mobilenetv1", o.input);
  int block = 0;
  // conv + bn + activation as the places first, first + 1, first + 2 of the block
  const auto unit = [&](const BuiltValue& x, int first, int64_t out, int64_t kernel, ConvOptions options) {
    const auto path = [&](int place) { return fmt::format("model.{}.{}", block, first + place); };
    BuiltValue y = b.conv(x, path(0), out, kernel, options);
    y = b.batch_norm(y, path(1));
    return b.activation(y, path(2), o.activation);
  };
  BuiltValue x = unit(b.input(), 0, scaled_width(o, 32), 3, {.stride = imagenet_stem(o) ? 2 : 1, .pad = 1});
  for (const auto& [out, stride] : kMobileBlocks) {
    ++block;
    x = unit(x, 0, x.channels(), 3, {.stride = stride, .pad = 1, .groups = x.channels()});
    x = unit(x, 3, scaled_width(o, out), 1, {});
  }
  x = b.flatten(b.global_average_pool(x, "avgpool"));
  x = b.linear(b.dropout(x, "dropout", o.dropout), "fc", o.classes, o.bias.value_or(true));
  return std::move(b).finish(x);
}

}  // namespace pare
