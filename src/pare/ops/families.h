// The operator families, one file each. ops/registry.cpp lists them; a new family adds a line there and here.
#pragma once

#include <span>

#include "pare/ops/op.h"

namespace pare {

std::span<const OpDef> activation_ops();     // Relu, Elu, Sigmoid, Clip, Dropout…: one input, element by element
std::span<const OpDef> arithmetic_ops();     // Add, Mul, Equal, Where…: several inputs, broadcast
std::span<const OpDef> convolution_ops();    // Conv, ConvTranspose
std::span<const OpDef> matrix_ops();         // Gemm, MatMul, Einsum
std::span<const OpDef> normalization_ops();  // BatchNormalization, LayerNormalization, LRN…
std::span<const OpDef> pooling_ops();        // MaxPool, AveragePool, Global…
std::span<const OpDef> reduction_ops();      // Reduce…, ArgMax, TopK, CumSum, Softmax…
std::span<const OpDef> movement_ops();       // Reshape, Transpose, Concat, Split, Slice, Pad…
std::span<const OpDef> indexing_ops();       // Gather, GatherElements, ScatterND, OneHot…
std::span<const OpDef> resize_ops();         // Resize
std::span<const OpDef> constant_ops();       // Constant, Shape, Range, Cast…
std::span<const OpDef> attention_ops();      // Attention, RotaryEmbedding…
std::span<const OpDef> recurrent_ops();      // RNN, GRU, LSTM
std::span<const OpDef> control_flow_ops();   // If, Loop, Scan
std::span<const OpDef> integer_ops();        // MatMulInteger, QLinearConv…
std::span<const OpDef> signal_ops();         // DFT, STFT, windows
std::span<const OpDef> regions_ops();        // NonMaxSuppression, RoiAlign, AffineGrid…
std::span<const OpDef> contrib_ops();        // SwiGLU, BiasGelu, FusedMatMul, MatMulNBits…
std::span<const OpDef> optimizer_ops();      // Adagrad, Momentum, Adam of ai.onnx.preview.training
std::span<const OpDef> legacy_ops();         // ImageScaler, Crop, Affine
std::span<const OpDef> loss_ops();           // SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss

std::span<const OpDef> fused_ops();  // pare's own, made by passes/for_inference

}  // namespace pare
