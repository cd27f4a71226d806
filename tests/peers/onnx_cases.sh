#!/bin/bash
# The node tests of the newest ONNX: written by onnx_cases.py, then each passes or is refused by name.
#
#   onnx_cases.sh [TREE [DIRECTORY]]   TREE: a source tree of onnx/onnx ($PARE_ONNX_TREE); DIRECTORY: for the cases (a temporary one)
#
# $TEST is the test program (build/release/workflow_test).
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
tree=${1:-${PARE_ONNX_TREE:-}}
[ -n "$tree" ] || { echo "no source tree of ONNX named (\$PARE_ONNX_TREE or an argument): nothing was compared"; exit 0; }
directory=${2:-$(mktemp -d)}
[ $# -gt 1 ] || trap 'rm -rf "$directory"' EXIT
"$root/tests/peers/onnx_cases.py" "$tree" "$directory"
PARE_ONNX_CASES=$directory "${TEST:-$root/build/release/workflow_test}" --gtest_filter='OnnxTestData.EveryCase*'
