#include "pare/zoo/zoo.h"

#include <algorithm>
#include <cmath>

#include "pare/error.h"
#include "pare/zoo/families.h"
#include "pare/zoo/init.h"
#include "pare/zoo/nearest.h"

namespace pare {
namespace {

using Aliases = std::vector<std::pair<std::string, std::string>>;
using Options = const ArchOptions&;

// The other widespread form: conv1, bn1, layers.0.{conv1, bn1, conv2, bn2}, …, linear.
Aliases mobilenet_aliases() {
  Aliases aliases = {{"linear", "fc"}, {"classifier", "fc"}, {"conv1", "model.0.0"}, {"bn1", "model.0.1"}};
  for (int i = 0; i < 13; ++i) {
    int place = 0;
    for (const char* part : {"conv1", "bn1", "conv2", "bn2"}) {
      aliases.emplace_back(fmt::format("layers.{}.{}", i, part), fmt::format("model.{}.{}", i + 1, place));
      place += place == 1 ? 2 : 1;
    }
  }
  return aliases;
}

std::vector<ArchInfo> list_architectures() {
  const std::vector<int64_t> gray28 = {1, 28, 28};
  const std::vector<int64_t> color32 = {3, 32, 32};
  const std::vector<int64_t> color56 = {3, 56, 56};
  const Aliases linear_names = {{"fc1", "ip1"}, {"fc2", "ip2"}, {"fc3", "ip3"}, {"ip1", "fc1"},
                                {"ip2", "fc2"}, {"ip3", "fc3"}, {"ip4", "fc4"}};
  const Aliases vgg_head = {
      {"classifier.0", "classifier"}, {"classifier.1", "classifier"}, {"fc", "classifier"}, {"linear", "classifier"}};
  const Aliases linear_head = {{"fc", "linear"}, {"classifier", "linear"}, {"shortcut", "downsample"}};
  const Aliases fc_head = {{"linear", "fc"}, {"classifier", "fc"}, {"shortcut", "downsample"}};
  const Aliases wide_head = {{"linear", "fc"}, {"classifier", "fc"}};
  return {
      {"lenet-300-100", "784-300-100-10 perceptron", gray28, lenet_300_100, linear_names},
      {"lenet-5", "two 5x5 convolutions (20, 50), 500 hidden units", gray28, lenet_5, linear_names},
      {"mlpnet", "784-400-200-100-10 perceptron without biases", gray28, mlpnet, linear_names},
      {"convnet", "two 5x5 convolutions (16, 32), 128 hidden units", gray28,
       [](Options o) { return convnet(false, o); }, linear_names},
      {"convnet-bn", "convnet with batch norm", gray28, [](Options o) { return convnet(true, o); }, linear_names},
      {"vgg9", "8 convolutions 16…64, 3 pools, for small images", color56, [](Options o) { return vgg(9, false, o); },
       vgg_head},
      {"vgg9-bn", "vgg9 with batch norm", color56, [](Options o) { return vgg(9, true, o); }, vgg_head},
      {"vgg11", "VGG-11, one linear layer", color32, [](Options o) { return vgg(11, false, o); }, vgg_head},
      {"vgg11-bn", "VGG-11 with batch norm", color32, [](Options o) { return vgg(11, true, o); }, vgg_head},
      {"vgg16", "VGG-16, one linear layer", color32, [](Options o) { return vgg(16, false, o); }, vgg_head},
      {"vgg16-bn", "VGG-16 with batch norm", color32, [](Options o) { return vgg(16, true, o); }, vgg_head},
      {"resnet20", "CIFAR ResNet, 3 stages of 3 blocks", color32, [](Options o) { return cifar_resnet(20, o); },
       linear_head},
      {"resnet32", "CIFAR ResNet, 3 stages of 5 blocks", color32, [](Options o) { return cifar_resnet(32, o); },
       linear_head},
      {"resnet44", "CIFAR ResNet, 3 stages of 7 blocks", color32, [](Options o) { return cifar_resnet(44, o); },
       linear_head},
      {"resnet56", "CIFAR ResNet, 3 stages of 9 blocks", color32, [](Options o) { return cifar_resnet(56, o); },
       linear_head},
      {"resnet18", "ResNet-18, 3x3 stem for small images", color32, [](Options o) { return resnet(18, o); }, fc_head},
      {"resnet34", "ResNet-34, 3x3 stem for small images", color32, [](Options o) { return resnet(34, o); }, fc_head},
      {"wrn-16-4", "WideResNet, depth 16, 4 times as wide", color32, [](Options o) { return wide_resnet(16, 4, o); },
       wide_head},
      {"wrn-40-4", "WideResNet, depth 40, 4 times as wide", color32, [](Options o) { return wide_resnet(40, 4, o); },
       wide_head},
      {"mobilenetv1", "MobileNetV1, 13 depthwise separable blocks", color32, mobilenet_v1, mobilenet_aliases()},
      {"mobilenetv2", "MobileNetV2, 17 inverted residual blocks", color32, mobilenet_v2, {}, "relu6"},
      {"squeezenet1_1", "SqueezeNet 1.1, 8 fire modules", color32, squeezenet_1_1},
      {"vit-tiny",
       "vision transformer: DeiT-tiny; 6 blocks of width 128 for small images",
       color32,
       vit_tiny,
       {},
       "gelu"},
      {"bert-tiny", "text encoder, 2 layers of width 128; token ids in", {128}, bert_tiny, {}, "gelu"},
  };
}

void check_arch_options(const ArchOptions& o, size_t axes) {
  if (!(o.width > 0.0 && o.width <= 64.0))
    throw Error(ErrorKind::usage, "width", "expected a number above 0 and up to 64, found {}", o.width);
  if (o.classes < 1) throw Error(ErrorKind::usage, "classes", "expected at least 1, found {}", o.classes);
  if (!(o.dropout >= 0.0 && o.dropout < 1.0))
    throw Error(ErrorKind::usage, "dropout", "expected a ratio from 0 to below 1, found {}", o.dropout);
  if (o.input.size() == 1 && o.input[0] >= 1 && axes == 1) return;
  if (axes == 1)
    throw Error(ErrorKind::usage, "input", "expected how many tokens, found [{}]", fmt::join(o.input, ", "));
  if (o.input.size() != 3 || std::any_of(o.input.begin(), o.input.end(), [](int64_t extent) { return extent < 1; }))
    throw Error(ErrorKind::usage, "input", "expected channels, height and width, found [{}]", fmt::join(o.input, ", "));
}

}  // namespace

const std::vector<ArchInfo>& architectures() {
  static const std::vector<ArchInfo> list = list_architectures();
  return list;
}

const ArchInfo* find_architecture(const std::string& name) {
  for (const ArchInfo& info : architectures())
    if (info.name == name) return &info;
  return nullptr;
}

Graph build(const std::string& arch, const ArchOptions& options, uint64_t seed) {
  const ArchInfo* info = find_architecture(arch);
  if (info == nullptr) {
    std::vector<std::string> names;
    for (const ArchInfo& known : architectures()) names.push_back(known.name);
    throw Error(ErrorKind::usage, "arch", "there is no architecture '{}'; the nearest names are {}", arch,
                fmt::join(nearest(arch, names, 3), ", "));
  }
  ArchOptions resolved = options;
  if (resolved.input.empty()) resolved.input = info->input;
  if (resolved.activation.empty()) resolved.activation = info->activation;
  check_arch_options(resolved, info->input.size());
  Graph graph = initialize(info->builder(resolved), seed);
  verify(graph);
  return graph;
}

int64_t scaled_width(const ArchOptions& options, int64_t channels) {
  return std::max<int64_t>(1, std::llround(options.width * static_cast<double>(channels)));
}

bool imagenet_stem(const ArchOptions& options) { return options.input[1] > 64; }

}  // namespace pare
