#!/bin/bash
# What a step of continuous sparsification costs, against a step of dense training: the same network, batch and threads,
# in turns. The target is 1.25.
#   bench/mask_cost.sh [ROUNDS]
# $PARE is the program, $THREADS the threads (1).
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
pare=$(readlink -f "${PARE:-$root/build/release/pare}")
rounds=${1:-5} threads=${THREADS:-1}
cd "$root"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# speed COMMAND… : images per second of its first epoch
speed() {
  "$pare" "$@" --threads "$threads" --epochs 1 --schedule constant --runs "$scratch/runs" --fresh --force --json -q -o "$scratch/out.onnx" >/dev/null
  node -e 'const [line] = require("fs").readFileSync(0, "utf8").split("\n"); console.log(JSON.parse(line).images_per_second)' <"$(ls -t "$scratch"/runs/*/log.jsonl | head -1)"
}

printf '%d rounds in turns; training images per second, medians\n' "$rounds"
printf '%-12s %7s %12s %12s %7s\n' model threads dense cs cost
for net in "lenet-5 fashion-mnist 64 6400" "resnet20 cifar10 128 1280"; do
  read -r arch data batch images <<<"$net"
  : >"$scratch/dense" && : >"$scratch/cs"
  for ((round = 0; round < rounds; ++round)); do
    speed train --arch "$arch" --data "$data" --batch "$batch" --limit "$images" >>"$scratch/dense"
    speed sparsify --arch "$arch" --data "$data" --batch "$batch" --limit "$images" --method cs >>"$scratch/cs"
  done
  awk -v n="$arch" -v t="$threads" -v a="$(median <"$scratch/dense")" -v b="$(median <"$scratch/cs")" \
    'BEGIN {printf "%-12s %7d %12.0f %12.0f %7.2f\n", n, t, a, b, a / b}'
done
