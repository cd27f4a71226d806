#!/bin/bash
# MobileNetV2 from Python: pruned, measured, explained and written, with an iterable of arrays and with a DataLoader, and run by
# ONNX Runtime. Skipped, and said so, where the files are not on this machine ($PARE_SHARED/data, ../shared/data).
#   real_python.sh [BUILD_DIRECTORY]    (build/release)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
shared=$(readlink -m "${PARE_SHARED:-$root/../shared}/data")
[ -e "$shared/mobilenetv2.imagenet.onnx" ] || { echo "skipped: there is no $shared/mobilenetv2.imagenet.onnx"; exit 0; }
PYTHONPATH=$build/python exec /usr/bin/python3 "$root/tests/peers/real_python.py" "$shared/mobilenetv2.imagenet.onnx" "$shared/imagenet-sample"
