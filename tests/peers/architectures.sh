#!/bin/bash
# Every architecture of torchvision, exported to ONNX with batch norms folded and kept: pare runs it to ONNX Runtime's
# output (max |a-b| / max |b| <= 1e-4), writes it back, ONNX Runtime runs that to the same output, and `inspect` says
# which channel groups can be pruned and why the others cannot. One row per model; fails if any model does.
#
#   architectures.sh [DIRECTORY [NAME…]]   the exported models (data/torchvision); NAME is resnet18 or resnet18.kept
#
# $PARE is the program (build/release/pare).
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
exec node "$root/tests/peers/architectures.mjs" "${PARE:-$root/build/release/pare}" "${1:-$root/data/torchvision}" "${@:2}"
