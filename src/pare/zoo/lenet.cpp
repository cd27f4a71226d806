// The small networks of the papers: fully connected ones, LeNet-5 and a convnet. Inputs are images; the fully connected
// ones flatten them first.
#include "pare/zoo/builder.h"
#include "pare/zoo/families.h"

namespace pare {
namespace {

// Linear layers with the activation between them: prefix1, prefix2, …
BuiltValue linear_stack(GraphBuilder& b, BuiltValue x, const std::string& prefix, const std::vector<int64_t>& hidden,
                        const ArchOptions& o) {
  const bool bias = o.bias.value_or(true);
  int i = 1;
  for (const int64_t width : hidden) {
    x = b.linear(x, prefix + std::to_string(i), scaled_width(o, width), bias);
    x = b.activation(x, "act_" + prefix + std::to_string(i), o.activation);
    ++i;
  }
  x = b.dropout(x, "dropout", o.dropout);
  return b.linear(x, prefix + std::to_string(i), o.classes, bias);
}

// conv + activation + 2x2 max-pool
BuiltValue pooled_conv(GraphBuilder& b, BuiltValue x, int index, int64_t out, int64_t pad, bool batch_norm,
                       const ArchOptions& o) {
  const std::string i = std::to_string(index);
  x = b.conv(x, "conv" + i, scaled_width(o, out), 5, {.pad = pad, .bias = o.bias.value_or(true)});
  if (batch_norm) x = b.batch_norm(x, "bn" + i);
  x = b.activation(x, "act_conv" + i, o.activation);
  return b.max_pool(x, "pool" + i);
}

}  // namespace

// 784-300-100-10 (LeCun et al. 1998)
Graph lenet_300_100(const ArchOptions& o) {
  GraphBuilder b("lenet-300-100", o.input);
  const BuiltValue logits = linear_stack(b, b.flatten(b.input()), "ip", {300, 100}, o);
  return std::move(b).finish(logits);
}

// 784-400-200-100-10, without biases unless asked for (Singh & Jaggi 2020)
Graph mlpnet(const ArchOptions& o) {
  ArchOptions options = o;
  options.bias = o.bias.value_or(false);
  GraphBuilder b("mlpnet", o.input);
  const BuiltValue logits = linear_stack(b, b.flatten(b.input()), "fc", {400, 200, 100}, options);
  return std::move(b).finish(logits);
}

// The form of Caffe: 20 and 50 filters 5x5 without padding, 500 hidden units.
Graph lenet_5(const ArchOptions& o) {
  GraphBuilder b("lenet-5", o.input);
  BuiltValue x = pooled_conv(b, b.input(), 1, 20, 0, false, o);
  x = pooled_conv(b, x, 2, 50, 0, false, o);
  const BuiltValue logits = linear_stack(b, b.flatten(x), "ip", {500}, o);
  return std::move(b).finish(logits);
}

// 16 and 32 filters 5x5 that keep the size, 128 hidden units.
Graph convnet(bool batch_norm, const ArchOptions& o) {
  GraphBuilder b(batch_norm ? "convnet-bn" : "convnet", o.input);
  BuiltValue x = pooled_conv(b, b.input(), 1, 16, 2, batch_norm, o);
  x = pooled_conv(b, x, 2, 32, 2, batch_norm, o);
  const BuiltValue logits = linear_stack(b, b.flatten(x), "fc", {128}, o);
  return std::move(b).finish(logits);
}

}  // namespace pare
