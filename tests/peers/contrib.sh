#!/bin/bash
# com.microsoft's operators and recurrent ones against ONNX Runtime.
#
#   contrib.sh [DIRECTORY]   for models and outputs (a temporary one)
#
# $PARE is the program (build/release/pare).
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
directory=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$directory"' EXIT
/usr/bin/python3 "$root/tests/peers/contrib.py" "${PARE:-$root/build/release/pare}" "$directory"
