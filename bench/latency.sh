#!/bin/bash
# Latency of ResNet-20, by our executor and by ONNX Runtime in turns: as it is, with half of its channels removed
# (half.onnx), with the same channels set to zero but left in place (masked.onnx), and with 90 % of its weights set to zero
# wherever they are (zeros.onnx).
#   bench/latency.sh [ROUNDS [SECONDS]]     (200, at most 90 s)
# Needs python3-onnx, CIFAR-10, and ONNX Runtime in data/. $PARE is the program, $THREADS the threads (1).
# Ends with exit code 4 where masked and removed do not compute the same: then they are not comparable.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
export PARE_DATA=${PARE_DATA:-$root/data}
rounds=${1:-200} seconds=${2:-90} threads=${THREADS:-1}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" # short names in the table

"$pare" convert --arch resnet20 -q --no-record -o resnet20.onnx >/dev/null
"$pare" prune resnet20.onnx --criterion l1 --channels 0.5 --compensate none -q --no-record -o half.onnx >/dev/null
/usr/bin/python3 "$root/bench/mask_channels.py" resnet20.onnx half.onnx masked.onnx
"$pare" verify masked.onnx half.onnx --samples 8 --tolerance 1e-4 -q --no-record >/dev/null
echo "masked.onnx and half.onnx compute the same (pare verify)"
"$pare" sparsify resnet20.onnx --data cifar10 --limit 256 --method magnitude --sparsity 0.9 --runs runs -q --no-record \
  -o zeros.onnx >/dev/null

"$pare" bench {resnet20,half,masked,zeros}.onnx --batch 32 --threads "$threads" --rounds "$rounds" --seconds "$seconds" \
  --no-record | tee table
# Ratios of medians; without ONNX Runtime only our own.
awk -F '  +' '
  $2 == "pare" {own[$1] = $3}
  $2 == "ONNX Runtime" {peer[$1] = $3; both = 1}
  function row(a, b) {
    printf "%-34s %6.2f%s\n", a " against " b, own[b] / own[a], both ? sprintf(" %14.2f", peer[b] / peer[a]) : ""
  }
  END {
    printf "\n%-34s %6s%s\n", "times as fast", "pare", both ? "   ONNX Runtime" : ""
    row("half.onnx", "masked.onnx")
    row("half.onnx", "zeros.onnx")
    row("masked.onnx", "resnet20.onnx")
    row("zeros.onnx", "resnet20.onnx")
    split("resnet20.onnx half.onnx masked.onnx zeros.onnx", models, " ")
    for (m = 1; both && m <= 4; ++m) list = list (m > 1 ? ", " : "") sprintf("%s %.2f", models[m], peer[models[m]] / own[models[m]])
    if (both) printf "pare against ONNX Runtime: %s\n", list
  }' table
