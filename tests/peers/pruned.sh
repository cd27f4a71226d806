#!/bin/bash
# Every exported architecture of torchvision pruned by 30 % of its channels with every compensation that needs no data:
# what is written runs in ONNX Runtime to pare's own output, with at least a quarter of the parameters gone (attention
# models: whatever their MLPs and heads hold, and something).
#
#   pruned.sh [DIRECTORY [NAME…]]   the exported models (data/torchvision); NAME is resnet18 or resnet18.kept
#
# $PARE is the program (build/release/pare), $METHODS the compensations (none most-sim nnls nmf gaussian ot synthetic).
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
exec node "$root/tests/peers/pruned.mjs" "${PARE:-$root/build/release/pare}" "${1:-$root/data/torchvision}" "${@:2}"
