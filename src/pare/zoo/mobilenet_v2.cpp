// MobileNetV2 (Sandler et al. 2018): blocks that widen six times, filter each channel and narrow again without an
// activation, with a shortcut where the shape stays. Torchvision's names: features.0.{0, 1}, features.2.conv.{0.0, 0.1,
// 1.0, 1.1, 2, 3}, features.18, classifier.1. On small images the stem and the first widening stage keep their size.
#include <utility>

#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"

namespace pare {
namespace {

struct Stage {
  int64_t widen, out, blocks, stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

}  // namespace

Graph mobilenet_v2(const ArchOptions& o) {
  GraphBuilder b("mobilenetv2", o.input);
  const bool large = imagenet_stem(o);
  // conv PATH.0, batch norm PATH.1, activation PATH.2
  const auto unit = [&](const BuiltValue& x, const std::string& path, int64_t out, int64_t kernel,
                        ConvOptions options) {
    return b.activation(b.batch_norm(b.conv(x, path + ".0", out, kernel, options), path + ".1"), path + ".2",
                        o.activation);
  };
  BuiltValue x = unit(b.input(), "features.0", scaled_width(o, 32), 3, {.stride = large ? 2 : 1, .pad = 1});
  int index = 0;
  for (const Stage& stage : kStages)
    for (int64_t i = 0; i < stage.blocks; ++i) {
      const std::string path = fmt::format("features.{}.conv", ++index);
      const bool halve = i == 0 && stage.stride == 2 && (large || stage.out != 24);
      const int64_t out = scaled_width(o, stage.out), hidden = stage.widen * x.channels();
      int place = 0;
      BuiltValue y = stage.widen == 1 ? x : unit(x, fmt::format("{}.{}", path, place++), hidden, 1, {});
      y = unit(y, fmt::format("{}.{}", path, place++), hidden, 3,
               {.stride = halve ? 2 : 1, .pad = 1, .groups = hidden});
      y = b.conv(y, fmt::format("{}.{}", path, place), out, 1);
      y = b.batch_norm(y, fmt::format("{}.{}", path, place + 1));
      x = !halve && x.channels() == out ? b.add(x, y, fmt::format("features.{}.add", index)) : y;
    }
  x = unit(x, "features.18", scaled_width(o, 1280), 1, {});
  x = b.flatten(b.global_average_pool(x, "avgpool"));
  x = b.linear(b.dropout(x, "dropout", o.dropout), "classifier.1", o.classes, o.bias.value_or(true));
  return std::move(b).finish(x);
}

}  // namespace pare
