#!/bin/bash
# Quantised models in ONNX Runtime: what `pare quantize` writes runs there, as int8 operators, to pare's own output within
# so many quantisation steps of it, in every form: uint8 and symmetric activations, int4 weights with and without blocks.
#
#   quantized.sh [MODEL.onnx…]   with one input of 1x3x224x224; without, a few architectures and, where they are on this machine
#                                ($PARE_SHARED/data, ../shared/data), MobileNetV2 and SqueezeNet
#
# $PARE is the program (build/release/pare).
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
exec node "$root/tests/peers/quantized.mjs" "${PARE:-$root/build/release/pare}" "$root" "$@"
