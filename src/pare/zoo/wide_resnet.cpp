// WideResNet (Zagoruyko & Komodakis 2016): pre-activation blocks, widths 16k, 32k, 64k. Names of the common PyTorch
// implementation: conv1, block1.layer.0.{bn1, conv1, bn2, conv2, convShortcut}, bn1, fc.
#include <fmt/format.h>

#include <utility>

#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"

namespace pare {
namespace {

// Where the shape changes, the shortcut starts after the first activation: y = conv2(…) + convShortcut(act(bn1(x))).
BuiltValue wide_block(GraphBuilder& b, const BuiltValue& x, const std::string& path, int64_t out, int64_t stride,
                      const ArchOptions& o) {
  BuiltValue entry = b.batch_norm(x, path + ".bn1");
  entry = b.activation(entry, path + ".act1", o.activation);
  BuiltValue y = b.conv(entry, path + ".conv1", out, 3, {.stride = stride, .pad = 1});
  y = b.batch_norm(y, path + ".bn2");
  y = b.activation(y, path + ".act2", o.activation);
  y = b.dropout(y, path + ".dropout", o.dropout);
  y = b.conv(y, path + ".conv2", out, 3, {.pad = 1});
  const bool same = stride == 1 && x.channels() == out;
  return b.add(same ? x : b.conv(entry, path + ".convShortcut", out, 1, {.stride = stride}), y, path + ".add");
}

}  // namespace

Graph wide_resnet(int depth, int factor, const ArchOptions& o) {
  GraphBuilder b(fmt::format("wrn-{}-{}", depth, factor), o.input);
  const int blocks = (depth - 4) / 6;
  BuiltValue x = b.conv(b.input(), "conv1", scaled_width(o, 16), 3, {.pad = 1});
  for (int stage = 1; stage <= 3; ++stage)
    for (int i = 0; i < blocks; ++i)
      x = wide_block(b, x, fmt::format("block{}.layer.{}", stage, i), scaled_width(o, (8 << stage) * factor),
                     stage > 1 && i == 0 ? 2 : 1, o);
  x = b.batch_norm(x, "bn1");
  x = b.activation(x, "act1", o.activation);
  x = b.flatten(b.global_average_pool(x, "avgpool"));
  x = b.linear(x, "fc", o.classes, o.bias.value_or(true));
  return std::move(b).finish(x);
}

}  // namespace pare
