#!/bin/bash
# Every ONNX file of a directory as a user meets it: inspected, run, pruned by a fifth of its multiply-accumulates and run again,
# with the outputs of pare and of ONNX Runtime compared before and after (1e-4 of the largest output, or 1e-6). docs/real-models.md lists
# files of npm packages to try.
#
#   real_models.sh DIRECTORY [NAME…]
#
# DIRECTORY/inputs.json says what files leave open, for a model or for all: {"*": {"sequence": 512, "sr": 16000, "state": [2, 1, 128]}}
# are extents by the names of dimensions, and values or all extents by the names of inputs; anything else is 1, and floating-point
# inputs are random. {"vad": {"bind": ["sr=16000"]}}: vad.onnx is converted with --bind first.
# $PARE is the program (build/release/pare), $COMPENSATE the compensation (most-sim, which needs no data).
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
[ $# -ge 1 ] || { echo "usage: real_models.sh DIRECTORY [NAME…]"; exit 2; }
exec node "$root/tests/peers/real_models.mjs" "${PARE:-$root/build/release/pare}" "$@"
