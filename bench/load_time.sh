#!/bin/bash
# Loading a large ONNX file: time against reading the file's bytes twice, and peak memory against the file's size.
#   bench/load_time.sh [MODEL.onnx]     (a widened VGG-16 of the zoo with random weights, about 100 MB)
# Rounds are in turns, and the file is in the page cache for both sides. ROUNDS (9).
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
rounds=${ROUNDS:-9}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tiny=tests/data/cli/mlp.onnx
cmake -S . -B build/release -DPARE_BENCH=ON >/dev/null
cmake --build build/release -j2 --target bench_load_time pare_cli >/dev/null

model=${1:-$scratch/large.onnx}
[ -e "$model" ] || build/release/pare convert --arch vgg16 --width 1.32 -q --no-record -o "$model" >/dev/null
size=$(stat -c %s "$model")

median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
for ((round = 0; round < rounds; ++round)); do
  for side in $( ((round % 2)) && echo load read || echo read load); do
    build/release/bench_load_time $side $tiny "$model" >>"$scratch/$side"
  done
done
load=$(cut -d ' ' -f 1 "$scratch/load" | median)
read_twice=$(cut -d ' ' -f 1 "$scratch/read" | median)
peak=$(cut -d ' ' -f 2 "$scratch/load" | median)
awk -v s="$size" -v l="$load" -v r="$read_twice" -v p="$peak" -v n="$rounds" 'BEGIN {
  printf "%.1f MB, medians of %d rounds in turns\n", s / 1e6, n
  printf "load %.4f s, bytes read twice %.4f s: %.2f times (wanted: under 1.5)\n", l, r, l / r
  printf "peak above the baseline %.1f MB: %.2f times the file (wanted: under 2.2)\n", p * 1024 / 1e6, p * 1024 / s
  exit !(l < 1.5 * r && p * 1024 < 2.2 * s) }'
