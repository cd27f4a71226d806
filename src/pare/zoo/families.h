// The families of architectures, one file each; zoo/zoo.cpp lists them. They return graphs whose parameters are zero.
#pragma once

#include <cstdint>

#include "pare/graph.h"
#include "pare/zoo/zoo.h"

namespace pare {

Graph lenet_300_100(const ArchOptions& options);
Graph lenet_5(const ArchOptions& options);
Graph mlpnet(const ArchOptions& options);
Graph convnet(bool batch_norm, const ArchOptions& options);
Graph vgg(int layers, bool batch_norm, const ArchOptions& options);    // 9, 11 or 16 layers
Graph cifar_resnet(int depth, const ArchOptions& options);             // depth = 6n + 2
Graph resnet(int depth, const ArchOptions& options);                   // 18 or 34
Graph wide_resnet(int depth, int factor, const ArchOptions& options);  // depth = 6n + 4
Graph mobilenet_v1(const ArchOptions& options);
Graph mobilenet_v2(const ArchOptions& options);
Graph squeezenet_1_1(const ArchOptions& options);
Graph vit_tiny(const ArchOptions& options);
Graph bert_tiny(const ArchOptions& options);

// max(1, round(options.width * channels))
int64_t scaled_width(const ArchOptions& options, int64_t channels);

// Whether the options ask for a stem made for large images.
bool imagenet_stem(const ArchOptions& options);

}  // namespace pare
