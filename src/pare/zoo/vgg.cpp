// VGG (Simonyan & Zisserman 2015) in the form used for CIFAR: torchvision's `features`, then one linear layer
// `classifier` on what the last pool leaves (512 features for 32x32 inputs, 512·7·7 for 224x224).
#include <utility>

#include "pare/error.h"
#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"

namespace pare {
namespace {

constexpr int64_t M = 0;  // a max-pool

// The filters of each 3x3 convolution.
std::vector<int64_t> vgg_features(int layers) {
  switch (layers) {
    case 9: return {16, 16, M, 32, 32, M, 48, 48, 64, 64, M};
    case 11: return {64, M, 128, M, 256, 256, M, 512, 512, M, 512, 512, M};
    case 16: return {64, 64, M, 128, 128, M, 256, 256, 256, M, 512, 512, 512, M, 512, 512, 512, M};
    default: throw Error(ErrorKind::usage, "vgg", "{} layers, expected 9, 11 or 16", layers);
  }
}

}  // namespace

Graph vgg(int layers, bool batch_norm, const ArchOptions& o) {
  GraphBuilder b("vgg" + std::to_string(layers) + (batch_norm ? "-bn" : ""), o.input);
  const bool bias = o.bias.value_or(true);
  int index = 0;
  const auto next = [&index] { return "features." + std::to_string(index++); };
  BuiltValue x = b.input();
  for (const int64_t filters : vgg_features(layers)) {
    if (filters == M) {
      x = b.max_pool(x, next());
      continue;
    }
    x = b.conv(x, next(), scaled_width(o, filters), 3, {.pad = 1, .bias = bias});
    if (batch_norm) x = b.batch_norm(x, next());
    x = b.activation(x, next(), o.activation);
  }
  x = b.dropout(b.flatten(x), "dropout", o.dropout);
  x = b.linear(x, "classifier", o.classes, bias);
  return std::move(b).finish(x);
}

}  // namespace pare
