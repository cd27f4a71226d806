#!/bin/bash
# The same 100 steps in pare and in PyTorch eager: architecture, initial weights, order of the images, SGD with momentum
# and weight decay. Every loss agrees to 1e-3 relative. Learning rates are small because training amplifies rounding: at
# 0.0002 PyTorch's own losses of ResNet-20 differ by 3.3e-3 between one thread and two. $PARE is the program (build/release/pare).
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$root"
failed=0

# parity ARCH DATA BATCH LR NORMALISATION…
parity() {
  local arch=$1 data=$2 batch=$3 lr=$4 worst
  shift 4
  "$pare" convert --arch "$arch" --seed 3 -q -o "$scratch/$arch.safetensors" >/dev/null
  "$pare" train --model "$scratch/$arch.safetensors" --arch "$arch" --data "$data" --batch "$batch" --lr "$lr" --limit $((100 * batch)) \
    --epochs 1 --threads "${THREADS:-2}" --order stored --schedule constant --log-every 1 --runs "$scratch/$arch" -q -o "$scratch/$arch.onnx" "$@" >/dev/null
  node -e 'for (const l of require("fs").readFileSync(0, "utf8").trim().split("\n")) console.log(JSON.parse(l).loss)' \
    <"$(echo "$scratch/$arch"/*/steps.jsonl)" >"$scratch/own"
  /usr/bin/python3 bench/train_peer.py "$arch" "$("$pare" data path "$data")" --batch "$batch" --lr "$lr" --threads "${THREADS:-2}" \
    --init "$scratch/$arch.safetensors" --losses 100 >"$scratch/peer"
  worst=$(paste "$scratch/own" "$scratch/peer" | awk 'NF == 2 {d = ($1 - $2) / $2; d = d < 0 ? -d : d; if (d > w) w = d; ++n} END {print n == 100 ? w : "missing"}')
  if awk -v w="$worst" 'BEGIN {exit !(w + 0 == w && w <= 1e-3)}'; then
    printf 'ok    %-14s 100 losses agree to %.1e\n' "$arch" "$worst"
  else
    printf 'FAIL  %-14s losses differ by %s\n' "$arch" "$worst" && failed=1
  fi
}

parity lenet-300-100 fashion-mnist 64 0.01 --mean 0.5 --std 0.5
parity lenet-5 fashion-mnist 64 0.002 --mean 0.5 --std 0.5
parity resnet20 cifar10 64 0.00005 --mean 0.4914,0.4822,0.4465 --std 0.2470,0.2435,0.2616
exit $failed
