#!/bin/bash
# The wheel of a build, installed into a fresh environment without network, where the module works.
#   tests/python/wheel.sh [BUILD_DIRECTORY]    (build/release)
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$root/scripts/wheel" "${1:-$root/build/release}" "$scratch"
/usr/bin/python3 -m venv --system-site-packages "$scratch/environment"  # NumPy is Debian's
"$scratch/environment/bin/pip" install --quiet --no-index --no-deps "$scratch"/pare-*.whl
cd "$scratch"
env -i PATH="$scratch/environment/bin" "$scratch/environment/bin/python" -c '
import pare
assert pare.__file__.startswith("'"$scratch"'"), pare.__file__
graph = pare.build("lenet-5")
assert pare.verify(graph, pare.Graph.from_onnx(graph.to_onnx()))
print("ok    pare", pare.__version__, "from the wheel:", graph)'
