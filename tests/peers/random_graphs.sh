#!/bin/bash
# Random graphs of the supported operators: what pare computes, ONNX Runtime computes from the file that pare wrote.
#
#   random_graphs.sh [COUNT [FIRST]]   so many graphs (1000), from this seed on (1)
#
# $BUILD is the build (build/release), of which random_test makes the graphs and checks the rest of what must hold.
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")/../..
build=${BUILD:-$root/build/release}
count=${1:-1000} first=${2:-1} chunk=500
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
for ((seed = first; seed < first + count; seed += chunk)); do
  rm -rf "$scratch"/*
  left=$((first + count - seed))
  PARE_RANDOM_GRAPHS=$((left < chunk ? left : chunk)) PARE_RANDOM_SEED=$seed PARE_RANDOM_OUT=$scratch \
    "$build/random_test" --gtest_brief=1 | sed -n '/^Running main/d; /^\[.*\(tests\|PASSED\)/d; p' || status=1
  # As the file says: ONNX Runtime's own rewriting of a Pad before a pool makes pools that it refuses.
  ORT_OPTIMIZATION=disabled node "$root/tests/peers/random_graphs.mjs" "$scratch" || status=1
done
exit $status
