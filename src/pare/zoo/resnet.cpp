// Residual networks (He et al. 2016) of basic blocks:
//   cifar_resnet  conv1 (16), three stages of 16, 32, 64 channels, `linear`
//   resnet        torchvision's names: conv1 (64), four stages of 64…512 channels, `fc`
#include <utility>

#include "pare/error.h"
#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"

namespace pare {
namespace {

bool projects_shortcut(const ArchOptions& o, bool by_default) {
  return o.shortcut == Shortcut::automatic ? by_default : o.shortcut == Shortcut::b;
}

class ResidualStages {
 public:
  ResidualStages(GraphBuilder& b, bool project, const ArchOptions& o) : b_(b), project_(project), o_(o) {}

  // layer<number>: `blocks` basic blocks, of which the first has the stride.
  BuiltValue stage(BuiltValue x, int number, int blocks, int64_t channels, int64_t stride) {
    for (int i = 0; i < blocks; ++i)
      x = block(x, fmt::format("layer{}.{}", number, i), scaled_width(o_, channels), i == 0 ? stride : 1);
    return x;
  }

 private:
  // act(bn2(conv2(act(bn1(conv1(x))))) + shortcut(x))
  BuiltValue block(const BuiltValue& x, const std::string& path, int64_t out, int64_t stride) {
    BuiltValue y = b_.conv(x, path + ".conv1", out, 3, {.stride = stride, .pad = 1});
    y = b_.batch_norm(y, path + ".bn1");
    y = b_.activation(y, path + ".act1", o_.activation);
    y = b_.conv(y, path + ".conv2", out, 3, {.pad = 1});
    y = b_.batch_norm(y, path + ".bn2");
    y = b_.add(y, shortcut(x, path, out, stride), path + ".add");
    return b_.activation(y, path + ".act2", o_.activation);
  }

  BuiltValue shortcut(const BuiltValue& x, const std::string& path, int64_t out, int64_t stride) {
    if (stride == 1 && x.channels() == out) return x;
    if (project_) {
      const BuiltValue y = b_.conv(x, path + ".downsample.0", out, 1, {.stride = stride});
      return b_.batch_norm(y, path + ".downsample.1");
    }
    const int64_t more = out - x.channels();
    if (more < 0) throw Error(ErrorKind::shape, path, "shortcut a cannot go from {} to {} channels", x.channels(), out);
    const BuiltValue y = b_.subsample(x, path + ".shortcut.subsample", stride);
    return more == 0 ? y : b_.pad_channels(y, path + ".shortcut", more / 2, more - more / 2);
  }

  GraphBuilder& b_;
  bool project_;
  const ArchOptions& o_;
};

}  // namespace

Graph cifar_resnet(int depth, const ArchOptions& o) {
  GraphBuilder b("resnet" + std::to_string(depth), o.input);
  ResidualStages stages(b, projects_shortcut(o, /*by_default=*/false), o);
  const int blocks = (depth - 2) / 6;
  BuiltValue x = b.conv(b.input(), "conv1", scaled_width(o, 16), 3, {.pad = 1});
  x = b.batch_norm(x, "bn1");
  x = b.activation(x, "act1", o.activation);
  x = stages.stage(x, 1, blocks, 16, 1);
  x = stages.stage(x, 2, blocks, 32, 2);
  x = stages.stage(x, 3, blocks, 64, 2);
  x = b.flatten(b.global_average_pool(x, "avgpool"));
  x = b.linear(b.dropout(x, "dropout", o.dropout), "linear", o.classes, o.bias.value_or(true));
  return std::move(b).finish(x);
}

Graph resnet(int depth, const ArchOptions& o) {
  GraphBuilder b("resnet" + std::to_string(depth), o.input);
  ResidualStages stages(b, projects_shortcut(o, /*by_default=*/true), o);
  const bool deep = depth == 34;
  const bool large = imagenet_stem(o);
  BuiltValue x = large ? b.conv(b.input(), "conv1", scaled_width(o, 64), 7, {.stride = 2, .pad = 3})
                       : b.conv(b.input(), "conv1", scaled_width(o, 64), 3, {.pad = 1});
  x = b.batch_norm(x, "bn1");
  x = b.activation(x, "act1", o.activation);
  if (large) x = b.max_pool(x, "maxpool", {.kernel = 3, .stride = 2, .pad = 1});
  x = stages.stage(x, 1, deep ? 3 : 2, 64, 1);
  x = stages.stage(x, 2, deep ? 4 : 2, 128, 2);
  x = stages.stage(x, 3, deep ? 6 : 2, 256, 2);
  x = stages.stage(x, 4, deep ? 3 : 2, 512, 2);
  x = b.flatten(b.global_average_pool(x, "avgpool"));
  x = b.linear(b.dropout(x, "dropout", o.dropout), "fc", o.classes, o.bias.value_or(true));
  return std::move(b).finish(x);
}

}  // namespace pare
